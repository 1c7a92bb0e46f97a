/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of several kinds, cut short, with flipped bits and with other numbers in them. */
#include "tests/support/corpus.h"
#include "transforms/tile.h"

#include <string.h>

#define N_CUTS 30
#define N_CHANGES 300

/* Eight kinds of coefficients, from none to those that only fit into patches; each twice. */
static struct mr_test_image make_seed(uint32_t i)
{
    static const int most[8] = {0, 1, 7, 9, 127, 130, 2000, 32767};
    int16_t blocks[MR_TILE_MAX_BLOCKS][64] = {0};
    uint32_t random = 7 * i + 1, kind = i / 2, n_blocks = kind == 7 ? 3 : 1 + 6 * kind;
    uint32_t n_values = 2 * (uint32_t)most[kind] + 1;
    struct mr_test_image seed = {.bytes = mr_corpus_room(2 + MR_TILE_MAX_BYTES)};
    for (uint32_t k = 0; k < n_blocks; k++)
        for (uint32_t n = mr_corpus_draw(&random, 64); n && most[kind]; n--)
            blocks[k][mr_corpus_draw(&random, 64)] =
                (int16_t)((int)mr_corpus_draw(&random, n_values) - most[kind]);
    seed.bytes[0] = (uint8_t)(n_blocks - 1);
    seed.bytes[1] = (uint8_t)mr_corpus_draw(&random, 256);
    seed.len = 2 + mr_tile_encode_dct((const int16_t(*)[64])blocks, n_blocks, seed.bytes + 2);
    return seed;
}

/* Change the first bytes, which hold offsets and numbers, more often than the others. */
static void feed_changed(const struct mr_test_image *seed, uint32_t *random)
{
    uint8_t *bytes = mr_corpus_room(seed->len);
    memcpy(bytes, seed->bytes, seed->len);
    for (uint32_t n = 1 + mr_corpus_draw(random, 3); n; n--) {
        size_t below = mr_corpus_draw(random, 3) || seed->len < 12 ? seed->len : 12,
               at = mr_corpus_draw(random, below);
        if (mr_corpus_draw(random, 2))
            bytes[at] ^= (uint8_t)(1u << mr_corpus_draw(random, 8));
        else
            bytes[at] = (uint8_t)mr_corpus_draw(random, 256);
    }
    mr_corpus_feed(bytes, seed->len);
    free(bytes);
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)i;
    mr_corpus_feed_cuts(seed, N_CUTS);
    for (int k = 0; k < N_CHANGES; k++)
        feed_changed(seed, random);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {.n_seeds = 16, .make_seed = make_seed, .run_seed = run_seed};
    return mr_corpus_main(&corpus, argc, argv);
}
