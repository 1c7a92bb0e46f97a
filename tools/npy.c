/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes .npy files: magic, version, length of the header, a Python dictionary padded with spaces
 * to a multiple of 64 bytes, data. The header is at the start but contains the number of rows, so
 * it has room for the largest number and is written again at the end.
 */
#include "tools/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/say.h"

enum { PREFIX_BYTES = 10, ALIGN_BYTES = 64, HEADER_MAX_BYTES = 512 };

/* bf16 has no NumPy type; its bits are written as unsigned integers. */
static const char *dtype_code(mr_dtype dtype)
{
    switch (dtype) {
    case MR_U8: return "|u1";
    case MR_I8: return "|i1";
    case MR_F16: return "<f2";
    case MR_F32: return "<f4";
    case MR_F64: return "<f8";
    case MR_BF16:
    case MR_U16: return "<u2";
    case MR_I16: return "<i2";
    case MR_I32: return "<i4";
    case MR_U32: return "<u4";
    case MR_I64: return "<i8";
    default: return NULL;
    }
}

bool mr_npy_open(struct mr_npy *npy, const char *path)
{
    *npy = (struct mr_npy){0};
    return mr_temporary_file_open(&npy->file, path);
}

/* Format the dictionary for this number of rows, as np.save() writes it. Returns its length. */
static size_t format_dictionary(const struct mr_npy *npy, int64_t rows, char *out)
{
    int n = snprintf(out, HEADER_MAX_BYTES,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",",
                     dtype_code(npy->dtype), rows);
    size_t used = (size_t)n;

    for (uint32_t i = 1; i < npy->ndim; i++)
        used += (size_t)snprintf(out + used, HEADER_MAX_BYTES - used, "%s%" PRId64,
                                 i > 1 ? ", " : " ", npy->shape[i]);
    return used + (size_t)snprintf(out + used, HEADER_MAX_BYTES - used, "), }");
}

static bool write_header(struct mr_npy *npy)
{
    char header[HEADER_MAX_BYTES + PREFIX_BYTES];
    size_t len = npy->header_bytes - PREFIX_BYTES;
    size_t used = format_dictionary(npy, npy->shape[0], header + PREFIX_BYTES);

    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(len & 0xff);
    header[9] = (char)(len >> 8);
    memset(header + PREFIX_BYTES + used, ' ', len - used);
    header[npy->header_bytes - 1] = '\n';
    return mr_temporary_file_rewrite(&npy->file, header, npy->header_bytes);
}

static bool write_first_header(struct mr_npy *npy, const mr_array *array)
{
    char longest[HEADER_MAX_BYTES];

    npy->dtype = array->dtype;
    npy->ndim = array->ndim;
    memcpy(npy->shape, array->shape, sizeof npy->shape);
    npy->shape[0] = 0;
    npy->row_bytes = mr_dtype_size(array->dtype);
    for (uint32_t i = 1; i < array->ndim; i++)
        npy->row_bytes *= (size_t)array->shape[i];
    if (dtype_code(array->dtype) == NULL) {
        mr_say_error("%s: array '%s' has a type that .npy files cannot store", npy->file.path,
                     array->name);
        return false;
    }
    size_t need = PREFIX_BYTES + format_dictionary(npy, INT64_MAX, longest) + 1;
    npy->header_bytes = (need + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return write_header(npy);
}

/* True if the elements of a row are in C order without gaps. */
static bool rows_are_dense(const mr_array *array)
{
    int64_t stride = (int64_t)mr_dtype_size(array->dtype);

    for (uint32_t i = array->ndim; i-- > 1;) {
        if (array->shape[i] != 1 && array->strides[i] != stride)
            return false;
        stride *= array->shape[i];
    }
    return true;
}

static bool shape_fits(const struct mr_npy *npy, const mr_array *array)
{
    bool same = array->dtype == npy->dtype && array->ndim == npy->ndim;

    for (uint32_t i = 1; same && i < npy->ndim; i++)
        same = array->shape[i] == npy->shape[i];
    return same && rows_are_dense(array);
}

static bool append_rows(struct mr_npy *npy, const mr_array *array)
{
    const char *data = array->data;
    bool good = npy->header_bytes > 0 || write_first_header(npy, array);

    if (good && !shape_fits(npy, array)) {
        mr_say_error("%s: the rows of array '%s' differ in type or shape", npy->file.path,
                     array->name);
        return false;
    }
    if (good && array->strides[0] == (int64_t)npy->row_bytes) {
        good = mr_temporary_file_write(&npy->file, data, npy->row_bytes * (size_t)array->shape[0]);
    } else {
        for (int64_t i = 0; good && i < array->shape[0]; i++)
            good =
                mr_temporary_file_write(&npy->file, data + i * array->strides[0], npy->row_bytes);
    }
    npy->shape[0] += array->shape[0];
    return good;
}

bool mr_npy_append(struct mr_npy *npy, const mr_array *array)
{
    mr_array values = *array;

    if (array->row_offsets != NULL) {
        values.ndim--;
        memmove(values.shape, array->shape + 1, values.ndim * sizeof *values.shape);
        memmove(values.strides, array->strides + 1, values.ndim * sizeof *values.strides);
        values.shape[0] = array->shape[0] > 0 ? array->n_values : 0;
    }
    return append_rows(npy, &values);
}

bool mr_npy_append_offsets(struct mr_npy *npy, const mr_array *offsets)
{
    const int64_t *from = offsets->data;
    int64_t base = npy->end, end = 0;
    bool is_first = npy->header_bytes == 0, good = true;
    mr_array one = *offsets;

    one.shape[0] = 1;
    one.data = &end;
    for (int64_t i = is_first ? 0 : 1; good && i < offsets->shape[0]; i++) {
        end = base + from[i];
        good = append_rows(npy, &one);
        npy->end = end;
    }
    return good;
}

bool mr_npy_finish(struct mr_npy *npy)
{
    return write_header(npy) && mr_temporary_file_sync(&npy->file);
}
