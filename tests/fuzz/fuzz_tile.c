/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a tile of either encoding, and as coefficients: nothing beyond the tile and its
 * slack is read, all sets of loops agree, the verdict on a tile does not depend on the wanted
 * blocks, and coefficients come back.
 *
 * An input is two bytes, which give numbers of blocks, then the tile or the coefficients.
 */
#include "tests/fuzz/fuzz.h"
#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int16_t block[64];

/* Which part of which tile. */
struct question {
    uint32_t n_blocks;
    uint32_t first;
    uint32_t last;
};

/* A copy in memory that ends where the slack ends. The slack's bytes are `slack`. */
static uint8_t *copy_tile(const uint8_t *bytes, size_t len, int slack)
{
    uint8_t *copy = malloc(len + MR_TILE_SLACK);
    require(copy != NULL, "out of memory");
    if (len > 0)
        memcpy(copy, bytes, len);
    memset(copy + len, slack, MR_TILE_SLACK);
    return copy;
}

static block *make_room(uint32_t n_blocks)
{
    block *room = aligned_alloc(64, (n_blocks ? n_blocks : 1) * sizeof *room);
    require(room != NULL, "out of memory");
    return room;
}

/* Is it a tile? Its blocks go to out, which has exactly their length. */
static bool ask(const struct mr_kernel_ops *kernels, const struct question *q, const uint8_t *bytes,
                size_t len, int slack, block *out)
{
    uint8_t *tile = copy_tile(bytes, len, slack);
    bool valid = kernels->expand_dct(tile, len, q->n_blocks, q->first, q->last, out);
    free(tile);
    return valid;
}

static void try_tile(const struct question *q, const uint8_t *bytes, size_t len)
{
    struct question all = {.n_blocks = q->n_blocks, .last = q->n_blocks};
    block *plain = make_room(all.last), *out = make_room(q->last - q->first);
    bool valid = ask(&mr_kernels_c, &all, bytes, len, 0, plain);
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
        if (!kernels)
            continue;
        require(ask(kernels, q, bytes, len, 0xff, out) == valid,
                "sets disagree whether it is a tile");
        if (valid)
            require(memcmp(out, plain + q->first, (q->last - q->first) * sizeof *out) == 0,
                    "other coefficients");
    }
    free(out);
    free(plain);
}

/* Coefficients come back from a tile, and encoding them again gives the same tile. */
static void try_coefficients(const block *blocks, uint32_t n_blocks)
{
    uint8_t *tile = malloc(MR_TILE_MAX_BYTES + MR_TILE_SLACK);
    struct question all = {.n_blocks = n_blocks, .last = n_blocks};
    block *out = make_room(n_blocks);
    require(tile != NULL, "out of memory");
    size_t len = mr_tile_encode_dct(blocks, n_blocks, tile);
    require(len <= MR_TILE_MAX_BYTES, "a tile is too long");
    require(ask(mr_kernels_best(), &all, tile, len, 0, out), "a new tile is not a tile");
    require(memcmp(out, blocks, n_blocks * sizeof *out) == 0, "coefficients do not come back");
    free(out);
    free(tile);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 2)
        return 0;
    uint32_t n_blocks = 1 + bytes[0] % MR_TILE_MAX_BLOCKS, first = bytes[1] % n_blocks;
    struct question q = {.n_blocks = n_blocks,
                         .first = first,
                         .last = n_blocks - (bytes[1] / 4) % (n_blocks - first)};
    bytes += 2;
    len -= 2;
    try_tile(&q, bytes, len);
    block *blocks = make_room(n_blocks);
    memset(blocks, 0, n_blocks * sizeof *blocks);
    memcpy(blocks, bytes, len < n_blocks * sizeof *blocks ? len : n_blocks * sizeof *blocks);
    try_coefficients((const block *)blocks, n_blocks);
    free(blocks);
    return 0;
}
