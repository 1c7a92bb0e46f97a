/* SPDX-License-Identifier: Apache-2.0 */
/* Widens token ids and checks them. The check of a whole row is one comparison. */
#include "loader/workers/token_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Each converts n ids and returns the largest of them as an unsigned number: that of a negative id
 * is above all limits.
 */
typedef uint64_t convert_fn(const uint8_t *bytes, size_t n, void *out);

#define CONVERT(from, to)                                                                          \
    static uint64_t from##_to_##to(const uint8_t *bytes, size_t n, void *out)                      \
    {                                                                                              \
        to##_t *ids = out;                                                                         \
        uint64_t largest = 0;                                                                      \
        for (size_t i = 0; i < n; i++) {                                                           \
            from##_t id;                                                                           \
            memcpy(&id, bytes + i * sizeof id, sizeof id);                                         \
            uint64_t number = (uint64_t)id;                                                        \
            largest = number > largest ? number : largest;                                         \
            ids[i] = (to##_t)id;                                                                   \
        }                                                                                          \
        return largest;                                                                            \
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

mr_status mr_token_row_store(const struct mr_plan *plan, const uint8_t *bytes, size_t len,
                             void *tokens_out, void *labels_out, mr_error *error)
{
    const size_t n = (size_t)plan->out_shape[0], size = mr_dtype_size(plan->kind.dtype);
    if (len != plan->kind.data_bytes)
        return mr_error_set(error, MR_ERR_DAMAGED, "row has %zu bytes instead of %" PRIu64, len,
                            plan->kind.data_bytes);
    convert_fn *convert = find_convert(plan->kind.dtype, plan->dtype);
    const uint64_t limit = plan->kind.vocab        ? plan->kind.vocab
                           : plan->dtype == MR_I32 ? (uint64_t)INT32_MAX + 1
                                                   : (uint64_t)INT64_MAX + 1;
    if (convert(bytes, n, tokens_out) < limit && convert(bytes + size, n, labels_out) < limit)
        return MR_OK;
    return fail_id(plan, bytes, n + 1, limit, error);
}
