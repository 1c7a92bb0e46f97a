/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of every kind, with bytes altered in the header and anywhere, or cut short, packed in every
 * way.
 */
#include "tests/support/corpus.h"

#include <string.h>

#define N_PICTURES 14
#define N_KINDS 16
#define N_ROUNDS 60

static const struct mr_test_jpeg pictures[N_PICTURES] = {
    {.width = 40, .height = 33},
    {.width = 70, .height = 20, .restart = 2},
    {.width = 33, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}}},
    {.width = 60, .height = 17, .sampling = {{2, 1}, {1, 1}, {1, 1}}, .quality = 99},
    {.width = 40, .height = 20, .sampling = {{4, 1}, {2, 1}, {1, 1}}},
    {.width = 20, .height = 40, .sampling = {{1, 2}, {1, 1}, {1, 1}}, .orientation = 6},
    {.width = 50, .height = 33, .colour = MR_TEST_GREY},
    {.width = 30, .height = 30, .colour = MR_TEST_YCCK},
    {.width = 30, .height = 20, .colour = MR_TEST_CMYK},
    {.width = 30, .height = 20, .colour = MR_TEST_RGB},
    {.width = 40, .height = 30, .progressive = true},
    {.width = 30, .height = 30, .arithmetic = true},
    {.width = 30, .height = 30, .one_scan_each = true},
    {.width = 1, .height = 1},
};

/* A picture, after the byte that chooses the packer. */
static struct mr_test_image make_seed(uint32_t i)
{
    struct mr_test_image file = mr_test_jpeg(&pictures[i]);
    struct mr_test_image seed = {.bytes = mr_corpus_room(file.len + 1), .len = file.len + 1};
    seed.bytes[0] = (uint8_t)i;
    memcpy(seed.bytes + 1, file.bytes, file.len);
    mr_test_image_free(&file);
    return seed;
}

static void run_kind(const struct mr_test_image *seed, uint32_t *random)
{
    uint8_t *bytes = mr_corpus_room(seed->len);
    mr_corpus_feed(seed->bytes, seed->len);
    for (int round = 0; round < N_ROUNDS; round++) {
        memcpy(bytes, seed->bytes, seed->len);
        for (int k = 0; k <= round % 3; k++) {
            size_t at =
                1 + mr_corpus_draw(random, round % 2 || seed->len < 620 ? seed->len - 1 : 619);
            if (round % 4 < 2)
                bytes[at] = (uint8_t)mr_corpus_draw(random, 256);
            else
                bytes[at] ^= (uint8_t)(1u << mr_corpus_draw(random, 8));
        }
        mr_corpus_feed(bytes, seed->len);
    }
    for (size_t len = 0; len < seed->len; len += 1 + len / 8)
        mr_corpus_feed(seed->bytes, len);
    free(bytes);
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)i;
    for (seed->bytes[0] = 0; seed->bytes[0] < N_KINDS; seed->bytes[0]++)
        run_kind(seed, random);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {
        .n_seeds = N_PICTURES, .make_seed = make_seed, .run_seed = run_seed};
    return mr_corpus_main(&corpus, argc, argv);
}
