/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a tile, found and checked, for the expanders of all sets. A tile is
 *
 *   u16 offset of the escapes, u16 number of patches | headers | masks | nibbles | escapes |
 *   patches
 *
 * and every part ends where the next one begins. All sets must agree on what is a tile, so
 * everything that decides it is here, except two counts that an expander makes: those of values and
 * of escapes.
 *
 * Invariant: functions are static. This is compiled once for each set, and the linker could choose
 * one set's function for all.
 */
#ifndef TRANSFORMS_TILE_PARTS_H
#define TRANSFORMS_TILE_PARTS_H

#include "transforms/tile_format.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a tile is little-endian");

#define MR_TILE_MAX_VALUES (MR_TILE_MAX_BLOCKS * 63)
/* A nibble is a value plus 8. This one means that the value is the next of the escapes. */
#define MR_TILE_ESCAPE 0
/* Room for the values of a tile's nibbles, an odd last one, and what vectors write after them. */
#define MR_TILE_VALUES_ROOM (MR_TILE_MAX_VALUES + 80)

struct parts {
    const uint8_t *masks;   /* all blocks' */
    const uint8_t *values;  /* nibbles */
    const uint8_t *escapes; /* the end of the values */
    const uint8_t *patches; /* the end of the escapes */
    uint32_t n_patches;
    uint16_t mask_bytes[MR_TILE_MAX_BLOCKS]; /* of each block, 0 to 8 */
    int16_t dc[MR_TILE_MAX_BLOCKS];
};

/* Natural order by zigzag order. */
static const uint8_t natural_of[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/*
 * The bit of a mask by natural order: zigzag order less 1. The DC has bit 63, which is never set.
 */
static const uint8_t bit_of[64] = {
    63, 0,  4,  5,  13, 14, 26, 27, 1,  3,  6,  12, 15, 25, 28, 41, 2,  7,  11, 16, 24, 29,
    40, 42, 8,  10, 17, 23, 30, 39, 43, 52, 9,  18, 22, 31, 38, 44, 51, 53, 19, 21, 32, 37,
    45, 50, 54, 59, 20, 33, 36, 46, 49, 55, 58, 60, 34, 35, 47, 48, 56, 57, 61, 62,
};

/* The bits of a mask of so many bytes. Bit 63 stands for no coefficient and is ignored. */
static const uint64_t mask_bits[9] = {
    0,
    0xff,
    0xffff,
    0xffffff,
    0xffffffff,
    0xffffffffff,
    0xffffffffffff,
    0xffffffffffffff,
    0x7fffffffffffffff,
};

INLINE uint32_t read_u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Reads 8 bytes, whatever the mask's length. n_bytes has been checked. */
INLINE uint64_t read_mask(const uint8_t *at, uint32_t n_bytes)
{
    uint64_t mask;
    memcpy(&mask, at, sizeof mask);
    return mask & mask_bits[n_bytes];
}

INLINE uint32_t count_bits(uint64_t bits)
{
#if defined(__POPCNT__) || defined(__aarch64__)
    return (uint32_t)__builtin_popcountll(bits);
#else /* without an instruction the compiler would call a function */
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(bits * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/*
 * Find headers, masks and patches. *values_out is the offset of the byte after the masks, at most
 * that of the patches. The loop has only 16-bit words, so it is vectorised.
 */
INLINE bool find_ends(struct parts *parts, const uint8_t *tile, size_t len, size_t at,
                      uint32_t n_patches, uint32_t n_blocks, size_t *values_out)
{
    const uint8_t *headers = tile + at;
    uint16_t *restrict mask_bytes = parts->mask_bytes;
    int16_t *restrict dc = parts->dc;
    uint16_t sum = 0, most = 0; /* at most 80 * 31 */
    if (len < at + 2 * (size_t)n_blocks)
        return false;
    for (uint32_t k = 0; k < n_blocks; k++) {
        uint16_t header = (uint16_t)read_u16(headers + 2 * k), bytes = header >> 11;
        dc[k] = (int16_t)((header & 2047) - 1024);
        mask_bytes[k] = bytes;
        sum = (uint16_t)(sum + bytes);
        most = bytes > most ? bytes : most;
    }
    size_t masks = at + 2 * (size_t)n_blocks, values = masks + sum;
    if (most > 8 || len < values || (len - values) / 4 < n_patches)
        return false;
    parts->masks = tile + masks;
    parts->values = tile + values;
    parts->patches = tile + (len - 4 * (size_t)n_patches);
    parts->n_patches = n_patches;
    *values_out = values;
    return true;
}

INLINE bool find_dct(struct parts *parts, const uint8_t *tile, size_t len, uint32_t n_blocks)
{
    size_t values;
    if (len < 4 || !find_ends(parts, tile, len, 4, read_u16(tile + 2), n_blocks, &values))
        return false;
    size_t escapes = read_u16(tile);
    if (escapes < values || escapes > len - 4 * (size_t)parts->n_patches ||
        escapes - values > (63 * (size_t)n_blocks + 1) / 2)
        return false;
    parts->escapes = tile + escapes;
    return true;
}

/* A position in a walk over a tile's blocks. */
struct place {
    uint32_t block;
    const uint8_t *masks;
    size_t value; /* the first one of the block; after the last one if masks promise more than there
                     are */
};

/* Skip the blocks up to end. */
INLINE void skip_blocks(struct place *place, const struct parts *parts, uint32_t end)
{
    for (; place->block < end; place->block++) {
        uint32_t n_bytes = parts->mask_bytes[place->block];
        place->value += count_bits(read_mask(place->masks, n_bytes));
        place->masks += n_bytes;
    }
}

/*
 * A patch is u16 block * 64 + zigzag order, then the coefficient. All are checked, whichever blocks
 * are wanted.
 */
INLINE bool put_patches(const struct parts *parts, uint32_t n_blocks, uint32_t first, uint32_t last,
                        int16_t (*out)[64])
{
    const uint8_t *patch = parts->patches;
    for (uint32_t i = 0; i < parts->n_patches; i++, patch += 4) {
        uint32_t at = read_u16(patch), block = at / 64;
        if (block >= n_blocks)
            return false;
        if (block >= first && block < last)
            out[block - first][natural_of[at % 64]] = (int16_t)read_u16(patch + 2);
    }
    return true;
}

#endif
