/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed pictures of every kind, with bytes altered in the description, in the rows' sizes and
 * anywhere, and with other boxes.
 */
#include "tests/fuzz/fuzz_sample.h"
#include "tests/support/corpus.h"
#include "tests/transforms/packed_sample.h"

#include <string.h>

#define N_PICTURES 8
#define N_ROUNDS 250

static const struct mr_test_jpeg pictures[N_PICTURES] = {
    {.width = 40, .height = 33},
    {.width = 150, .height = 20},
    {.width = 33, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}}},
    {.width = 90, .height = 17, .sampling = {{2, 1}, {1, 1}, {1, 1}}, .quality = 99},
    {.width = 80, .height = 20, .sampling = {{4, 1}, {2, 1}, {1, 1}}},
    {.width = 100, .height = 33, .colour = MR_TEST_GREY},
    {.width = 30, .height = 30, .colour = MR_TEST_YCCK},
    {.width = 1, .height = 1},
};

static struct mr_test_image make_seed(uint32_t i)
{
    struct mr_test_image jpeg = mr_test_jpeg(&pictures[i / 2]),
                         extreme = packed_sample_extreme(&jpeg, i);
    struct packed_sample sample;
    if (!packed_sample_make(i % 5 == 4 ? &extreme : &jpeg, MR_PACKED_DCT, &sample))
        abort();
    const struct mr_packed_image *image = &sample.image;
    struct fuzz_sample_head head = {.encoding = (uint8_t)image->encoding,
                                    .orientation = 1,
                                    .n_components = sample.template.n_components,
                                    .colour = sample.template.colour,
                                    .width = (uint16_t)image->width,
                                    .height = (uint16_t)image->height,
                                    .n_rows = (uint16_t)image->n_rows,
                                    .quant = 3,
                                    .box = {3, 5, 60, 9}};
    memcpy(head.h, sample.template.h, sizeof head.h);
    memcpy(head.v, sample.template.v, sizeof head.v);
    size_t rows_len = (image->n_rows + 1) * sizeof *image->rows;
    size_t head_len = sizeof head + rows_len;
    struct mr_test_image seed = {mr_corpus_room(head_len + image->len), head_len + image->len};
    memcpy(seed.bytes, &head, sizeof head);
    memcpy(seed.bytes + sizeof head, image->rows, rows_len);
    memcpy(seed.bytes + head_len, sample.bytes, image->len);
    packed_sample_free(&sample);
    mr_test_image_free(&extreme);
    mr_test_image_free(&jpeg);
    return seed;
}

/* The bytes of the description. */
static size_t find_head_len(const struct mr_test_image *seed)
{
    struct fuzz_sample_head head;
    memcpy(&head, seed->bytes, sizeof head);
    return sizeof head + (head.n_rows + 1u) * sizeof(uint32_t);
}

static void alter(const struct mr_test_image *seed, uint8_t *bytes, int round, uint32_t *random)
{
    size_t head_len = find_head_len(seed), rest = seed->len - head_len;
    for (int k = 0; k <= round % 3; k++) {
        size_t at = mr_corpus_draw(random, seed->len);
        if (round % 4 == 0)
            at = mr_corpus_draw(random, head_len);
        else if (round % 4 == 1) /* the first row's sizes and its first tile's head */
            at = head_len + mr_corpus_draw(random, rest < 40 ? rest : 40);
        if (round % 2)
            bytes[at] = (uint8_t)mr_corpus_draw(random, 256);
        else
            bytes[at] ^= (uint8_t)(1u << mr_corpus_draw(random, 8));
    }
    /* Other boxes of the same picture. */
    uint16_t box[4];
    for (int i = 0; i < 4; i++)
        box[i] = (uint16_t)mr_corpus_draw(random, 1 << 16);
    memcpy(bytes + offsetof(struct fuzz_sample_head, box), box, sizeof box);
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)i;
    uint8_t *bytes = mr_corpus_room(seed->len);
    mr_corpus_feed(seed->bytes, seed->len);
    for (int round = 0; round < N_ROUNDS; round++) {
        memcpy(bytes, seed->bytes, seed->len);
        alter(seed, bytes, round, random);
        mr_corpus_feed(bytes, seed->len);
    }
    for (size_t len = 0; len < seed->len; len += 1 + len / 20)
        mr_corpus_feed(seed->bytes, len);
    free(bytes);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {
        .n_seeds = 2 * N_PICTURES, .make_seed = make_seed, .run_seed = run_seed};
    return mr_corpus_main(&corpus, argc, argv);
}
