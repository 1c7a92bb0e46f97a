/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tiles with AVX-512 (VBMI2), with the same bytes as tile.c. Two permutes give zigzag order,
 * two comparisons the mask, one vpcompressb the values. Nibbles and escapes follow for the whole
 * tile, 64 at a time. Patches are in the order of blocks and zigzag, a block's DC first.
 *
 * Invariant: stores to the tile are masked, because the caller gives no room beyond
 * MR_TILE_MAX_BYTES.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"
#include "transforms/tile_parts.h"

#define LEAST_DC (-1024)
#define MOST_DC 1023

struct order {
    /* Where natural order has the first and the last 32 coefficients of zigzag order. */
    __m512i low;
    __m512i high;
};

/* What follows the masks. */
struct rest {
    uint32_t n_values;
    uint32_t n_patches;
    int8_t values[MR_TILE_VALUES_ROOM];
    uint16_t patches[MR_TILE_MAX_BLOCKS * 64][2];
};

INLINE __m512i load_words(const uint8_t *bytes)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)bytes));
}

INLINE void add_patch(struct rest *rest, uint32_t block, uint32_t zigzag, int16_t value)
{
    rest->patches[rest->n_patches][0] = (uint16_t)(block * 64 + zigzag);
    rest->patches[rest->n_patches++][1] = (uint16_t)value;
}

/*
 * Add patches for coefficients that do not fit into int8, which is rare, and for the DC if with_dc.
 */
static void add_patches(struct rest *rest, const int16_t block[64], uint32_t k, bool with_dc,
                        uint64_t wide)
{
    if (with_dc)
        add_patch(rest, k, 0, block[0]);
    for (; wide; wide &= wide - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(wide);
        add_patch(rest, k, i, block[natural_of[i]]);
    }
}

/* Write a block's header and mask; returns the mask's length. 8 bytes of the mask are written. */
INLINE uint32_t add_block(struct rest *rest, const int16_t block[64], uint32_t k,
                          const struct order *order, uint8_t *header, uint8_t *to)
{
    __m512i a = _mm512_loadu_si512(block), b = _mm512_loadu_si512(block + 32);
    __m512i low = _mm512_permutex2var_epi16(a, order->low, b),
            high = _mm512_permutex2var_epi16(a, order->high, b);
    const __m512i half = _mm512_set1_epi16(128), most = _mm512_set1_epi16(255);
    uint64_t mask = _mm512_test_epi16_mask(low, low) | (uint64_t)_mm512_test_epi16_mask(high, high)
                                                           << 32;
    uint64_t wide = _mm512_cmpgt_epu16_mask(_mm512_add_epi16(low, half), most) |
                    (uint64_t)_mm512_cmpgt_epu16_mask(_mm512_add_epi16(high, half), most) << 32;
    int32_t dc = block[0];
    bool with_dc = dc < LEAST_DC || dc > MOST_DC;
    wide &= ~UINT64_C(1);
    mask &= ~(wide | 1);
    if (with_dc || wide) {
        add_patches(rest, block, k, with_dc, wide);
        dc = with_dc ? 0 : dc;
    }
    __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)),
                                       _mm512_cvtepi16_epi8(high), 1);
    _mm512_storeu_si512(rest->values + rest->n_values, _mm512_maskz_compress_epi8(mask, bytes));
    rest->n_values += count_bits(mask);
    mask >>= 1;
    uint32_t n_bytes = mask ? (uint32_t)(71 - __builtin_clzll(mask)) / 8 : 0;
    uint16_t word = (uint16_t)((uint32_t)(dc - LEAST_DC) | n_bytes << 11);
    memcpy(header, &word, sizeof word);
    memcpy(to, &mask, sizeof mask);
    return n_bytes;
}

/* Write all headers and masks; returns the end of them. */
INLINE uint8_t *add_blocks(struct rest *rest, const int16_t (*blocks)[64], uint32_t n_blocks,
                           uint8_t *headers)
{
    const struct order order = {.low = load_words(natural_of), .high = load_words(natural_of + 32)};
    uint8_t *masks = headers + 2 * (size_t)n_blocks;
    assert(n_blocks > 0 && n_blocks <= MR_TILE_MAX_BLOCKS);
    rest->n_values = rest->n_patches = 0;
    for (uint32_t k = 0; k < n_blocks; k++)
        masks += add_block(rest, blocks[k], k, &order, headers + 2 * (size_t)k, masks);
    return masks;
}

/*
 * Write nibbles, an odd last one together with a zero, and then the escapes; returns the end of
 * them.
 */
INLINE uint8_t *put_values(const struct rest *rest, uint8_t *nibbles)
{
    const __m512i eight = _mm512_set1_epi8(8), seven = _mm512_set1_epi8(7),
                  most = _mm512_set1_epi8(14);
    const __m512i weights = _mm512_set1_epi16(1 | 16 << 8);
    uint8_t *escapes = nibbles + (rest->n_values + 1) / 2;
    for (uint32_t i = 0; i < rest->n_values; i += 64, nibbles += 32) {
        uint32_t left = rest->n_values - i;
        __mmask64 live = first_bytes(left);
        __m512i value = _mm512_loadu_si512(rest->values + i);
        __mmask64 escaped = live & _mm512_cmpgt_epu8_mask(_mm512_add_epi8(value, seven), most);
        /* A nibble is the value plus 8; MR_TILE_ESCAPE is 0. */
        __m512i nibble = _mm512_mask_add_epi8(eight, live, value, eight);
        nibble = _mm512_maskz_mov_epi8(~escaped, nibble);
        __m256i pairs = _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(nibble, weights));
        _mm256_mask_storeu_epi8(nibbles, (__mmask32)first_bytes((left + 1) / 2), pairs);
        uint32_t n = count_bits(escaped);
        _mm512_mask_storeu_epi8(escapes, first_bytes(n),
                                _mm512_maskz_compress_epi8(escaped, value));
        escapes += n;
    }
    return escapes;
}

INLINE size_t end_tile(const struct rest *rest, const uint8_t *tile, uint8_t *to)
{
    size_t len = sizeof rest->patches[0] * (size_t)rest->n_patches;
    memcpy(to, rest->patches, len);
    return (size_t)(to - tile) + len;
}

INLINE void write_u16(uint8_t *to, size_t value)
{
    uint16_t word = (uint16_t)value;
    memcpy(to, &word, sizeof word);
}

size_t mr_tile_encode_dct_avx512(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out)
{
    struct rest rest;
    uint8_t *nibbles = add_blocks(&rest, blocks, n_blocks, out + 4);
    write_u16(out, (size_t)(nibbles - out) + (rest.n_values + 1) / 2);
    write_u16(out + 2, rest.n_patches);
    return end_tile(&rest, out, put_values(&rest, nibbles));
}
