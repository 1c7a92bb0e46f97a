/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows to tensors for AVX-512. The end of a row is a step of fewer elements; masks keep it from
 * reading or writing past the end.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"

/* c - a * b in one rounding. */
INLINE __m512 fused_minus(__m512 a, __m512 b, __m512 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

#include "transforms/simd/tensor_write_simd.h"

/* ---- Up to sixteen bytes to as many elements ---- */

/* Like mr_half_bf16(): a NaN stays a NaN. */
INLINE __m256i to_bf16(__m512 value)
{
    __m512i bits = _mm512_castps_si512(value), high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    __m512i words =
        _mm512_mask_or_epi32(_mm512_srli_epi32(rounded, 16), is_nan, high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(words);
}

/* A masked store takes longer, so only the last step of a row has one. */
INLINE void put_floats(mr_dtype dtype, bool divides, void *out, size_t at, __m512i bytes,
                       const struct rule *rule, uint32_t n)
{
    __m512 value = make_floats(divides, _mm512_cvtepi32_ps(bytes), rule);
    __mmask16 live = (__mmask16)first_bytes(n);
    if (dtype == MR_F32) {
        float *to = (float *)out + at;
        if (n == 16)
            _mm512_storeu_ps(to, value);
        else
            _mm512_mask_storeu_ps(to, live, value);
        return;
    }
    __m256i words =
        dtype == MR_F16 ? _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT) : to_bf16(value);
    uint16_t *to = (uint16_t *)out + at;
    if (n == 16)
        _mm256_storeu_si256((__m256i *)(void *)to, words);
    else
        _mm256_mask_storeu_epi16(to, live, words);
}

/* ---- Planes ---- */

/*
 * Pick a channel of 64 pixels out of pieces of 64 bytes. byte_of: positions in the first two
 * pieces; in_third: the bytes that are in the third.
 */
INLINE __m512i find_channel(const __m512i piece[3], __m512i byte_of, __mmask64 in_third)
{
    __m512i bytes = _mm512_permutex2var_epi8(piece[0], byte_of, piece[1]);
    return _mm512_mask_permutexvar_epi8(bytes, in_third, byte_of, piece[2]);
}

INLINE void split_64(const uint8_t *row, const __m512i byte_of[3], const __mmask64 in_third[3],
                     void *const out[3], uint32_t at)
{
    __m512i piece[3];
    for (int i = 0; i < 3; i++)
        piece[i] = _mm512_loadu_si512(row + 64 * i);
    for (int i = 0; i < 3; i++)
        _mm512_storeu_si512((uint8_t *)out[i] + at, find_channel(piece, byte_of[i], in_third[i]));
}

/* A row of fewer than 64 pixels. */
INLINE void split_few(const uint8_t *row, uint32_t n, const __m512i byte_of[3],
                      const __mmask64 in_third[3], void *const out[3])
{
    __m512i piece[3];
    for (uint32_t i = 0; i < 3; i++)
        piece[i] =
            _mm512_maskz_loadu_epi8(first_bytes(3 * n > 64 * i ? 3 * n - 64 * i : 0), row + 64 * i);
    for (int i = 0; i < 3; i++)
        _mm512_mask_storeu_epi8(out[i], first_bytes(n),
                                find_channel(piece, byte_of[i], in_third[i]));
}

/* Every third byte. */
static const uint8_t thirds[64] = {0,   3,   6,   9,   12,  15,  18,  21,  24,  27,  30,  33,  36,
                                   39,  42,  45,  48,  51,  54,  57,  60,  63,  66,  69,  72,  75,
                                   78,  81,  84,  87,  90,  93,  96,  99,  102, 105, 108, 111, 114,
                                   117, 120, 123, 126, 129, 132, 135, 138, 141, 144, 147, 150, 153,
                                   156, 159, 162, 165, 168, 171, 174, 177, 180, 183, 186, 189};

/* The end of a row is a step that overlaps the one before; a masked store takes longer. */
INLINE void split_planes(const uint8_t *row, uint32_t n, void *const out[3])
{
    __m512i byte_of[3];
    __mmask64 in_third[3];
    for (char i = 0; i < 3; i++) {
        byte_of[(int)i] = _mm512_add_epi8(_mm512_loadu_si512(thirds), _mm512_set1_epi8(i));
        in_third[(int)i] = _mm512_movepi8_mask(byte_of[(int)i]);
    }
    if (n < 64) {
        split_few(row, n, byte_of, in_third, out);
        return;
    }
    for (uint32_t at = 0; at + 64 <= n; at += 64)
        split_64(row + 3 * (size_t)at, byte_of, in_third, out, at);
    if (n % 64)
        split_64(row + 3 * (size_t)(n - 64), byte_of, in_third, out, n - 64);
}

/* Write n pixels, at most 16. */
INLINE void put_planes_16(mr_dtype dtype, bool divides, const uint8_t *row,
                          const struct rule rule[3], void *const out[3], uint32_t at, uint32_t n)
{
    const __m512i pixel =
        _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    const __mmask64 dwords = 0x1111111111111111u;
    __m512i bytes = _mm512_maskz_loadu_epi8(first_bytes(3 * n), row + 3 * (size_t)at);
    for (int c = 0; c < 3; c++) {
        __m512i from = _mm512_add_epi32(pixel, _mm512_set1_epi32(c));
        put_floats(dtype, divides, out[c], at, _mm512_maskz_permutexvar_epi8(dwords, from, bytes),
                   &rule[c], n);
    }
}

INLINE void put_pixels(mr_dtype dtype, bool divides, const uint8_t *row, uint32_t n,
                       const struct rule rule[3], void *const out[3])
{
    uint32_t at = 0;
    for (; at + 16 <= n; at += 16)
        put_planes_16(dtype, divides, row, rule, out, at, 16);
    if (at < n)
        put_planes_16(dtype, divides, row, rule, out, at, n - at);
}

void mr_tensor_write_planes_avx512(const struct mr_tensor_writer *writer, const uint8_t *row,
                                   uint32_t n, void *const out[3])
{
    if (writer->dtype == MR_U8)
        split_planes(row, n, out);
    else
        put_planes(writer, row, n, out);
}

/* ---- Values ---- */

INLINE void repeat_channels(const float *of_channel, uint32_t first, uint32_t channels,
                            __m512 out[3])
{
    if (channels == 1) {
        out[0] = out[1] = out[2] = _mm512_set1_ps(of_channel[first]);
        return;
    }
    __m512 three = _mm512_maskz_loadu_ps(7, of_channel + first);
    out[0] = _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0), three);
    out[1] = _mm512_permutexvar_ps(
        _mm512_setr_epi32(1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1), three);
    out[2] = _mm512_permutexvar_ps(
        _mm512_setr_epi32(2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2), three);
}

/* Write n values, at most 16. */
INLINE void put_values_16(mr_dtype dtype, bool divides, const uint8_t *row, void *out, uint32_t at,
                          const struct rule *rule, uint32_t n)
{
    __m128i bytes = _mm_maskz_loadu_epi8((__mmask16)first_bytes(n), row + at);
    put_floats(dtype, divides, out, at, _mm512_cvtepu8_epi32(bytes), rule, n);
}

INLINE void put_values_by(mr_dtype dtype, bool divides, const struct mr_tensor_writer *writer,
                          const uint8_t *row, uint32_t n, uint32_t first, uint32_t channels,
                          void *out)
{
    struct rule rule[3];
    make_rules(writer, divides, first, channels, rule);
    uint32_t at = 0;
    for (; at + 48 <= n; at += 48)
        for (uint32_t i = 0; i < 3; i++)
            put_values_16(dtype, divides, row, out, at + 16 * i, &rule[i], 16);
    for (uint32_t i = 0; at < n; i++, at += 16)
        put_values_16(dtype, divides, row, out, at, &rule[i], n - at < 16 ? n - at : 16);
}

void mr_tensor_write_values_avx512(const struct mr_tensor_writer *writer, const uint8_t *row,
                                   uint32_t n, uint32_t first, uint32_t channels, void *out)
{
    put_values(writer, row, n, first, channels, out);
}

static const uint8_t last_first[64] = {
    63, 60, 61, 62, 57, 58, 59, 54, 55, 56, 51, 52, 53, 48, 49, 50, 45, 46, 47, 42, 43, 44,
    39, 40, 41, 36, 37, 38, 33, 34, 35, 30, 31, 32, 27, 28, 29, 24, 25, 26, 21, 22, 23, 18,
    19, 20, 15, 16, 17, 12, 13, 14, 9,  10, 11, 6,  7,  8,  3,  4,  5,  0,  1,  2};

/* As AVX2 does, but 21 pixels at a time. */
void mr_tensor_write_mirror_avx512(const uint8_t *row, uint32_t n, uint32_t channels, uint8_t *out)
{
    uint32_t at = 0;
    for (; channels == 3 && at + 22 <= n; at += 21)
        _mm512_storeu_si512(out + 3 * (size_t)(n - at - 21) - 1,
                            _mm512_permutexvar_epi8(_mm512_loadu_si512(last_first),
                                                    _mm512_loadu_si512(row + 3 * (size_t)at)));
    mr_tensor_write_mirror_avx2(row + (size_t)at * channels, n - at, channels, out);
}
