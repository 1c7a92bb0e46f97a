/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in the order of ranks. 16-bit floats are added in f32 and rounded once; a mean of
 * integers is truncated, as a division is.
 */
#include "tests/double/double_nccl.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

const char *double_nccl_kind_name(uint32_t kind)
{
    static const char *const names[] = {"all_reduce",     "reduce", "broadcast", "all_gather",
                                        "reduce_scatter", "send",   "recv"};
    return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

#define DOUBLE_NCCL_SIZE_CASE(name, value, bytes)                                                  \
    case value: return bytes;

size_t double_nccl_type_size(uint32_t type)
{
    switch (type) {
        DOUBLE_NCCL_TYPES(DOUBLE_NCCL_SIZE_CASE)
    default: return 0;
    }
}

#define COMBINE(op, a, b)                                                                          \
    ((op) == ncclProd  ? (a) * (b)                                                                 \
     : (op) == ncclMax ? ((b) > (a) ? (b) : (a))                                                   \
     : (op) == ncclMin ? ((b) < (a) ? (b) : (a))                                                   \
                       : (a) + (b))

#define REDUCE(name, type, wide)                                                                   \
    static void reduce_##name(uint32_t op, const uint8_t *const *parts, uint32_t n_parts,          \
                              uint64_t n, void *out)                                               \
    {                                                                                              \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            type value;                                                                            \
            memcpy(&value, parts[0] + i * sizeof value, sizeof value);                             \
            wide sum = (wide)value;                                                                \
            for (uint32_t part = 1; part < n_parts; part++) {                                      \
                memcpy(&value, parts[part] + i * sizeof value, sizeof value);                      \
                sum = COMBINE(op, sum, (wide)value);                                               \
            }                                                                                      \
            value = op == ncclAvg ? (type)((type)sum / (type)n_parts) : (type)sum;                 \
            memcpy((uint8_t *)out + i * sizeof value, &value, sizeof value);                       \
        }                                                                                          \
    }

/* Sums of whole numbers wrap around, so they are computed unsigned. */
REDUCE(f32, float, float)
REDUCE(f64, double, double)

#define REDUCE_WHOLE(name, type, unsigned_type)                                                    \
    static void reduce_##name(uint32_t op, const uint8_t *const *parts, uint32_t n_parts,          \
                              uint64_t n, void *out)                                               \
    {                                                                                              \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            type sum, value;                                                                       \
            memcpy(&sum, parts[0] + i * sizeof sum, sizeof sum);                                   \
            for (uint32_t part = 1; part < n_parts; part++) {                                      \
                memcpy(&value, parts[part] + i * sizeof value, sizeof value);                      \
                if (op == ncclMax || op == ncclMin)                                                \
                    sum = COMBINE(op, sum, value);                                                 \
                else                                                                               \
                    sum = (type)COMBINE(op, (unsigned_type)sum, (unsigned_type)value);             \
            }                                                                                      \
            if (op == ncclAvg)                                                                     \
                sum = (type)(sum / (type)n_parts);                                                 \
            memcpy((uint8_t *)out + i * sizeof sum, &sum, sizeof sum);                             \
        }                                                                                          \
    }

REDUCE_WHOLE(i32, int32_t, uint32_t)
REDUCE_WHOLE(u32, uint32_t, uint32_t)
REDUCE_WHOLE(i64, int64_t, uint64_t)
REDUCE_WHOLE(u64, uint64_t, uint64_t)

static float to_f32(bool brain, uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    if (!brain) {
        uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
        value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                               : ldexpf((float)(exponent ? mantissa | 0x400u : mantissa),
                                        (int)(exponent ? exponent : 1) - 25);
        return bits & 0x8000u ? -value : value;
    }
    memcpy(&value, &word, sizeof value);
    return value;
}

static void reduce_16(bool brain, uint32_t op, const uint8_t *const *parts, uint32_t n_parts,
                      uint64_t n, void *out)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, parts[0] + i * 2, 2);
        float sum = to_f32(brain, bits);
        for (uint32_t part = 1; part < n_parts; part++) {
            memcpy(&bits, parts[part] + i * 2, 2);
            float value = to_f32(brain, bits);
            sum = COMBINE(op, sum, value);
        }
        if (op == ncclAvg)
            sum /= (float)n_parts;
        bits = brain ? mr_half_bf16(sum) : mr_half_f16(sum);
        memcpy((uint8_t *)out + i * 2, &bits, 2);
    }
}

bool double_nccl_reduce(uint32_t type, uint32_t op, const uint8_t *const *parts, uint32_t n_parts,
                        uint64_t n, void *out)
{
    switch (type) {
    case ncclFloat32: reduce_f32(op, parts, n_parts, n, out); return true;
    case ncclFloat64: reduce_f64(op, parts, n_parts, n, out); return true;
    case ncclInt32: reduce_i32(op, parts, n_parts, n, out); return true;
    case ncclUint32: reduce_u32(op, parts, n_parts, n, out); return true;
    case ncclInt64: reduce_i64(op, parts, n_parts, n, out); return true;
    case ncclUint64: reduce_u64(op, parts, n_parts, n, out); return true;
    case ncclFloat16: reduce_16(false, op, parts, n_parts, n, out); return true;
    case ncclBfloat16: reduce_16(true, op, parts, n_parts, n, out); return true;
    default: return false;
    }
}
