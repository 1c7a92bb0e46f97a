/* SPDX-License-Identifier: Apache-2.0 */
/* Widens token ids and checks them. The check of a whole row is one comparison. */
#include "loader/workers/token_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where the row is written: n elements of the plan's dtype. NULL: no such column. */
struct row {
    size_t n; /* kind.tokens, or the number of ids if rows differ in length */
    void *tokens;
    void *labels; /* the ids after those of tokens */
    float *loss_mask;
    void *positions;
};

/*
 * Each converts n ids and returns the largest of them or, if one is negative, a number with bit 63,
 * which is above all limits. Extremes have the type of the file: those of a wider type make the
 * loop five times slower.
 */
typedef uint64_t convert_fn(const uint8_t *bytes, size_t n, void *out);

#define CONVERT(from, to)                                                                          \
    static uint64_t from##_to_##to(const uint8_t *bytes, size_t n, void *out)                      \
    {                                                                                              \
        to##_t *ids = out;                                                                         \
        from##_t least = 0, most = 0;                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            from##_t id;                                                                           \
            memcpy(&id, bytes + i * sizeof id, sizeof id);                                         \
            least = id < least ? id : least;                                                       \
            most = id > most ? id : most;                                                          \
            ids[i] = (to##_t)id;                                                                   \
        }                                                                                          \
        return (uint64_t)least | (uint64_t)most;                                                   \
    }
#define CONVERT_FROM(from) CONVERT(from, int32) CONVERT(from, int64)
CONVERT_FROM(uint8)
CONVERT_FROM(int8)
CONVERT_FROM(uint16)
CONVERT_FROM(int16)
CONVERT_FROM(uint32)
CONVERT_FROM(int32)
CONVERT_FROM(int64)

static convert_fn *find_convert(mr_dtype from, mr_dtype to)
{
    bool wide = to == MR_I64;
    switch (from) {
    case MR_U8: return wide ? uint8_to_int64 : uint8_to_int32;
    case MR_I8: return wide ? int8_to_int64 : int8_to_int32;
    case MR_U16: return wide ? uint16_to_int64 : uint16_to_int32;
    case MR_I16: return wide ? int16_to_int64 : int16_to_int32;
    case MR_U32: return wide ? uint32_to_int64 : uint32_to_int32;
    case MR_I32: return wide ? int32_to_int64 : int32_to_int32;
    default: return wide ? int64_to_int64 : int64_to_int32;
    }
}

/* Name the first id that is not below the limit. */
static mr_status fail_id(const struct mr_plan *plan, const uint8_t *bytes, size_t n, uint64_t limit,
                         mr_error *error)
{
    convert_fn *convert = find_convert(plan->kind.dtype, MR_I64);
    const size_t size = mr_dtype_size(plan->kind.dtype);
    int64_t id = 0;
    size_t i = 0;
    while (i < n && convert(bytes + i * size, 1, &id) < limit)
        i++;
    if (plan->kind.vocab)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "token %zu is %" PRId64 ", but vocab is %" PRIu32, i, id,
                            plan->kind.vocab);
    return mr_error_set(error, MR_ERR_DAMAGED, "token %zu is %" PRId64 ", which is not an id of %s",
                        i, id, mr_dtype_name(plan->dtype));
}

static int64_t id_at(const struct mr_plan *plan, const void *ids, size_t i)
{
    return plan->dtype == MR_I64 ? ((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
}

static void set_id(const struct mr_plan *plan, void *ids, size_t i, int64_t id)
{
    if (plan->dtype == MR_I64)
        ((int64_t *)ids)[i] = id;
    else
        ((int32_t *)ids)[i] = (int32_t)id;
}

/* Convert ids, and fill the rest of the row of n_row. */
static bool fill(const struct mr_plan *plan, const uint8_t *bytes, size_t n, uint64_t limit,
                 int64_t padding, void *out, size_t n_row)
{
    n = n < n_row ? n : n_row;
    for (size_t i = n; i < n_row; i++)
        set_id(plan, out, i, padding);
    return find_convert(plan->kind.dtype, plan->dtype)(bytes, n, out) < limit;
}

/* n_labels: the row has so many labels; those after them are padding. */
static void mask_losses(const struct mr_plan *plan, size_t n_labels, const struct row *row)
{
    const bool masks_eod = plan->kind.token_columns & MR_TOKENS_EOD_MASKED;
    for (size_t i = 0; i < row->n; i++) {
        bool is_eod = masks_eod && id_at(plan, row->tokens, i) == plan->kind.eod;
        row->loss_mask[i] = i < n_labels && !is_eod ? 1.0f : 0.0f;
    }
}

/* As Megatron-Core's _get_ltor_masks_and_position_ids() with reset_position_ids. */
static void count_positions(const struct mr_plan *plan, size_t n_ids, const struct row *row)
{
    int64_t position = 0;
    for (size_t i = 0; i < row->n; i++) {
        set_id(plan, row->positions, i, position);
        position = i < n_ids && id_at(plan, row->tokens, i) == plan->kind.eod ? 0 : position + 1;
    }
}

static void *find_row(const struct mr_slot_view *view, const char *name, uint32_t place)
{
    uint32_t column = mr_columns_find(&view->layout->columns, name);
    return column == MR_NO_COLUMN ? NULL : mr_slot_row(view, column, place);
}

mr_status mr_token_row_store(const struct mr_plan *plan, const struct mr_slot_view *view,
                             uint32_t place, const uint8_t *bytes, size_t len, mr_error *error)
{
    const size_t size = mr_dtype_size(plan->kind.dtype), n = len / size;
    const bool has_length = plan->kind.token_columns & MR_TOKENS_LENGTH;
    const struct row row = {.n = has_length && n < plan->kind.tokens ? n : plan->kind.tokens,
                            .tokens = mr_slot_row(view, MR_COLUMN_IMAGE, place),
                            .labels = mr_slot_row(view, MR_COLUMN_LABEL, place),
                            .loss_mask = find_row(view, "loss_mask", place),
                            .positions = find_row(view, "position_ids", place)};
    const size_t n_labels = n > 0 ? n - 1 : 0;
    if (len > plan->kind.data_bytes || len % size != 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "row has %zu bytes instead of %" PRIu64, len,
                            plan->kind.data_bytes);
    const uint64_t limit = plan->kind.vocab        ? plan->kind.vocab
                           : plan->dtype == MR_I32 ? (uint64_t)INT32_MAX + 1
                                                   : (uint64_t)INT64_MAX + 1;
    if (has_length)
        *(int32_t *)mr_slot_row(view, MR_COLUMN_SIZE, place) = (int32_t)row.n;
    if (!fill(plan, bytes, n, limit, 0, row.tokens, row.n) ||
        !fill(plan, bytes + (n - n_labels) * size, n_labels, limit,
              has_length ? MR_LABEL_IGNORED : 0, row.labels, row.n))
        return fail_id(plan, bytes, n, limit, error);
    if (row.loss_mask)
        mask_losses(plan, n_labels, &row);
    if (row.positions)
        count_positions(plan, n, &row);
    return MR_OK;
}
