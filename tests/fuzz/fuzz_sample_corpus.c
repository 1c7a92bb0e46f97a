/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: packed pictures of every kind, with bytes altered in what the index says, in the
 * rows' sizes and anywhere; the same inputs at each run. With a folder as argument it writes the whole ones there
 * instead, as seeds for libFuzzer, and their names, separated by commas, to the file "list" there.
 */
#include "tests/fuzz/fuzz_sample.h"
#include "tests/transforms/packed_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_PICTURES 8
#define N_SEEDS (2 * N_PICTURES)
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

struct seed {
    uint8_t *bytes;
    size_t len;
    size_t head_len; /* of what the index says */
};

static struct seed make_seed(int i)
{
    struct mr_test_image jpeg = mr_test_jpeg(&pictures[i / 2]), extreme = packed_sample_extreme(&jpeg, (uint64_t)i);
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
    struct seed seed = {.head_len = sizeof head + rows_len, .len = sizeof head + rows_len + image->len};
    seed.bytes = malloc(seed.len);
    if (!seed.bytes)
        abort();
    memcpy(seed.bytes, &head, sizeof head);
    memcpy(seed.bytes + sizeof head, image->rows, rows_len);
    memcpy(seed.bytes + seed.head_len, sample.bytes, image->len);
    packed_sample_free(&sample);
    mr_test_image_free(&extreme);
    mr_test_image_free(&jpeg);
    return seed;
}

static uint32_t draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

static void alter(const struct seed *seed, uint8_t *bytes, int round, uint32_t *random)
{
    for (int k = 0; k <= round % 3; k++) {
        size_t at = draw(random, seed->len);
        if (round % 4 == 0)
            at = draw(random, seed->head_len);
        else if (round % 4 == 1) /* the first row's sizes and its first tile's head */
            at = seed->head_len + draw(random, seed->len - seed->head_len < 40 ? seed->len - seed->head_len : 40);
        bytes[at] = round % 2 ? (uint8_t)draw(random, 256) : bytes[at] ^ (uint8_t)(1u << draw(random, 8));
    }
    /* Other boxes of the same picture. */
    uint16_t box[4];
    for (int i = 0; i < 4; i++)
        box[i] = (uint16_t)draw(random, 1 << 16);
    memcpy(bytes + offsetof(struct fuzz_sample_head, box), box, sizeof box);
}

static void run_seed(const struct seed *seed, uint32_t *random)
{
    uint8_t *bytes = malloc(seed->len);
    if (!bytes)
        abort();
    LLVMFuzzerTestOneInput(seed->bytes, seed->len);
    for (int round = 0; round < N_ROUNDS; round++) {
        memcpy(bytes, seed->bytes, seed->len);
        alter(seed, bytes, round, random);
        LLVMFuzzerTestOneInput(bytes, seed->len);
    }
    for (size_t len = 0; len < seed->len; len += 1 + len / 20)
        LLVMFuzzerTestOneInput(seed->bytes, len);
    free(bytes);
}

static void write_seed(const struct seed *seed, const char *path)
{
    struct mr_test_image image = {.bytes = seed->bytes, .len = seed->len};
    remove(path);
    mr_test_image_save(&image, path);
}

int main(int argc, char **argv)
{
    uint32_t random = 1;
    FILE *list = NULL;
    char path[4096];
    if (argc > 1) {
        snprintf(path, sizeof path, "%s/list", argv[1]);
        list = fopen(path, "we");
        if (!list)
            abort();
    }
    for (int i = 0; i < N_SEEDS; i++) {
        struct seed seed = make_seed(i);
        if (list) {
            snprintf(path, sizeof path, "%s/seed%02d", argv[1], i);
            write_seed(&seed, path);
            fprintf(list, "%s%s", i ? "," : "", path);
        } else {
            run_seed(&seed, &random);
        }
        free(seed.bytes);
    }
    return list && fclose(list) != 0;
}
