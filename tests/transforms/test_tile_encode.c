/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every set of loops makes the same tile of the same blocks, byte for byte, and writes nothing
 * after the longest one. test_tile.c checks the bytes themselves.
 */
#include "tests/transforms/guarded.h"
#include "tests/transforms/reference.h"
#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef int16_t block[64];

static int16_t draw_value(uint64_t *random, uint64_t kind)
{
    static const int16_t edges[] = {-32768, 32767, -129, -128, 127, 128, -9, -8,
                                    -7,     7,     8,    9,    -1,  1,   0,  0};
    static const int32_t limits[] = {0, 1, 7, 9, 127, 200, 32767};
    if (kind == 7)
        return edges[reference_below(random, 16)];
    int32_t limit = limits[kind];
    return (int16_t)((int32_t)reference_below(random, (uint64_t)(2 * limit + 1)) - limit);
}

/* Coefficients of a kind, few or many of them, up to some place in the block. */
static void fill_block(block b, uint64_t *random, uint64_t kind)
{
    static const int16_t edges[] = {-1024, 1023, -1025, 1024, 32767, -32768, 0, 5};
    uint64_t end = reference_below(random, 65), one_in = 1 + reference_below(random, 4);
    memset(b, 0, sizeof(block));
    for (uint64_t i = 0; i < end; i++)
        if (reference_below(random, one_in) == 0)
            b[i] = draw_value(random, kind);
    if (reference_below(random, 3) == 0)
        b[0] = edges[reference_below(random, 8)];
}

static void check_sets(const block *blocks, uint32_t n_blocks, struct guarded *out,
                       struct guarded *expected)
{
    size_t len = mr_kernels_find(MR_CPU_C)->encode_dct(blocks, n_blocks, expected->at);
    assert_in_range(len, 1, MR_TILE_MAX_BYTES);
    for (enum mr_cpu cpu = MR_CPU_AVX2; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
        if (!kernels)
            continue;
        memset(out->at, 0x5a, out->len);
        size_t made = kernels->encode_dct(blocks, n_blocks, out->at);
        if (made != len || memcmp(out->at, expected->at, len) != 0)
            fail_msg("%s: another tile of %u blocks", mr_cpu_name(cpu), n_blocks);
    }
}

static void all_sets_make_the_same_tiles(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    /* The blocks and the tile are each directly before a guard page. */
    struct guarded out = guarded_make(MR_TILE_MAX_BYTES, 1, true);
    struct guarded expected = guarded_make(MR_TILE_MAX_BYTES, 1, true);
    struct guarded blocks = guarded_make(MR_TILE_MAX_BLOCKS * sizeof(block), 64, true);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t n_blocks = 1 + i % MR_TILE_MAX_BLOCKS;
        block *at = (block *)(void *)blocks.at + (MR_TILE_MAX_BLOCKS - n_blocks);
        uint64_t kind = reference_below(&random, 9);
        for (uint32_t k = 0; k < n_blocks; k++)
            fill_block(at[k], &random, kind < 8 ? kind : reference_below(&random, 8));
        check_sets((const block *)at, n_blocks, &out, &expected);
    }
    guarded_free(&out);
    guarded_free(&expected);
    guarded_free(&blocks);
}

/* As in tile.h. */
static void the_longest_tile_fits(void **state)
{
    (void)state;
    struct guarded out = guarded_make(MR_TILE_MAX_BYTES, 1, true);
    struct guarded expected = guarded_make(MR_TILE_MAX_BYTES, 1, true);
    static block blocks[MR_TILE_MAX_BLOCKS];
    for (uint32_t k = 0; k < MR_TILE_MAX_BLOCKS; k++)
        for (uint32_t i = 0; i < 64; i++)
            blocks[k][i] = i == 63 ? 100 : 3000;
    check_sets((const block *)blocks, MR_TILE_MAX_BLOCKS, &out, &expected);
    for (uint32_t k = 0; k < MR_TILE_MAX_BLOCKS; k++)
        for (uint32_t i = 0; i < 64; i++)
            blocks[k][i] = i == 63 ? 3000 : 100;
    check_sets((const block *)blocks, MR_TILE_MAX_BLOCKS, &out, &expected);
    guarded_free(&out);
    guarded_free(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sets_make_the_same_tiles),
        cmocka_unit_test(the_longest_tile_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
