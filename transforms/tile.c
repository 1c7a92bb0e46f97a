/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tiles of coefficients, and expands them in plain C, which is the reference for the other
 * sets.
 *
 * Invariant: a tile may hold anything. Values and escapes are counted by what the tile claims, and
 * read only where they exist.
 */
#include "transforms/tile.h"

#include "transforms/tile_parts.h"

#define LEAST_DC (-1024)
#define MOST_DC 1023

/* ---- Encoding ---- */

static void write_u16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static void add_patch(struct mr_tile_rest *rest, uint32_t block, uint32_t zigzag, int16_t value)
{
    uint8_t *patch = rest->patches[rest->n_patches++];
    write_u16(patch, block * 64 + zigzag);
    write_u16(patch + 2, (uint16_t)value);
}

/*
 * Turn flags of 0 and 1 into bits. The product moves the lowest bits of eight bytes to its upper
 * byte.
 */
static uint64_t gather_bits(const uint8_t flags[64])
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < 64; i += 8) {
        uint64_t eight;
        memcpy(&eight, flags + i, sizeof eight);
        bits |= (eight * UINT64_C(0x0102040810204080) >> 56) << i;
    }
    return bits;
}

/*
 * The AC coefficients, in zigzag order, that are not 0; *wide_out: those of them that do not fit
 * into a byte.
 */
static uint64_t find_values(const int16_t zigzag[64], uint64_t *wide_out)
{
    uint8_t nonzero[64], wide[64];
    for (uint32_t i = 0; i < 64; i++) {
        nonzero[i] = zigzag[i] != 0;
        wide[i] = (uint16_t)(zigzag[i] - INT8_MIN) > UINT8_MAX;
    }
    *wide_out = gather_bits(wide) & ~UINT64_C(1);
    return gather_bits(nonzero) & ~UINT64_C(1);
}

/* Add a block: its header and its mask. Returns the mask's length. */
static uint32_t add_block(struct mr_tile_rest *rest, const int16_t block[64], uint32_t k,
                          uint8_t *header, uint8_t *to)
{
    int16_t zigzag[64];
    for (uint32_t i = 0; i < 64; i++)
        zigzag[i] = block[natural_of[i]];
    int32_t dc = zigzag[0];
    if (dc < LEAST_DC || dc > MOST_DC) {
        add_patch(rest, k, 0, zigzag[0]);
        dc = 0;
    }
    uint64_t wide, mask = find_values(zigzag, &wide);
    for (mask &= ~wide; wide; wide &= wide - 1)
        add_patch(rest, k, (uint32_t)__builtin_ctzll(wide), zigzag[__builtin_ctzll(wide)]);
    int8_t *values =
        rest->values + rest->n_values; /* in a register, because bytes may alias anything */
    for (uint64_t left = mask; left; left &= left - 1)
        *values++ = (int8_t)zigzag[__builtin_ctzll(left)];
    rest->n_values = (uint32_t)(values - rest->values);
    mask >>= 1;
    uint32_t n_bytes = mask ? (uint32_t)(71 - __builtin_clzll(mask)) / 8 : 0;
    write_u16(header, (uint32_t)(dc - LEAST_DC) | n_bytes << 11);
    memcpy(to, &mask, n_bytes);
    return n_bytes;
}

/* Add the blocks' headers and masks; returns the byte after them. */
static uint8_t *add_blocks(struct mr_tile_rest *rest, const int16_t (*blocks)[64],
                           uint32_t n_blocks, uint8_t *headers)
{
    uint8_t *masks = headers + 2 * (size_t)n_blocks;
    assert(n_blocks > 0 && n_blocks <= MR_TILE_MAX_BLOCKS);
    rest->n_values = rest->n_patches = 0;
    for (uint32_t k = 0; k < n_blocks; k++)
        masks += add_block(rest, blocks[k], k, headers + 2 * (size_t)k, masks);
    return masks;
}

/*
 * Write the nibbles, the first value in the lower half, and the escapes. An odd last value is
 * followed by a zero. No branch depends on a value, because it would be mispredicted too often.
 */
static uint8_t *put_values(const struct mr_tile_rest *rest, uint8_t *nibbles, uint8_t **escapes_out)
{
    uint8_t codes[MR_TILE_MAX_VALUES + 1], escapes[MR_TILE_MAX_VALUES + 1];
    uint32_t n_escapes = 0, n = rest->n_values;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t code = (uint8_t)(rest->values[i] + 8);
        codes[i] = code < 16 ? code : MR_TILE_ESCAPE; /* and -8 becomes an escape by itself */
    }
    for (uint32_t i = 0; i < n; i++) {
        escapes[n_escapes] = (uint8_t)rest->values[i];
        n_escapes += codes[i] == MR_TILE_ESCAPE;
    }
    codes[n] = 8;
    for (uint32_t i = 0; i < n; i += 2)
        *nibbles++ = (uint8_t)(codes[i] | codes[i + 1] << 4);
    memcpy(nibbles, escapes, n_escapes);
    *escapes_out = nibbles;
    return nibbles + n_escapes;
}

static size_t end_tile(const struct mr_tile_rest *rest, const uint8_t *tile, uint8_t *to)
{
    size_t len = 4 * (size_t)rest->n_patches;
    memcpy(to, rest->patches, len);
    return (size_t)(to - tile) + len;
}

size_t mr_tile_encode_dct_in(struct mr_tile_rest *rest, const int16_t (*blocks)[64],
                             uint32_t n_blocks, uint8_t *out)
{
    uint8_t *nibbles = add_blocks(rest, blocks, n_blocks, out + 4), *escapes;
    uint8_t *end = put_values(rest, nibbles, &escapes);
    write_u16(out, (uint32_t)(escapes - out));
    write_u16(out + 2, rest->n_patches);
    return end_tile(rest, out, end);
}

size_t mr_tile_encode_dct(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out)
{
    struct mr_tile_rest rest;
    return mr_tile_encode_dct_in(&rest, blocks, n_blocks, out);
}

/* ---- Expanding ---- */

/*
 * Expand all values of the nibbles. Up to two bytes after the escapes are read before too few
 * escapes are noticed.
 */
static bool take_nibbles(const struct parts *parts, uint8_t *values)
{
    const uint8_t *escape = parts->escapes;
    for (const uint8_t *pair = parts->values; pair < parts->escapes; pair++) {
        for (uint32_t shift = 0; shift < 8; shift += 4) {
            uint32_t nibble = *pair >> shift & 15, wide = *escape,
                     escaped = nibble == MR_TILE_ESCAPE;
            *values++ = (uint8_t)(escaped ? wide : nibble - 8);
            escape += escaped;
        }
        if (escape > parts->patches)
            return false;
    }
    return escape == parts->patches;
}

/* Returns the number of values. */
static uint32_t put_block(uint64_t mask, const uint8_t *values, int16_t dc, int16_t out[64])
{
    uint32_t n = 0;
    memset(out, 0, 64 * sizeof *out);
    out[0] = dc;
    for (; mask; mask &= mask - 1)
        out[natural_of[__builtin_ctzll(mask) + 1]] = (int8_t)values[n++];
    return n;
}

/*
 * Returns the number of values that all blocks have; if there are fewer, some number above
 * n_values. A block begins within the values, so no read goes beyond MR_TILE_SLACK.
 */
static size_t put_blocks(const struct parts *parts, const uint8_t *values, size_t n_values,
                         uint32_t n_blocks, uint32_t first, uint32_t last, int16_t (*out)[64])
{
    struct place at = {.masks = parts->masks};
    skip_blocks(&at, parts, first);
    for (; at.block < last; at.block++, out++) {
        uint32_t n_bytes = parts->mask_bytes[at.block];
        if (at.value > n_values)
            return at.value;
        at.value +=
            put_block(read_mask(at.masks, n_bytes), values + at.value, parts->dc[at.block], *out);
        at.masks += n_bytes;
    }
    skip_blocks(&at, parts, n_blocks);
    return at.value;
}

#include "transforms/tile_expand.h"

bool mr_tile_expand_dct(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                        uint32_t last, int16_t (*out)[64])
{
    return expand_tile(tile, len, n_blocks, first, last, out);
}
