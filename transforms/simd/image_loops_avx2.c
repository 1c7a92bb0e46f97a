/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the image operations for AVX2. Pixels are dwords, eight at a time. If fewer than ten
 * are left, a load could read past them, so they are first copied to a local buffer.
 */
#include "transforms/simd/image_loops.h"
#include "transforms/simd/simd_avx2.h"

#include <string.h>

#define PIXELS 8
#define WORDS 16

INLINE __m256 absolute(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

INLINE __m256i load_words(const uint8_t *from)
{
    return _mm256_cvtepu8_epi16(load128(from));
}

INLINE void store_bytes(uint8_t *to, __m256i words)
{
    _mm_storeu_si128((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(words),
                                                  _mm256_extracti128_si256(words, 1)));
}

/* Packing clips. */
INLINE void store_clipped(uint8_t *to, __m256i words)
{
    store_bytes(to, words);
}

#include "transforms/simd/image_loops_simd.h"

/* One dword per pixel, red in the lowest byte. Reads 28 bytes. */
INLINE __m256i load_dwords(const uint8_t *from)
{
    const __m256i spread = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    return _mm256_shuffle_epi8(load_halves(from, from + 12), spread);
}

/* Store the first 12 bytes of both halves. */
INLINE void store_triples(uint8_t *to, __m256i v)
{
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7));
    _mm_storeu_si128((void *)to, _mm256_castsi256_si128(v));
    _mm_storel_epi64((void *)(to + 16), _mm256_extracti128_si256(v, 1));
}

/*
 * Store eight pixels; packing saturates values to 0 to 255. Four reds, four greens and four blues
 * of four pixels are packed together.
 */
INLINE void store_pixels(uint8_t *to, struct rgb p)
{
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1));
    __m256i v = _mm256_packus_epi16(_mm256_packs_epi32(p.r, p.g), _mm256_packs_epi32(p.b, p.b));
    store_triples(to, _mm256_shuffle_epi8(v, order));
}

static uint64_t sum_gray(const uint8_t *pixels, size_t n)
{
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; n - i >= PIXELS + 2; i += PIXELS) {
        __m256i gray = find_gray(load_dwords(pixels + 3 * i));
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(gray, _mm256_setzero_si256()));
    }
    uint64_t parts[4];
    store256(parts, sums);
    return parts[0] + parts[1] + parts[2] + parts[3] +
           mr_image_loops_c.sum_gray(pixels + 3 * i, n - i);
}

INLINE void store_gray(uint32_t step, __m256i gray, uint8_t *out)
{
    if (step == 3) {
        const __m256i thrice = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 0, 0, 4, 4, 4, 8, 8, 8, 12, 12, 12, -1, -1, -1, -1));
        store_triples(out, _mm256_shuffle_epi8(gray, thrice));
    } else {
        __m128i words =
            _mm_packus_epi32(_mm256_castsi256_si128(gray), _mm256_extracti128_si256(gray, 1));
        _mm_storel_epi64((void *)out, _mm_packus_epi16(words, words));
    }
}

static void make_gray(uint32_t step, const uint8_t *pixels, size_t n, uint8_t *out)
{
    size_t i = 0;
    for (; n - i >= PIXELS + 2; i += PIXELS)
        store_gray(step, find_gray(load_dwords(pixels + 3 * i)), out + step * i);
    mr_image_loops_c.gray(step, pixels + 3 * i, n - i, out + step * i);
}

/* Run function on eight pixels, or on the last n pixels in a local buffer. */
#define FOR_PIXELS(function, argument, pixels, n)                                                  \
    for (size_t i = 0; i < (n); i += PIXELS) {                                                     \
        uint8_t *at = (pixels) + 3 * i;                                                            \
        if ((n)-i >= PIXELS + 2) {                                                                 \
            function(argument, at);                                                                \
        } else {                                                                                   \
            uint8_t copy[32] = {0};                                                                \
            size_t len = 3 * ((n)-i < PIXELS ? (n)-i : PIXELS);                                    \
            memcpy(copy, at, len);                                                                 \
            function(argument, copy);                                                              \
            memcpy(at, copy, len);                                                                 \
        }                                                                                          \
    }

INLINE void saturate_pixels(__m256 factor, uint8_t *at)
{
    store_pixels(at, saturate_dwords(factor, load_dwords(at)));
}

static void saturate(float factor, uint8_t *pixels,
                     size_t n){FOR_PIXELS(saturate_pixels, _mm256_set1_ps(factor), pixels, n)}

/* The hue in bytes; spread is not 0. */
INLINE __m256i find_hue(struct rgb p, __m256i largest, __m256i smallest, __m256i spread)
{
    const __m256i one = _mm256_set1_epi32(1), three = _mm256_set1_epi32(3),
                  five = _mm256_set1_epi32(5);
    const __m256 sixth = _mm256_set1_ps(1.0f / 6.0f), last = _mm256_set1_ps(255.0f);
    __m256i middle = _mm256_xor_si256(_mm256_xor_si256(p.r, p.g),
                                      _mm256_xor_si256(p.b, _mm256_xor_si256(largest, smallest)));
    __m256i r_first = _mm256_cmpeq_epi32(p.r, largest), g_first = _mm256_cmpeq_epi32(p.g, largest);
    __m256i b_last = _mm256_cmpeq_epi32(p.b, smallest), g_last = _mm256_cmpeq_epi32(p.g, smallest);
    /* base + x or base - x, as in plain C */
    __m256i of_b = _mm256_blendv_epi8(three, five, g_last),
            of_g = _mm256_blendv_epi8(three, one, b_last);
    __m256i of_r = _mm256_blendv_epi8(_mm256_set1_epi32(-1), one, b_last);
    __m256i base = _mm256_blendv_epi8(_mm256_blendv_epi8(of_b, of_g, g_first), of_r, r_first);
    __m256i minus_g = _mm256_xor_si256(b_last, _mm256_set1_epi32(-1));
    __m256i minus =
        _mm256_blendv_epi8(_mm256_blendv_epi8(g_last, minus_g, g_first), b_last, r_first);
    __m256 x = _mm256_div_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(largest, middle)),
                             _mm256_cvtepi32_ps(spread));
    x = _mm256_xor_ps(x, _mm256_and_ps(_mm256_castsi256_ps(minus), _mm256_set1_ps(-0.0f)));
    __m256 sixths = _mm256_add_ps(_mm256_cvtepi32_ps(base), x);
    /* sixths / 6, correctly rounded */
    __m256 turn = _mm256_mul_ps(sixths, sixth);
    turn = fused(fused(_mm256_set1_ps(-6.0f), turn, sixths), sixth, turn);
    __m256 below = _mm256_cmp_ps(turn, _mm256_setzero_ps(), _CMP_LT_OQ);
    turn = _mm256_add_ps(turn, _mm256_and_ps(below, _mm256_set1_ps(1.0f)));
    /* the exact product with 255, cut: one less if rounding has reached the next integer */
    __m256i hue = _mm256_cvttps_epi32(_mm256_mul_ps(turn, last));
    __m256 rest = fused(turn, last, _mm256_sub_ps(_mm256_setzero_ps(), _mm256_cvtepi32_ps(hue)));
    return _mm256_add_epi32(
        hue, _mm256_castps_si256(_mm256_cmp_ps(rest, _mm256_setzero_ps(), _CMP_LT_OQ)));
}

INLINE void shift_pixels(__m256i shift, uint8_t *at)
{
    store_pixels(at, shift_dwords(shift, load_dwords(at)));
}

static void shift_hue(const struct mr_hue_shift *shift, uint8_t *pixels, size_t n)
{
    FOR_PIXELS(shift_pixels, _mm256_set1_epi32((int)shift->shift), pixels, n)
}

const struct mr_image_loops mr_image_loops_avx2 = {.map = mr_image_map_avx2,
                                                   .gray = make_gray,
                                                   .sum_gray = sum_gray,
                                                   .saturate = saturate,
                                                   .shift_hue = shift_hue,
                                                   .sharpen = sharpen,
                                                   .box_row = box_row,
                                                   .box_columns = box_columns,
                                                   .taps_row = taps_row,
                                                   .taps_columns = taps_columns,
                                                   .warp = &mr_warp_loops_avx2};
