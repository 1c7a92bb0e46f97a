/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of every kind, made here or from tests/data/formats.json, cut short, with flipped bits and
 * with parts exchanged.
 */
#include "tests/support/corpus.h"
#include "tests/support/format_corpus.h"

#include <string.h>

#define N_JPEGS 16
#define N_PNGS 8
#define N_MADE (N_JPEGS + N_PNGS)
#define N_CUTS 24
#define N_FLIPS 120

static struct mr_format_example *examples;
static struct mr_corpus corpus;

static const struct mr_test_jpeg jpegs[N_JPEGS] = {
    {.width = 40, .height = 33},
    {.width = 33, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}}},
    {.width = 33, .height = 40, .sampling = {{2, 1}, {1, 1}, {1, 1}}},
    {.width = 33, .height = 40, .sampling = {{1, 2}, {1, 1}, {1, 1}}},
    {.width = 50, .height = 20, .sampling = {{4, 1}, {2, 1}, {1, 1}}},
    {.width = 40, .height = 33, .restart = 1},
    {.width = 40, .height = 33, .progressive = true},
    {.width = 40, .height = 33, .progressive = true, .restart = 2},
    {.width = 40, .height = 33, .progressive = true, .sampling = {{1, 1}, {1, 1}, {1, 1}}},
    {.width = 40, .height = 33, .one_scan_each = true},
    {.width = 40, .height = 33, .arithmetic = true},
    {.width = 40, .height = 33, .arithmetic = true, .progressive = true},
    {.width = 40, .height = 33, .colour = MR_TEST_GREY, .orientation = 6},
    {.width = 30, .height = 30, .colour = MR_TEST_CMYK},
    {.width = 30, .height = 30, .colour = MR_TEST_YCCK, .progressive = true},
    {.width = 1, .height = 1, .orientation = 3},
};

static const struct mr_test_png pngs[N_PNGS] = {
    {.width = 30, .height = 20, .colour_type = 2, .orientation = 5},
    {.width = 30, .height = 20, .colour_type = 2, .interlaced = true},
    {.width = 30, .height = 20, .colour_type = 3, .depth = 4, .transparency = true},
    {.width = 30, .height = 20, .colour_type = 3, .depth = 8, .interlaced = true},
    {.width = 30, .height = 20, .colour_type = 0, .depth = 16},
    {.width = 30, .height = 20, .colour_type = 0, .depth = 1},
    {.width = 30, .height = 20, .colour_type = 6, .depth = 16},
    {.width = 1, .height = 1, .colour_type = 4},
};

static struct mr_test_image make_seed(uint32_t i)
{
    if (i < N_JPEGS)
        return mr_test_jpeg(&jpegs[i]);
    if (i < N_MADE)
        return mr_test_png(&pngs[i - N_JPEGS]);
    const struct mr_test_image *file = &examples[i - N_MADE].file;
    struct mr_test_image copy = {mr_corpus_room(file->len), file->len};
    memcpy(copy.bytes, file->bytes, file->len);
    return copy;
}

static void feed_flips(const struct mr_test_image *image, uint32_t *random)
{
    uint8_t *bytes = mr_corpus_room(image->len);
    for (int round = 0; round < N_FLIPS; round++) {
        memcpy(bytes, image->bytes, image->len);
        for (int k = 0; k <= round % 4; k++)
            bytes[mr_corpus_draw(random, image->len)] ^= (uint8_t)(1u << mr_corpus_draw(random, 8));
        if (round % 5 == 0) /* a marker or a length turned to something else */
            bytes[mr_corpus_draw(random, image->len)] = (uint8_t)mr_corpus_draw(random, 256);
        mr_corpus_feed(bytes, image->len);
    }
    free(bytes);
}

/* The start of one image and the end of another. */
static void feed_splices(const struct mr_test_image *a, const struct mr_test_image *b,
                         uint32_t *random)
{
    uint8_t *bytes = mr_corpus_room(a->len + b->len);
    for (int round = 0; round < 4; round++) {
        size_t head = mr_corpus_draw(random, a->len);
        size_t tail = mr_corpus_draw(random, b->len);
        memcpy(bytes, a->bytes, head);
        memcpy(bytes + head, b->bytes + b->len - tail, tail);
        mr_corpus_feed(bytes, head + tail);
    }
    free(bytes);
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    mr_corpus_feed_cuts(seed, N_CUTS);
    feed_flips(seed, random);
    for (uint32_t k = 0; k < corpus.n_seeds; k += corpus.n_seeds / 8) {
        struct mr_test_image other = make_seed((i + k) % corpus.n_seeds);
        feed_splices(seed, &other, random);
        mr_test_image_free(&other);
    }
}

int main(int argc, char **argv)
{
    size_t n_read;
    examples = mr_format_corpus_load(&n_read);
    corpus = (struct mr_corpus){
        .n_seeds = N_MADE + (uint32_t)n_read, .make_seed = make_seed, .run_seed = run_seed};
    int status = mr_corpus_main(&corpus, argc, argv);
    mr_format_corpus_free(examples, n_read);
    return status;
}
