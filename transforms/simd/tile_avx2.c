/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands tiles with AVX2. Nibbles of the whole tile become int8, 32 at a time. Then every block is
 * spread by its mask, eight coefficients at a time by a table of shuffles, and brought into natural
 * order by shuffles of 16 bytes. A vector of 32 bytes is two of 16, and neither shuffles nor
 * unpacking cross between them.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx2.h"
#include "transforms/tile_parts.h"

/*
 * For each mask of eight bits: the index of the value that goes to each bit; 0x80 for a bit that is
 * not set.
 */
#define PLACE(m, i) ((m) >> (i)&1 ? (uint8_t)__builtin_popcount((m) & ((1 << (i)) - 1)) : 0x80)
#define PLACES(m)                                                                                  \
    {                                                                                              \
        PLACE(m, 0), PLACE(m, 1), PLACE(m, 2), PLACE(m, 3), PLACE(m, 4), PLACE(m, 5), PLACE(m, 6), \
            PLACE(m, 7)                                                                            \
    }
#define PLACES_4(m) PLACES(m), PLACES((m) + 1), PLACES((m) + 2), PLACES((m) + 3)
#define PLACES_16(m) PLACES_4(m), PLACES_4((m) + 4), PLACES_4((m) + 8), PLACES_4((m) + 12)
#define PLACES_64(m) PLACES_16(m), PLACES_16((m) + 16), PLACES_16((m) + 32), PLACES_16((m) + 48)

static const uint8_t places[256][8] = {PLACES_64(0), PLACES_64(64), PLACES_64(128), PLACES_64(192)};

/* Spread up to eight values to the bits of a mask; the upper half of the result is undefined. */
INLINE __m128i spread_8(const uint8_t *values, uint32_t mask)
{
    return _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(const void *)values),
                            _mm_loadl_epi64((const __m128i *)(const void *)places[mask]));
}

/* Spread up to sixteen values, and move *values past them. */
INLINE __m128i spread_16(const uint8_t **values, uint32_t mask)
{
    __m128i low = spread_8(*values, mask & 255);
    *values += count_bits(mask & 255);
    __m128i high = spread_8(*values, mask >> 8);
    *values += count_bits(mask >> 8);
    return _mm_unpacklo_epi64(low, high);
}

/* ---- Nibbles ---- */

/* Turn 16 bytes into 32 values; escapes are -8. */
INLINE __m256i spread_nibbles(const uint8_t *pairs)
{
    __m256i words = _mm256_cvtepu8_epi16(load128(pairs));
    __m256i nibbles =
        _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(15));
    return _mm256_sub_epi8(nibbles, _mm256_set1_epi8(8));
}

/* Turn all nibbles into values; values has MR_TILE_VALUES_ROOM bytes. */
INLINE bool take_nibbles(const struct parts *parts, uint8_t *values)
{
    const __m256i escape = _mm256_set1_epi8(MR_TILE_ESCAPE - 8);
    const uint8_t *next = parts->escapes;
    for (const uint8_t *pairs = parts->values; pairs < parts->escapes; pairs += 16, values += 32) {
        size_t n_pairs = (size_t)(parts->escapes - pairs);
        uint32_t live = n_pairs < 16 ? (1u << 2 * n_pairs) - 1 : UINT32_MAX;
        __m256i value = spread_nibbles(pairs), is_escape = _mm256_cmpeq_epi8(value, escape);
        uint32_t escaped = (uint32_t)_mm256_movemask_epi8(is_escape) & live;
        __m128i low = spread_16(&next, escaped & 0xffff), high = spread_16(&next, escaped >> 16);
        __m256i wide = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        store256(values, _mm256_blendv_epi8(value, wide, is_escape));
        if (next > parts->patches)
            return false;
    }
    return next == parts->patches;
}

/* ---- Blocks ---- */

/*
 * For each 16 coefficients of zigzag order, where their bytes go in natural order; [0] serves the
 * first 32 outputs. The second eight bytes of a half come 16 places later in natural order, so that
 * unpacking gives words in order.
 */
struct order {
    __m256i from[4][2];
};

/* Places outside of the 16 get their highest bit set, for which a shuffle gives zero. */
static inline void make_order(struct order *order)
{
    for (int h = 0; h < 2; h++) {
        __m256i bits = _mm256_permute4x64_epi64(load256(bit_of + 32 * h), 0xd8);
        for (int q = 0; q < 4; q++) {
            __m256i place = _mm256_sub_epi8(bits, _mm256_set1_epi8((char)(16 * q)));
            order->from[q][h] = _mm256_adds_epu8(place, _mm256_set1_epi8(0x70));
        }
    }
}

/* Sign-extend each vector's bytes to words: the first and the last 16 coefficients. */
INLINE void put_words(__m256i bytes, int16_t out[32])
{
    store256(out, _mm256_srai_epi16(_mm256_unpacklo_epi8(bytes, bytes), 8));
    store256(out + 16, _mm256_srai_epi16(_mm256_unpackhi_epi8(bytes, bytes), 8));
}

/* Write a block whose mask has at most 16 * n_sources bits. */
INLINE void put_block(uint64_t mask, const uint8_t *values, int16_t dc, const struct order *order,
                      int n_sources, int16_t out[64])
{
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int q = 0; q < n_sources; q++) {
        __m256i zigzag =
            _mm256_broadcastsi128_si256(spread_16(&values, (uint32_t)(mask >> 16 * q) & 0xffff));
        low = _mm256_or_si256(low, _mm256_shuffle_epi8(zigzag, order->from[q][0]));
        high = _mm256_or_si256(high, _mm256_shuffle_epi8(zigzag, order->from[q][1]));
    }
    put_words(low, out);
    put_words(high, out + 32);
    out[0] = dc;
}

/* Like put_blocks() in tile.c. */
INLINE size_t put_blocks(const struct parts *parts, const uint8_t *values, size_t n_values,
                         uint32_t n_blocks, uint32_t first, uint32_t last, int16_t (*out)[64])
{
    struct order order;
    struct place at = {.masks = parts->masks};
    make_order(&order);
    skip_blocks(&at, parts, first);
    for (; at.block < last; at.block++, out++) {
        uint32_t n_bytes = parts->mask_bytes[at.block];
        uint64_t mask = read_mask(at.masks, n_bytes);
        int16_t dc = parts->dc[at.block];
        if (at.value > n_values)
            return at.value;
        /* More cases would cost more in mispredicted branches than they save. */
        if (n_bytes <= 2)
            put_block(mask, values + at.value, dc, &order, 1, *out);
        else
            put_block(mask, values + at.value, dc, &order, 4, *out);
        at.masks += n_bytes;
        at.value += count_bits(mask);
    }
    skip_blocks(&at, parts, n_blocks);
    return at.value;
}

#include "transforms/tile_expand.h"

bool mr_tile_expand_dct_avx2(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                             uint32_t last, int16_t (*out)[64])
{
    return expand_tile(tile, len, n_blocks, first, last, out);
}
