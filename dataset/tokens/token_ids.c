/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a whole row is one comparison. */
#include "dataset/tokens/token_ids.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

/* Extremes have the type of the file: those of a wider type make the loop five times slower. */
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

mr_token_ids_fn *mr_token_ids_converter(mr_dtype from, mr_dtype to)
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

uint64_t mr_token_ids_limit(const struct mr_sample_kind *kind, mr_dtype to)
{
    return kind->vocab ? kind->vocab : (to == MR_I64 ? (uint64_t)INT64_MAX : INT32_MAX) + 1;
}

mr_status mr_token_ids_check(const struct mr_sample_kind *kind, mr_dtype to, const uint8_t *bytes,
                             size_t n, mr_error *error)
{
    mr_token_ids_fn *convert = mr_token_ids_converter(kind->dtype, MR_I64);
    const size_t size = mr_dtype_size(kind->dtype);
    const uint64_t limit = mr_token_ids_limit(kind, to);
    int64_t id = 0;
    size_t i = 0;
    while (i < n && convert(bytes + i * size, 1, &id) < limit)
        i++;
    if (i == n)
        return MR_OK;
    if (kind->vocab)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "token %zu is %" PRId64 ", but vocab is %" PRIu32, i, id, kind->vocab);
    return mr_error_set(error, MR_ERR_DAMAGED, "token %zu is %" PRId64 ", which is not an id of %s",
                        i, id, mr_dtype_name(to));
}
