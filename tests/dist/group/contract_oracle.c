/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle in double, element by element. Sums of whole numbers must be exact in every dtype,
 * even in bf16 with 8 bits, so they stay below 256 for up to 32 ranks. Sums of fractions may lose
 * half a unit in the last place with each addition, not more.
 */
#include "tests/dist/group/contract_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half a unit in the last place of 1. */
static double unit_of(mr_dtype dtype)
{
    switch (dtype) {
    case MR_F16: return 0x1p-11;
    case MR_BF16: return 0x1p-8;
    case MR_F32: return 0x1p-24;
    case MR_F64: return 0x1p-53;
    default: return 0;
    }
}

static double read_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f;
    double mantissa = bits & 0x3ff;
    double size = exponent == 31  ? (mantissa > 0 ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(mantissa, -24)
                                  : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

/* value is 0, or a multiple of 2^-10 from 2^-10 to 2^15 in size, with at most 11 bits. */
static uint16_t write_f16(double value)
{
    if (value == 0)
        return 0;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* 0.5 to 1 */
    unsigned mantissa = (unsigned)ldexp(fraction, 11) - 1024;
    return (uint16_t)((value < 0 ? 0x8000u : 0u) | (unsigned)(exponent + 14) << 10 | mantissa);
}

static double read_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t write_bf16(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return (uint16_t)(bits >> 16);
}

void contract_oracle_write(mr_dtype dtype, void *array, uint64_t i, double value)
{
    switch (dtype) {
    case MR_F16: ((uint16_t *)array)[i] = write_f16(value); break;
    case MR_BF16: ((uint16_t *)array)[i] = write_bf16(value); break;
    case MR_F32: ((float *)array)[i] = (float)value; break;
    case MR_F64: ((double *)array)[i] = value; break;
    case MR_I32: ((int32_t *)array)[i] = (int32_t)value; break;
    case MR_I64: ((int64_t *)array)[i] = (int64_t)value; break;
    default: abort();
    }
}

double contract_oracle_read(mr_dtype dtype, const void *array, uint64_t i)
{
    switch (dtype) {
    case MR_F16: return read_f16(((const uint16_t *)array)[i]);
    case MR_BF16: return read_bf16(((const uint16_t *)array)[i]);
    case MR_F32: return ((const float *)array)[i];
    case MR_F64: return ((const double *)array)[i];
    case MR_I32: return ((const int32_t *)array)[i];
    case MR_I64: return (double)((const int64_t *)array)[i];
    default: abort();
    }
}

static bool is_whole(mr_dtype dtype, uint64_t i)
{
    return dtype == MR_I32 || dtype == MR_I64 || i % CONTRACT_PERIOD % 2 == 0;
}

double contract_oracle_value(mr_dtype dtype, uint32_t rank, uint64_t i)
{
    uint32_t at = (uint32_t)(i % CONTRACT_PERIOD);
    uint32_t mixed = (at * 2654435761u) ^ (rank * 40503u + 1u) * 2246822519u;
    mixed ^= mixed >> 15;
    double whole = (double)(mixed % 17) - 8;
    if (dtype == MR_I32)
        return whole * 1000003;
    if (dtype == MR_I64)
        return whole * 1000000000039;
    if (is_whole(dtype, at))
        return whole;
    /* 7 bits for the 16-bit types, 23 and 31 for the others, of either sign. */
    double bits = dtype == MR_F64 ? 31 : dtype == MR_F32 ? 23 : 7;
    double fraction = floor((double)(mixed >> 1) / 0x1p31 * exp2(bits)) / exp2(bits);
    return mixed & 1 ? -fraction : fraction;
}

static double join(double a, double b, mr_reduction op)
{
    if (op == MR_MIN)
        return b < a ? b : a;
    if (op == MR_MAX)
        return b > a ? b : a;
    return a + b;
}

void contract_oracle_reduce(mr_dtype dtype, mr_reduction op, uint32_t world_size,
                            struct contract_expected *out)
{
    for (uint32_t i = 0; i < CONTRACT_PERIOD; i++) {
        double value = contract_oracle_value(dtype, 0, i);
        double sizes = fabs(value);
        for (uint32_t rank = 1; rank < world_size; rank++) {
            double next = contract_oracle_value(dtype, rank, i);
            value = join(value, next, op);
            sizes += fabs(next);
        }
        bool exact = op == MR_MIN || op == MR_MAX || (op == MR_SUM && is_whole(dtype, i));
        out->value[i] = op == MR_MEAN ? value / world_size : value;
        out->tolerance[i] = exact ? 0 : 1.01 * world_size * unit_of(dtype) * sizes;
        if (op == MR_MEAN)
            out->tolerance[i] = 1.01 * ((world_size - 1) * unit_of(dtype) *
                                            (is_whole(dtype, i) ? 0 : sizes) / world_size +
                                        2 * unit_of(dtype) * fabs(out->value[i])) +
                                (dtype == MR_F16 ? 0x1p-24 : 0);
    }
}
