/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles: coefficients come back, with every set of loops that this machine has and for any of the
 * blocks. Whatever a tile's bytes are, nothing outside its memory is touched and all sets return
 * the same. The layout itself is checked against bytes written down here.
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

#define N_BLOCKS MR_TILE_MAX_BLOCKS

typedef int16_t block[64];

/* A tile and room for its blocks, each directly before a guard page. */
struct bench {
    struct guarded bytes;
    struct guarded room;
};

static struct bench make_bench(void)
{
    return (struct bench){.bytes = guarded_make(MR_TILE_MAX_BYTES + MR_TILE_SLACK, 1, true),
                          .room = guarded_make(N_BLOCKS * sizeof(block), 64, true)};
}

static void free_bench(struct bench *bench)
{
    guarded_free(&bench->bytes);
    guarded_free(&bench->room);
}

/* Put a tile into the guarded memory. Each byte after it is `slack`. */
static const uint8_t *lay_tile(const struct bench *bench, const uint8_t *tile, size_t len,
                               int slack)
{
    uint8_t *at = bench->bytes.at + MR_TILE_MAX_BYTES - len;
    memcpy(at, tile, len);
    memset(at + len, slack, MR_TILE_SLACK);
    return at;
}

/* The blocks are at the end of the room; NULL if the bytes are not a tile. */
static block *expand_tile(const struct bench *bench, const struct mr_kernel_ops *kernels,
                          const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                          uint32_t last)
{
    block *out = (block *)(void *)bench->room.at + N_BLOCKS - (last - first);
    if (last - first < N_BLOCKS)
        memset(out - 1, 0xa5, sizeof *out);
    bool valid = kernels->expand_dct(tile, len, n_blocks, first, last, out);
    for (uint32_t i = 0; i < 64 && last - first < N_BLOCKS; i++)
        if (out[-1][i] != (int16_t)0xa5a5)
            fail_msg("blocks %u to %u of %u: wrote before them", first, last, n_blocks);
    return valid ? out : NULL;
}

/* ---- Blocks ---- */

static int16_t draw_between(uint64_t *random, int32_t low, int32_t high)
{
    return (int16_t)(low + (int32_t)reference_below(random, (uint64_t)(high - low + 1)));
}

/*
 * Like a photograph's: ever fewer and smaller coefficients. Neighbours in natural order are close
 * enough to zigzag order.
 */
static void fill_natural(block b, uint64_t *random)
{
    uint64_t end = reference_below(random, 16);
    for (uint32_t i = 1; i < 64; i++) {
        uint32_t at = i / 8 + i % 8;
        int32_t most = 200 >> (at / 2);
        if (at < end && reference_below(random, 14) > at)
            b[i] = draw_between(random, -most - 1, most + 1);
    }
}

static void fill_block(block b, uint64_t *random, uint64_t kind)
{
    static const int32_t limits[] = {0, 1, 7, 8, 9, 127, 128, 130, 32767};
    memset(b, 0, sizeof(block));
    b[0] = draw_between(random, -1030, 1030);
    if (kind < 9) { /* dense, up to a limit */
        for (uint32_t i = 1; i < 64; i++)
            b[i] = draw_between(random, -limits[kind] - (kind > 0), limits[kind]);
    } else if (kind < 13) {
        fill_natural(b, random);
    } else if (kind == 13) { /* a few anywhere */
        for (uint64_t n = reference_below(random, 4); n; n--)
            b[reference_below(random, 64)] = draw_between(random, -9, 9);
    } else if (kind == 14) { /* extremes */
        static const int16_t extremes[] = {-32768, -32767, 32767, -129,  -128, 127,
                                           128,    -1024,  1023,  -1025, 1024, 0};
        for (uint32_t i = 0; i < 64; i++)
            b[i] = extremes[reference_below(random, 12)];
    } else { /* the last one alone */
        b[63] = draw_between(random, -200, 200);
    }
}

static void fill_blocks(block *blocks, uint32_t n_blocks, uint64_t *random)
{
    uint64_t kind = reference_below(random, 24);
    for (uint32_t k = 0; k < n_blocks; k++)
        fill_block(blocks[k], random, kind < 16 ? kind : reference_below(random, 16));
}

static size_t encode_blocks(const block *blocks, uint32_t n_blocks, uint8_t *tile)
{
    size_t len = mr_tile_encode_dct(blocks, n_blocks, tile);
    assert_in_range(len, 2 + 2 * n_blocks, MR_TILE_MAX_BYTES);
    return len;
}

/* In both arrays the first block is block `first`. */
static void same_blocks(block *got, const block *want, uint32_t n_blocks, uint32_t first,
                        uint32_t last)
{
    if (!got)
        fail_msg("blocks %u to %u of %u: not a tile", first, last, n_blocks);
    for (uint32_t k = first; k < last; k++)
        for (uint32_t i = 0; i < 64; i++)
            if (got[k - first][i] != want[k - first][i])
                fail_msg("blocks %u to %u of %u: block %u, coefficient %u is %d instead of %d",
                         first, last, n_blocks, k, i, got[k - first][i], want[k - first][i]);
}

/* ---- What goes in comes out ---- */

static void any_blocks_of_a_tile_come_back(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    struct bench bench = make_bench();
    for (uint32_t n = 1; n <= N_BLOCKS; n++) {
        block blocks[N_BLOCKS];
        uint8_t bytes[MR_TILE_MAX_BYTES];
        for (uint32_t k = 0; k < n; k++)
            fill_block(blocks[k], &random, reference_below(&random, 16));
        size_t len = encode_blocks((const block *)blocks, n, bytes);
        const uint8_t *tile = lay_tile(&bench, bytes, len, 0);
        for (uint32_t first = 0; first < n; first++)
            for (uint32_t last = first; last <= n; last++)
                same_blocks(expand_tile(&bench, kernels, tile, len, n, first, last),
                            (const block *)blocks + first, n, first, last);
    }
    free_bench(&bench);
}

static void tiles_of_every_kind_come_back(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    struct bench bench = make_bench();
    for (int i = 0; i < 4000; i++) {
        uint32_t n = 1 + (uint32_t)reference_below(&random, N_BLOCKS);
        block blocks[N_BLOCKS];
        uint8_t bytes[MR_TILE_MAX_BYTES];
        fill_blocks(blocks, n, &random);
        size_t len = encode_blocks((const block *)blocks, n, bytes);
        const uint8_t *tile = lay_tile(&bench, bytes, len, (int)reference_below(&random, 256));
        same_blocks(expand_tile(&bench, kernels, tile, len, n, 0, n), (const block *)blocks, n, 0,
                    n);
    }
    free_bench(&bench);
}

static void nothing_before_a_tile_is_read(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    struct bench bench = make_bench();
    struct guarded front = guarded_make(MR_TILE_MAX_BYTES + MR_TILE_SLACK, 1, false);
    for (int i = 0; i < 400; i++) {
        uint32_t n = 1 + (uint32_t)reference_below(&random, 12);
        block blocks[N_BLOCKS];
        fill_blocks(blocks, n, &random);
        size_t len = encode_blocks((const block *)blocks, n, front.at);
        same_blocks(expand_tile(&bench, kernels, front.at, len, n, 0, n), (const block *)blocks, n,
                    0, n);
    }
    guarded_free(&front);
    free_bench(&bench);
}

/* ---- Damage ---- */

static void damage_bytes(uint8_t *bytes, size_t *len, uint64_t *random)
{
    switch (reference_below(random, 6)) {
    case 0: *len = reference_below(random, *len + 1); break;
    case 1: /* garbage all over */
        for (size_t i = 0; i < *len; i++)
            bytes[i] = (uint8_t)reference_random(random);
        break;
    case 2: /* the first numbers */
        bytes[reference_below(random, 4)] = (uint8_t)reference_random(random);
        break;
    case 3: /* longer, with anything */
        for (uint64_t n = reference_below(random, 40); n && *len < MR_TILE_MAX_BYTES; n--)
            bytes[(*len)++] = (uint8_t)reference_random(random);
        break;
    default:
        for (uint64_t n = 1 + reference_below(random, 3); n; n--)
            bytes[reference_below(random, *len)] ^= (uint8_t)(1 << reference_below(random, 8));
        break;
    }
}

/* Returns whether it is a tile. */
static bool compare_damaged(const struct bench *bench, const struct mr_kernel_ops *kernels,
                            const uint8_t *bytes, size_t len, uint32_t n, uint64_t *random)
{
    block plain[N_BLOCKS];
    uint32_t first = (uint32_t)reference_below(random, n),
             last = first + (uint32_t)reference_below(random, n - first);
    const uint8_t *tile = lay_tile(bench, bytes, len, (int)reference_below(random, 256));
    block *out = expand_tile(bench, &mr_kernels_c, tile, len, n, first, last);
    bool valid = out != NULL;
    if (valid)
        memcpy(plain, out, (last - first) * sizeof(block));
    tile = lay_tile(bench, bytes, len, (int)reference_below(random, 256));
    out = expand_tile(bench, kernels, tile, len, n, first, last);
    if (valid)
        same_blocks(out, (const block *)plain, n, first, last);
    if (valid != (out != NULL) ||
        valid != (expand_tile(bench, kernels, tile, len, n, 0, n) != NULL))
        fail_msg("blocks %u to %u of %u in %zu bytes: is it a tile or not?", first, last, n, len);
    return valid;
}

static void every_set_agrees_on_damage(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    struct bench bench = make_bench();
    uint32_t n_valid = 0, n_invalid = 0;
    for (int i = 0; i < 30000; i++) {
        uint32_t n = 1 + (uint32_t)reference_below(&random, i % 4 ? 12 : N_BLOCKS);
        block blocks[N_BLOCKS];
        uint8_t bytes[MR_TILE_MAX_BYTES];
        fill_blocks(blocks, n, &random);
        size_t len = encode_blocks((const block *)blocks, n, bytes);
        damage_bytes(bytes, &len, &random);
        bool valid = compare_damaged(&bench, kernels, bytes, len, n, &random);
        n_valid += valid;
        n_invalid += !valid;
    }
    /* flipped bits of values and coefficients still give a tile */
    assert_in_range(n_valid, 1000, 29000);
    assert_in_range(n_invalid, 1000, 29000);
    free_bench(&bench);
}

static void no_other_length_is_a_tile(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint64_t random = reference_seed();
    struct bench bench = make_bench();
    for (int i = 0; i < 40; i++) {
        uint32_t n = 1 + (uint32_t)reference_below(&random, 8);
        block blocks[N_BLOCKS];
        uint8_t bytes[MR_TILE_MAX_BYTES] = {0};
        fill_blocks(blocks, n, &random);
        size_t len = encode_blocks((const block *)blocks, n, bytes);
        for (size_t cut = 0; cut < len + 9 && cut <= MR_TILE_MAX_BYTES; cut++)
            if ((expand_tile(&bench, kernels, lay_tile(&bench, bytes, cut, 0), cut, n, 0, n) !=
                 NULL) != (cut == len))
                fail_msg("%zu bytes of a tile of %zu", cut, len);
    }
    free_bench(&bench);
}

/* ---- The layout ---- */

/*
 * DC 5 and -1024 + 1024 = 0; ACs 3, -7, 8, 1 of the first block in zigzag order 1, 2, 10, 63; a
 * patch of each kind.
 */
static void fill_written_down(block blocks[2])
{
    memset(blocks, 0, 2 * sizeof(block));
    blocks[0][0] = 5;
    blocks[0][1] = 3;
    blocks[0][8] = -7;
    blocks[0][32] = 8; /* zigzag 10 */
    blocks[0][63] = 1;
    blocks[0][16] = -300; /* zigzag 3 */
    blocks[1][0] = 2000;
    blocks[1][9] = -128; /* zigzag 4 */
}

static const uint8_t dct_bytes[] = {
    20,   0,    2,    0,                             /* escapes, patches */
    0x05, 0x44, 0,    0x0c,                          /* headers: 1029 and 8 bytes, 1024 and 1
                                                        byte */
    0x03, 0x02, 0,    0,    0,  0, 0,    0x40, 0x08, /* masks */
    0x1b, 0x90, 0x80,                                /* 3, -7; escape, 1; escape, nothing */
    8,    0x80,                                      /* escapes */
    3,    0,    0xd4, 0xfe, 64, 0, 0xd0, 7,          /* patches */
};

static void the_layout_is_the_one_written_down(void **state)
{
    (void)state;
    block blocks[2];
    uint8_t tile[MR_TILE_MAX_BYTES];
    fill_written_down(blocks);
    assert_int_equal(mr_tile_encode_dct((const block *)blocks, 2, tile), sizeof dct_bytes);
    assert_memory_equal(tile, dct_bytes, sizeof dct_bytes);
}

/* Is it a tile if one byte of those above is changed? With each set. */
static bool is_tile_with(const struct mr_kernel_ops *kernels, size_t at, uint8_t value)
{
    uint8_t bytes[sizeof dct_bytes];
    size_t len = sizeof dct_bytes;
    struct bench bench = make_bench();
    memcpy(bytes, dct_bytes, len);
    bytes[at] = value;
    bool valid =
        expand_tile(&bench, kernels, lay_tile(&bench, bytes, len, 0), len, 2, 0, 2) != NULL;
    free_bench(&bench);
    return valid;
}

static void bytes_that_do_not_add_up_are_no_tile(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    assert_true(is_tile_with(kernels, 0, 20));
    /* an escape more than nibbles say, a pair too few */
    assert_false(is_tile_with(kernels, 0, 19));
    assert_false(is_tile_with(kernels, 0, 21));    /* a pair too many */
    assert_false(is_tile_with(kernels, 1, 1));     /* escapes after the end */
    assert_false(is_tile_with(kernels, 2, 1));     /* an escape too many */
    assert_false(is_tile_with(kernels, 2, 3));     /* patches before the escapes */
    assert_false(is_tile_with(kernels, 3, 0x80));  /* patches before the tile */
    assert_false(is_tile_with(kernels, 5, 0x4c));  /* nine bytes of mask */
    assert_false(is_tile_with(kernels, 5, 0xfc));  /* 31 */
    assert_false(is_tile_with(kernels, 7, 0x14));  /* a nibble as mask */
    assert_false(is_tile_with(kernels, 18, 0x98)); /* an escape too few */
    assert_false(is_tile_with(kernels, 19, 0));    /* the half after the last value is one, too */
    assert_true(is_tile_with(kernels, 15, 0xc0));  /* bit 63 of a mask is ignored */
    assert_false(is_tile_with(kernels, 14, 0x07)); /* three values more */
    assert_true(is_tile_with(kernels, 22, 127));   /* the last block's last coefficient */
    assert_false(is_tile_with(kernels, 22, 128));  /* one after it */
}

/* Such values would not fit into an expander's room. */
static void more_nibbles_than_blocks_have_room_for_are_no_tile(void **state)
{
    const struct mr_kernel_ops *kernels = *state;
    uint8_t bytes[20000];
    struct bench bench = make_bench();
    for (uint32_t n = 1; n <= N_BLOCKS; n++) {
        memset(bytes, 0x99, sizeof bytes);
        memset(bytes, 0, 4 + 2 * n); /* headers without masks */
        bytes[0] = sizeof bytes & 255;
        bytes[1] = sizeof bytes >> 8;
        const uint8_t *tile = lay_tile(&bench, bytes, sizeof bytes, 0);
        assert_null(expand_tile(&bench, kernels, tile, sizeof bytes, n, 0, n));
    }
    free_bench(&bench);
}

static void the_longest_tile_is_as_long_as_promised(void **state)
{
    (void)state;
    block blocks[N_BLOCKS];
    struct guarded tile = guarded_make(MR_TILE_MAX_BYTES, 1, true);
    for (uint32_t k = 0; k < N_BLOCKS; k++) {
        for (uint32_t i = 0; i < 64; i++)
            blocks[k][i] = -1025;
        blocks[k][63] = -8;
    }
    assert_int_equal(mr_tile_encode_dct((const block *)blocks, N_BLOCKS, tile.at),
                     MR_TILE_MAX_BYTES);
    guarded_free(&tile);
}

static int test_set(enum mr_cpu cpu)
{
    const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
    void *state = (void *)(uintptr_t)kernels;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(any_blocks_of_a_tile_come_back, state),
        cmocka_unit_test_prestate(tiles_of_every_kind_come_back, state),
        cmocka_unit_test_prestate(nothing_before_a_tile_is_read, state),
        cmocka_unit_test_prestate(every_set_agrees_on_damage, state),
        cmocka_unit_test_prestate(no_other_length_is_a_tile, state),
        cmocka_unit_test_prestate(bytes_that_do_not_add_up_are_no_tile, state),
        cmocka_unit_test_prestate(more_nibbles_than_blocks_have_room_for_are_no_tile, state),
    };
    if (!kernels) {
        print_message("skipped: this machine has no %s\n", mr_cpu_name(cpu));
        return 0;
    }
    return cmocka_run_group_tests_name(mr_cpu_name(cpu), tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_one_written_down),
        cmocka_unit_test(the_longest_tile_is_as_long_as_promised),
    };
    int n_failed = cmocka_run_group_tests_name("layout", tests, NULL, NULL);
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++)
        n_failed += test_set(cpu);
    return n_failed;
}
