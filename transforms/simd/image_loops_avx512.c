/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the image operations for AVX-512. Pixels are dwords, sixteen at a time, loaded and
 * stored with masks.
 */
#include "transforms/simd/image_loops.h"
#include "transforms/simd/simd_avx512.h"

#include <string.h>

#define PIXELS 16
#define WORDS 32

INLINE __m512 absolute(__m512 v)
{
    return _mm512_abs_ps(v);
}

INLINE __m512i load_words(const uint8_t *from)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)from));
}

INLINE void store_bytes(uint8_t *to, __m512i words)
{
    _mm256_storeu_si256((void *)to, _mm512_cvtepi16_epi8(words));
}

INLINE void store_clipped(uint8_t *to, __m512i words)
{
    words = _mm512_max_epi16(words, _mm512_setzero_si512());
    _mm256_storeu_si256((void *)to, _mm512_cvtusepi16_epi8(words));
}

#include "transforms/simd/image_loops_simd.h"

/* One dword per pixel, red in the lowest byte. */
INLINE __m512i load_dwords(const uint8_t *from, __mmask64 bytes)
{
    const __m512i spread = _mm512_setr_epi32(
        0x020100, 0x050403, 0x080706, 0x0b0a09, 0x0e0d0c, 0x11100f, 0x141312, 0x171615, 0x1a1918,
        0x1d1c1b, 0x201f1e, 0x232221, 0x262524, 0x292827, 0x2c2b2a, 0x2f2e2d);
    const __mmask64 three_of_four = 0x7777777777777777u;
    return _mm512_maskz_permutexvar_epi8(three_of_four, spread,
                                         _mm512_maskz_loadu_epi8(bytes, from));
}

/*
 * Store 16 pixels, or those of the mask. A load within 64 bytes of a masked store waits for that
 * store, so only the last store of a row is masked.
 */
INLINE void store_packed(uint8_t *to, __mmask64 bytes, __m512i v)
{
    if (bytes == first_bytes(3 * PIXELS)) {
        _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(v));
        _mm_storeu_si128((void *)(to + 32), _mm512_extracti32x4_epi32(v, 2));
    } else {
        _mm512_mask_storeu_epi8(to, bytes, v);
    }
}

/*
 * Store pixels; packing saturates values to 0 to 255. Four reds, four greens and four blues of four
 * pixels are packed together.
 */
INLINE void store_pixels(uint8_t *to, __mmask64 bytes, struct rgb p)
{
    const __m512i order = _mm512_setr_epi32(
        0x01080400, 0x06020905, 0x0b07030a, 0x11181410, 0x16121915, 0x1b17131a, 0x21282420,
        0x26222925, 0x2b27232a, 0x31383430, 0x36323935, 0x3b37333a, 0, 0, 0, 0);
    __m512i v = _mm512_packus_epi16(_mm512_packs_epi32(p.r, p.g), _mm512_packs_epi32(p.b, p.b));
    store_packed(to, bytes, _mm512_permutexvar_epi8(order, v));
}

/* A mask of the bytes of n pixels, at most 16. */
INLINE __mmask64 pixel_bytes(size_t n)
{
    return first_bytes(3 * (uint32_t)(n < PIXELS ? n : PIXELS));
}

static void make_gray(uint32_t step, const uint8_t *pixels, size_t n, uint8_t *out)
{
    const __m512i thrice = _mm512_setr_epi32(
        0x04000000, 0x08080404, 0x0c0c0c08, 0x14101010, 0x18181414, 0x1c1c1c18, 0x24202020,
        0x28282424, 0x2c2c2c28, 0x34303030, 0x38383434, 0x3c3c3c38, 0, 0, 0, 0);
    for (size_t i = 0; i < n; i += PIXELS) {
        __mmask64 bytes = pixel_bytes(n - i);
        __m512i gray = find_gray(load_dwords(pixels + 3 * i, bytes));
        if (step == 3)
            store_packed(out + 3 * i, bytes, _mm512_permutexvar_epi8(thrice, gray));
        else if (n - i >= PIXELS)
            _mm_storeu_si128((void *)(out + i), _mm512_cvtepi32_epi8(gray));
        else
            _mm512_mask_cvtepi32_storeu_epi8(out + i, (__mmask16)first_bytes((uint32_t)(n - i)),
                                             gray);
    }
}

static uint64_t sum_gray(const uint8_t *pixels, size_t n)
{
    __m512i sums = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += PIXELS) {
        __m512i gray = find_gray(load_dwords(pixels + 3 * i, pixel_bytes(n - i)));
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(gray, _mm512_setzero_si512()));
    }
    return (uint64_t)_mm512_reduce_add_epi64(sums);
}

static void saturate(float factor, uint8_t *pixels, size_t n)
{
    const __m512 factors = _mm512_set1_ps(factor);
    for (size_t i = 0; i < n; i += PIXELS) {
        __mmask64 bytes = pixel_bytes(n - i);
        store_pixels(pixels + 3 * i, bytes,
                     saturate_dwords(factors, load_dwords(pixels + 3 * i, bytes)));
    }
}

/* The hue in bytes; spread is not 0. */
INLINE __m512i find_hue(struct rgb p, __m512i largest, __m512i smallest, __m512i spread)
{
    /*
     * base + x or base - x, as in plain C, by sixth: red first (blue last, green last), green, blue
     */
    const __m512 bases = _mm512_setr_ps(1, -1, 1, 3, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512 signs = _mm512_setr_ps(-1, 1, 1, -1, -1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512 sixth = _mm512_set1_ps(1.0f / 6.0f);
    __m512i middle = _mm512_ternarylogic_epi32(_mm512_ternarylogic_epi32(p.r, p.g, p.b, 0x96),
                                               largest, smallest, 0x96);
    __mmask16 r_first = _mm512_cmpeq_epi32_mask(p.r, largest),
              g_first = _mm512_cmpeq_epi32_mask(p.g, largest);
    __mmask16 b_last = _mm512_cmpeq_epi32_mask(p.b, smallest),
              g_last = _mm512_cmpeq_epi32_mask(p.g, smallest);
    __m512i which = _mm512_mask_mov_epi32(_mm512_set1_epi32(5), g_last, _mm512_set1_epi32(4));
    which = _mm512_mask_mov_epi32(which, g_first, _mm512_set1_epi32(3));
    which = _mm512_mask_mov_epi32(which, g_first & b_last, _mm512_set1_epi32(2));
    which = _mm512_mask_mov_epi32(which, r_first, _mm512_set1_epi32(1));
    which = _mm512_mask_mov_epi32(which, r_first & b_last, _mm512_setzero_si512());
    __m512 x = _mm512_div_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(largest, middle)),
                             _mm512_cvtepi32_ps(spread));
    __m512 sixths = _mm512_fmadd_ps(x, _mm512_permutexvar_ps(which, signs),
                                    _mm512_permutexvar_ps(which, bases));
    /* sixths / 6, correctly rounded */
    __m512 turn = _mm512_mul_ps(sixths, sixth);
    turn = _mm512_fmadd_ps(_mm512_fnmadd_ps(_mm512_set1_ps(6.0f), turn, sixths), sixth, turn);
    __mmask16 below = _mm512_cmp_ps_mask(turn, _mm512_setzero_ps(), _CMP_LT_OQ);
    turn = _mm512_mask_add_ps(turn, below, turn, _mm512_set1_ps(1.0f));
    /* the exact product, cut */
    return _mm512_cvttps_epi32(
        _mm512_mul_round_ps(turn, _mm512_set1_ps(255.0f), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}

static void shift_hue(const struct mr_hue_shift *shift, uint8_t *pixels, size_t n)
{
    const __m512i by = _mm512_set1_epi32((int)shift->shift);
    for (size_t i = 0; i < n; i += PIXELS) {
        __mmask64 bytes = pixel_bytes(n - i);
        store_pixels(pixels + 3 * i, bytes, shift_dwords(by, load_dwords(pixels + 3 * i, bytes)));
    }
}

const struct mr_image_loops mr_image_loops_avx512 = {.map = mr_image_map_avx512,
                                                     .gray = make_gray,
                                                     .sum_gray = sum_gray,
                                                     .saturate = saturate,
                                                     .shift_hue = shift_hue,
                                                     .sharpen = sharpen,
                                                     .box_row = box_row,
                                                     .box_columns = box_columns,
                                                     .taps_row = taps_row,
                                                     .taps_columns = taps_columns,
                                                     .warp = &mr_warp_loops_avx512};
