/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands tiles with AVX-512 (VBMI and VBMI2): nibbles become int8 for the whole tile, 64 at a
 * time, then every block is one vpexpandb by its mask and two vpermb to natural order.
 *
 * Invariant: a load is of 64 bytes wherever it begins, so it begins in the tile (or in the values
 * here).
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"
#include "transforms/tile_parts.h"

/*
 * Where the bytes of natural order's first and last 32 coefficients are in zigzag order, each in
 * the upper half of a word: a shift then extends its sign, and what the lower half had is gone.
 */
struct order {
    __m512i low;
    __m512i high;
    __m512i zero;
};

/*
 * Zeros of which the compiler does not know. vpexpandb waits for its destination even where it
 * zeroes it (on Zen 4), and then one block waits for another: so it gets a copy of these, which
 * costs nothing, as what it merges into.
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

/* 32 bytes to 64 values; escapes are -8. */
INLINE __m512i spread_nibbles(const uint8_t *pairs)
{
    const __m512i shifts = _mm512_set1_epi64(0x1c1814100c080400);
    __m512i eights =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)pairs));
    __m512i nibbles =
        _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, eights), _mm512_set1_epi8(15));
    return _mm512_sub_epi8(nibbles, _mm512_set1_epi8(8));
}

/* All values of the nibbles, to MR_TILE_VALUES_ROOM 64-aligned bytes. */
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

/* As tile.c's. */
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
