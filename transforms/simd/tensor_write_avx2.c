/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows to tensors for AVX2. The end of a row is a last step that overlaps the one before. A row
 * shorter than one step is written by plain C.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx2.h"

/* c - a * b in one rounding. */
INLINE __m256 fused_minus(__m256 a, __m256 b, __m256 c)
{
    return fused(_mm256_xor_ps(a, _mm256_set1_ps(-0.0f)), b, c);
}

#include "transforms/simd/tensor_write_simd.h"

/* ---- Eight bytes to eight elements ---- */

INLINE void put_f32(void *out, size_t at, __m256 value)
{
    _mm256_storeu_ps((float *)out + at, value);
}

INLINE void put_f16(void *out, size_t at, __m256 value)
{
    __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)((uint16_t *)out + at), half);
}

/* Like mr_half_bf16(): a NaN stays a NaN. */
INLINE void put_bf16(void *out, size_t at, __m256 value)
{
    __m256i bits = _mm256_castps_si256(value), high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    __m256i words = _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), nan, is_nan);
    words = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0xd8);
    _mm_storeu_si128((__m128i *)(void *)((uint16_t *)out + at), _mm256_castsi256_si128(words));
}

INLINE void put_floats(mr_dtype dtype, bool divides, void *out, size_t at, __m256i bytes,
                       const struct rule *rule)
{
    __m256 value = make_floats(divides, _mm256_cvtepi32_ps(bytes), rule);
    if (dtype == MR_F32)
        put_f32(out, at, value);
    else if (dtype == MR_F16)
        put_f16(out, at, value);
    else
        put_bf16(out, at, value);
}

/* ---- Planes ---- */

/*
 * Split 32 pixels. byte_of: for each channel, the positions of its bytes in each of three pieces of
 * 16.
 */
INLINE void split_32(const uint8_t *row, const __m256i byte_of[3][3], void *const out[3],
                     uint32_t at)
{
    __m256i a = load_halves(row, row + 48), b = load_halves(row + 16, row + 64),
            c = load_halves(row + 32, row + 80);
    for (int i = 0; i < 3; i++) {
        __m256i ab = _mm256_or_si256(_mm256_shuffle_epi8(a, byte_of[i][0]),
                                     _mm256_shuffle_epi8(b, byte_of[i][1]));
        store256((uint8_t *)out[i] + at,
                 _mm256_or_si256(ab, _mm256_shuffle_epi8(c, byte_of[i][2])));
    }
}

/*
 * Position of channel i's bytes in each of three pieces of 16 bytes; 128: the byte is in another
 * piece.
 */
static const uint8_t places[3][3][16] = {
    {{0, 3, 6, 9, 12, 15, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
     {128, 128, 128, 128, 128, 128, 2, 5, 8, 11, 14, 128, 128, 128, 128, 128},
     {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1, 4, 7, 10, 13}},
    {{1, 4, 7, 10, 13, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
     {128, 128, 128, 128, 128, 0, 3, 6, 9, 12, 15, 128, 128, 128, 128, 128},
     {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 2, 5, 8, 11, 14}},
    {{2, 5, 8, 11, 14, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
     {128, 128, 128, 128, 128, 1, 4, 7, 10, 13, 128, 128, 128, 128, 128, 128},
     {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 3, 6, 9, 12, 15}}};

static void split_planes(const uint8_t *row, uint32_t n, void *const out[3])
{
    __m256i byte_of[3][3];
    for (int i = 0; i < 3; i++)
        for (int piece = 0; piece < 3; piece++)
            byte_of[i][piece] = _mm256_broadcastsi128_si256(load128(places[i][piece]));
    for (uint32_t at = 0; at + 32 <= n; at += 32)
        split_32(row + 3 * (size_t)at, byte_of, out, at);
    if (n % 32)
        split_32(row + 3 * (size_t)(n - 32), byte_of, out, n - 32);
}

/*
 * Write eight pixels, 24 bytes: the lower half has the first four at 0, the upper half the last
 * four at 4.
 */
INLINE void put_planes_8(mr_dtype dtype, bool divides, const uint8_t *row,
                         const struct rule rule[3], void *const out[3], uint32_t at)
{
    const __m256i first = _mm256_setr_epi8(0, -128, -128, -128, 3, -128, -128, -128, 6, -128, -128,
                                           -128, 9, -128, -128, -128, 4, -128, -128, -128, 7, -128,
                                           -128, -128, 10, -128, -128, -128, 13, -128, -128, -128);
    __m256i bytes = load_halves(row, row + 8);
    for (int c = 0; c < 3; c++) {
        __m256i channel = _mm256_add_epi8(first, _mm256_set1_epi32(c));
        put_floats(dtype, divides, out[c], at, _mm256_shuffle_epi8(bytes, channel), &rule[c]);
    }
}

INLINE void put_pixels(mr_dtype dtype, bool divides, const uint8_t *row, uint32_t n,
                       const struct rule rule[3], void *const out[3])
{
    for (uint32_t at = 0; at + 8 <= n; at += 8)
        put_planes_8(dtype, divides, row + 3 * (size_t)at, rule, out, at);
    if (n % 8)
        put_planes_8(dtype, divides, row + 3 * (size_t)(n - 8), rule, out, n - 8);
}

void mr_tensor_write_planes_avx2(const struct mr_tensor_writer *writer, const uint8_t *row,
                                 uint32_t n, void *const out[3])
{
    if (n < (writer->dtype == MR_U8 ? 32 : 8))
        mr_kernels_c.planes(writer, row, n, out);
    else if (writer->dtype == MR_U8)
        split_planes(row, n, out);
    else
        put_planes(writer, row, n, out);
}

/* ---- Values ---- */

INLINE void put_24(mr_dtype dtype, bool divides, const uint8_t *row, const struct rule rule[3],
                   void *out, size_t at)
{
    for (size_t i = 0; i < 3; i++) {
        __m256i bytes = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)(row + at + 8 * i)));
        put_floats(dtype, divides, out, at + 8 * i, bytes, &rule[i]);
    }
}

INLINE void repeat_channels(const float *of_channel, uint32_t first, uint32_t channels,
                            __m256 out[3])
{
    float a = of_channel[first], b = channels == 1 ? a : of_channel[first + 1];
    float c = channels == 1 ? a : of_channel[first + 2];
    out[0] = _mm256_setr_ps(a, b, c, a, b, c, a, b);
    out[1] = _mm256_setr_ps(c, a, b, c, a, b, c, a);
    out[2] = _mm256_setr_ps(b, c, a, b, c, a, b, c);
}

/* The last step also begins with the first channel. */
INLINE void put_values_by(mr_dtype dtype, bool divides, const struct mr_tensor_writer *writer,
                          const uint8_t *row, uint32_t n, uint32_t first, uint32_t channels,
                          void *out)
{
    struct rule rule[3];
    make_rules(writer, divides, first, channels, rule);
    for (uint32_t at = 0; at + 24 <= n; at += 24)
        put_24(dtype, divides, row, rule, out, at);
    if (n % 24)
        put_24(dtype, divides, row, rule, out, n - 24);
}

void mr_tensor_write_values_avx2(const struct mr_tensor_writer *writer, const uint8_t *row,
                                 uint32_t n, uint32_t first, uint32_t channels, void *out)
{
    if (n < 24)
        mr_kernels_c.values(writer, row, n, first, channels, out);
    else
        put_values(writer, row, n, first, channels, out);
}

/* Five pixels at a time. Their store also writes the byte before them, which the next one has. */
void mr_tensor_write_mirror_avx2(const uint8_t *row, uint32_t n, uint32_t channels, uint8_t *out)
{
    const __m128i last_first = _mm_setr_epi8(15, 12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2);
    uint32_t at = 0;
    for (; channels == 3 && at + 6 <= n; at += 5) {
        __m128i pixels = _mm_loadu_si128((const __m128i *)(const void *)(row + 3 * (size_t)at));
        _mm_storeu_si128((__m128i *)(void *)(out + 3 * (size_t)(n - at - 5) - 1),
                         _mm_shuffle_epi8(pixels, last_first));
    }
    mr_kernels_c.mirror(row + (size_t)at * channels, n - at, channels, out);
}
