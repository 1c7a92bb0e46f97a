/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: tiles of several kinds, cut short, with flipped bits and with other numbers in
 * them; the same inputs at each run. With a folder as argument it writes the whole tiles there instead, as seeds for
 * libFuzzer, and their names, separated by commas, to the file "list" there.
 */
#include "tests/fuzz/fuzz_tile.h"
#include "transforms/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SEEDS 16
#define N_CUTS 30
#define N_CHANGES 300

struct seed {
    uint8_t bytes[2 + MR_TILE_MAX_BYTES];
    size_t len;
};

static uint32_t draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

/* Eight kinds of coefficients, from none to those that fit nowhere but in patches; each twice. */
static struct seed *make_seed(uint32_t i)
{
    static const int most[8] = {0, 1, 7, 9, 127, 130, 2000, 32767};
    int16_t blocks[MR_TILE_MAX_BLOCKS][64] = {0};
    uint32_t random = 7 * i + 1, kind = i / 2, n_blocks = kind == 7 ? 3 : 1 + 6 * kind;
    struct seed *seed = calloc(1, sizeof *seed);
    if (!seed)
        abort();
    for (uint32_t k = 0; k < n_blocks; k++)
        for (uint32_t n = draw(&random, 64); n && most[kind]; n--)
            blocks[k][draw(&random, 64)] = (int16_t)((int)draw(&random, (size_t)(2 * most[kind] + 1)) - most[kind]);
    seed->bytes[0] = (uint8_t)(n_blocks - 1);
    seed->bytes[1] = (uint8_t)draw(&random, 256);
    seed->len = 2 + mr_tile_encode_dct((const int16_t(*)[64])blocks, n_blocks, seed->bytes + 2);
    return seed;
}

static void feed(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

/* The first bytes, which hold offsets and numbers, more often than the others. */
static void feed_changed(const struct seed *seed, uint32_t *random)
{
    struct seed changed = *seed;
    for (uint32_t n = 1 + draw(random, 3); n; n--) {
        size_t at = draw(random, 3) ? draw(random, seed->len) : draw(random, seed->len < 12 ? seed->len : 12);
        if (draw(random, 2))
            changed.bytes[at] ^= (uint8_t)(1u << draw(random, 8));
        else
            changed.bytes[at] = (uint8_t)draw(random, 256);
    }
    feed(changed.bytes, changed.len);
}

static void run_corpus(void)
{
    uint32_t random = 1;
    for (uint32_t i = 0; i < N_SEEDS; i++) {
        struct seed *seed = make_seed(i);
        for (size_t cut = 0; cut <= N_CUTS; cut++)
            feed(seed->bytes, seed->len * cut / N_CUTS);
        for (int k = 0; k < N_CHANGES; k++)
            feed_changed(seed, &random);
        free(seed);
    }
}

static void write_seeds(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/list", folder);
    FILE *list = fopen(path, "we");
    if (!list)
        abort();
    for (uint32_t i = 0; i < N_SEEDS; i++) {
        struct seed *seed = make_seed(i);
        snprintf(path, sizeof path, "%s/seed%02u", folder, i);
        FILE *file = fopen(path, "we");
        if (!file || fwrite(seed->bytes, 1, seed->len, file) != seed->len || fclose(file) != 0)
            abort();
        fprintf(list, "%s%s", i ? "," : "", path);
        free(seed);
    }
    if (fclose(list) != 0)
        abort();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        write_seeds(argv[1]);
    else
        run_corpus();
    return 0;
}
