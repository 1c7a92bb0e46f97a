/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts f32 to f16 and bf16, rounding to nearest, ties to even, and back, which is exact. The
 * code uses integers, so every compiler gives the same bits, on the host and on a GPU.
 *
 * Invariant: a carry out of the mantissa raises the exponent, up to infinity; a NaN stays a NaN.
 */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* Marks a function that nvcc compiles for host and device. */
#ifdef __CUDACC__
#define MR_HOST_DEVICE static inline __host__ __device__
#else
#define MR_HOST_DEVICE static inline
#endif

MR_HOST_DEVICE uint32_t mr_half_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

MR_HOST_DEVICE uint16_t mr_half_bf16(float value)
{
    uint32_t bits = mr_half_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u); /* a NaN stays one */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* mantissa / 2^shift, to nearest, ties to even. mantissa is below 2^31, shift is 1 to 31. */
MR_HOST_DEVICE uint32_t mr_half_shift(uint32_t mantissa, uint32_t shift)
{
    uint32_t half = 1u << (shift - 1);
    uint32_t odd = mantissa >> shift & 1u;
    return (mantissa + half - 1 + odd) >> shift;
}

MR_HOST_DEVICE uint16_t mr_half_f16(float value)
{
    uint32_t bits = mr_half_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    /* a normal number; a carry out of the mantissa raises the exponent */
    if (magnitude >= 0x38800000u)
        return (uint16_t)(sign | mr_half_shift(magnitude - 0x38000000u, 13));
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    return (uint16_t)(sign | mr_half_shift((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent));
}

MR_HOST_DEVICE float mr_half_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

MR_HOST_DEVICE float mr_half_from_bf16(uint16_t half)
{
    return mr_half_float((uint32_t)half << 16);
}

MR_HOST_DEVICE float mr_half_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 0x1fu;
    uint32_t mantissa = half & 0x3ffu;
    /*
     * A subnormal half is a normal float. The computation must avoid subnormal floats, which may be
     * flushed to zero.
     */
    uint32_t small = mr_half_bits((float)mantissa * 0x1p-24f);
    uint32_t usual = (exponent == 31 ? 255u : exponent + 112u) << 23 | mantissa << 13;
    return mr_half_float(sign | (exponent == 0 ? small : usual));
}

#endif
