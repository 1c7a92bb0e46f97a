/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands tiles with AVX-512 (VBMI and VBMI2). Nibbles of the whole tile become int8, 64 at a time.
 * Then every block is one vpexpandb by its mask, and two vpermb into natural order.
 *
 * Invariant: every load reads 64 bytes, so it must begin inside the tile (or inside the values).
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"
#include "transforms/tile_parts.h"

/*
 * Positions in zigzag order of natural order's first and last 32 coefficients, each in the upper
 * half of a word: a shift then extends the sign and drops what the lower half had.
 */
struct order {
    __m512i low;
    __m512i high;
    __m512i zero;
};

/*
 * Zeros that the compiler cannot see as zeros. On Zen 4 vpexpandb waits for its destination even
 * when it zeroes it, so one block would wait for another. With a copy of these as its destination,
 * which costs nothing, it does not wait.
 */
INLINE __m512i hidden_zero(void)
{
    __m512i zero = _mm512_setzero_si512();
    __asm__("" : "+v"(zero));
    return zero;
}

INLINE __m512i upper_halves(const uint8_t *bytes)
{
    __m512i words = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)bytes));
    return _mm512_slli_epi16(words, 8);
}

/* Turn 32 bytes into 64 values; escapes are -8. */
INLINE __m512i spread_nibbles(const uint8_t *pairs)
{
    const __m512i shifts = _mm512_set1_epi64(0x1c1814100c080400);
    __m512i eights =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)pairs));
    __m512i nibbles =
        _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, eights), _mm512_set1_epi8(15));
    return _mm512_sub_epi8(nibbles, _mm512_set1_epi8(8));
}

/* Turn all nibbles into values; values has MR_TILE_VALUES_ROOM bytes and is 64-aligned. */
INLINE bool take_nibbles(const struct parts *parts, uint8_t *values)
{
    const __m512i escape = _mm512_set1_epi8(MR_TILE_ESCAPE - 8);
    const uint8_t *next = parts->escapes;
    for (const uint8_t *pairs = parts->values; pairs < parts->escapes; pairs += 32, values += 64) {
        uint32_t n = 2 * (uint32_t)(parts->escapes - pairs);
        __m512i value = spread_nibbles(pairs);
        __mmask64 escaped = _mm512_mask_cmpeq_epi8_mask(first_bytes(n), value, escape);
        value = _mm512_mask_expand_epi8(value, escaped, _mm512_loadu_si512(next));
        _mm512_store_si512(values, value);
        next += count_bits(escaped);
        if (next > parts->patches)
            return false;
    }
    return next == parts->patches;
}

INLINE void put_block(uint64_t mask, const uint8_t *values, int16_t dc, const struct order *order,
                      int16_t out[64])
{
    __m512i zigzag = _mm512_mask_expand_epi8(order->zero, mask, _mm512_loadu_si512(values));
    __m512i low = _mm512_srai_epi16(_mm512_permutexvar_epi8(order->low, zigzag), 8);
    __m512i high = _mm512_srai_epi16(_mm512_permutexvar_epi8(order->high, zigzag), 8);
    _mm512_store_si512(out, _mm512_mask_set1_epi16(low, 1, dc));
    _mm512_store_si512(out + 32, high);
}

/* Like put_blocks() in tile.c. */
INLINE size_t put_blocks(const struct parts *parts, const uint8_t *values, size_t n_values,
                         uint32_t n_blocks, uint32_t first, uint32_t last, int16_t (*out)[64])
{
    const struct order order = {
        .low = upper_halves(bit_of), .high = upper_halves(bit_of + 32), .zero = hidden_zero()};
    struct place at = {.masks = parts->masks};
    skip_blocks(&at, parts, first);
    for (; at.block < last; at.block++, out++) {
        uint32_t n_bytes = parts->mask_bytes[at.block];
        uint64_t mask = read_mask(at.masks, n_bytes);
        if (at.value > n_values)
            return at.value;
        put_block(mask, values + at.value, parts->dc[at.block], &order, *out);
        at.masks += n_bytes;
        at.value += count_bits(mask);
    }
    skip_blocks(&at, parts, n_blocks);
    return at.value;
}

#include "transforms/tile_expand.h"

bool mr_tile_expand_dct_avx512(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                               uint32_t last, int16_t (*out)[64])
{
    return expand_tile(tile, len, n_blocks, first, last, out);
}
