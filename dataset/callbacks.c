/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the callbacks of a program. Any field may be wrong, so each is checked before it is used.
 */
#include "dataset/callbacks.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dataset/kind.h"

static mr_status check_data(const mr_callbacks *callbacks, struct mr_sample_kind *kind,
                            mr_error *error)
{
    if (callbacks->ndim == 0) {
        if (callbacks->dtype != MR_DTYPE_DEFAULT)
            return mr_error_set(error, MR_ERR_INVALID,
                                "dtype %s needs a shape; encoded images have neither",
                                mr_dtype_name(callbacks->dtype));
        kind->encoded = 1;
        kind->picture = 1;
        return MR_OK;
    }
    mr_dtype dtype = callbacks->dtype == MR_DTYPE_DEFAULT ? MR_U8 : callbacks->dtype;
    if (callbacks->ndim > MR_MAX_NDIM - 1)
        return mr_error_set(error, MR_ERR_INVALID, "ndim %" PRIu32 " is above the limit of %d",
                            callbacks->ndim, MR_MAX_NDIM - 1);
    if (mr_dtype_size(dtype) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "dtype %d is not an mr_dtype", (int)dtype);
    if (callbacks->layout != MR_NCHW && callbacks->layout != MR_NHWC)
        return mr_error_set(error, MR_ERR_INVALID, "layout %d is not an mr_layout",
                            (int)callbacks->layout);
    if (!mr_kind_set_raw(kind, dtype, callbacks->ndim, callbacks->shape, callbacks->layout))
        return mr_error_set(error, MR_ERR_INVALID,
                            "a dimension of the shape is below 1, or the product is too large");
    return MR_OK;
}

static mr_status check_label(const mr_callbacks *callbacks, struct mr_sample_kind *kind,
                             mr_error *error)
{
    if (callbacks->label_ndim == 0 && callbacks->label_dtype == MR_DTYPE_DEFAULT) {
        mr_kind_set_integer_label(kind);
        return MR_OK;
    }
    if (callbacks->label_ndim > MR_MAX_NDIM - 1)
        return mr_error_set(error, MR_ERR_INVALID,
                            "label_ndim %" PRIu32 " is above the limit of %d",
                            callbacks->label_ndim, MR_MAX_NDIM - 1);
    kind->label_dtype =
        callbacks->label_dtype == MR_DTYPE_DEFAULT ? MR_I64 : callbacks->label_dtype;
    kind->label_ndim = callbacks->label_ndim;
    memcpy(kind->label_shape, callbacks->label_shape, kind->label_ndim * sizeof *kind->label_shape);
    if (mr_dtype_size(kind->label_dtype) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "label_dtype %d is not an mr_dtype",
                            (int)kind->label_dtype);
    if (!mr_kind_shape_bytes(kind->label_dtype, kind->label_ndim, kind->label_shape,
                             &kind->label_bytes))
        return mr_error_set(
            error, MR_ERR_INVALID,
            "a dimension of the label's shape is below 1, or the product is too large");
    return MR_OK;
}

#define MAX_ROW (UINT64_C(1) << 30)

static mr_status add_column(const mr_column_form *form, struct mr_sample_kind *kind,
                            mr_error *error)
{
    struct mr_extra *extra = &kind->extra[kind->n_extra++];
    uint64_t bytes;
    if (!form->name || !*form->name || strlen(form->name) >= sizeof extra->name)
        return mr_error_set(error, MR_ERR_INVALID, "column %u has no name of 1 to %zu bytes",
                            kind->n_extra - 1, sizeof extra->name - 1);
    if (mr_dtype_size((mr_dtype)form->dtype) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "column '%s': dtype %u is not an mr_dtype",
                            form->name, form->dtype);
    if (form->ndim > MR_MAX_NDIM - 1 || form->ragged > 1 || (form->ragged && form->ndim != 1) ||
        form->reserved != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "column '%s': ndim %u is above the limit of %d, ragged is not 0 or 1, "
                            "a ragged one has not ndim 1, or reserved is not 0",
                            form->name, form->ndim, MR_MAX_NDIM - 1);
    if (!mr_kind_shape_bytes((mr_dtype)form->dtype, form->ndim, form->shape, &bytes) ||
        bytes > MAX_ROW)
        return mr_error_set(error, MR_ERR_INVALID,
                            "column '%s': a dimension is below 1, or a row is above 2^30 bytes",
                            form->name);
    snprintf(extra->name, sizeof extra->name, "%s", form->name);
    if (form->ragged)
        snprintf(extra->offsets, sizeof extra->offsets, "%s.offsets", form->name);
    extra->max_bytes = form->ragged ? bytes : 0;
    extra->dtype = form->dtype;
    extra->ndim = form->ndim;
    memcpy(extra->shape, form->shape, form->ndim * sizeof *extra->shape);
    return MR_OK;
}

static mr_status check_columns(const mr_callbacks *callbacks, struct mr_sample_kind *kind,
                               mr_error *error)
{
    mr_status status = MR_OK;
    static_assert(MR_MAX_COLUMNS == MR_MAX_EXTRA, "a kind has room for all columns");
    if (callbacks->n_columns > MR_MAX_COLUMNS || (callbacks->n_columns > 0 && !callbacks->columns))
        return mr_error_set(
            error, MR_ERR_INVALID, "n_columns %" PRIu32 " is above the limit of %d%s",
            callbacks->n_columns, MR_MAX_COLUMNS, callbacks->columns ? "" : ", or columns is NULL");
    for (uint32_t i = 0; status == MR_OK && i < callbacks->n_columns; i++)
        status = add_column(&callbacks->columns[i], kind, error);
    return status;
}

mr_status mr_callbacks_check(const mr_callbacks *callbacks, struct mr_sample_kind *kind_out,
                             mr_error *error)
{
    struct mr_sample_kind kind = {0};
    if (!callbacks->get)
        return mr_error_set(error, MR_ERR_INVALID, "the callbacks have no get");
    if (callbacks->n_samples < 0)
        return mr_error_set(error, MR_ERR_INVALID, "n_samples %" PRId64 " is negative",
                            callbacks->n_samples);
    mr_status status = check_data(callbacks, &kind, error);
    if (status == MR_OK)
        status = check_label(callbacks, &kind, error);
    if (status == MR_OK)
        status = check_columns(callbacks, &kind, error);
    if (status == MR_OK)
        *kind_out = kind;
    return status;
}
