/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: images of every kind, made here and of tests/data/formats.json, cut short, with
 * flipped bits and with parts exchanged; the same inputs at each run. With a folder as argument it writes the whole
 * images there instead, as seeds for libFuzzer, and their names, separated by commas, to the file "list" there.
 */
#include "tests/fuzz/fuzz_codec.h"
#include "tests/support/format_corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_JPEGS 16
#define N_PNGS 8
#define N_MADE (N_JPEGS + N_PNGS)
#define N_CUTS 24
#define N_FLIPS 120

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

static struct mr_test_image make_seed(int i)
{
    return i < N_JPEGS ? mr_test_jpeg(&jpegs[i]) : mr_test_png(&pngs[i - N_JPEGS]);
}

/* In a block of exactly len bytes, so that AddressSanitizer sees a read past the end. */
static void feed(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    if (len)
        memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static uint32_t draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

static void feed_cuts(const struct mr_test_image *image)
{
    for (size_t i = 0; i <= N_CUTS; i++)
        feed(image->bytes, image->len * i / N_CUTS);
}

static void feed_flips(const struct mr_test_image *image, uint32_t *random)
{
    uint8_t *bytes = malloc(image->len);
    if (!bytes)
        abort();
    for (int round = 0; round < N_FLIPS; round++) {
        memcpy(bytes, image->bytes, image->len);
        for (int k = 0; k <= round % 4; k++)
            bytes[draw(random, image->len)] ^= (uint8_t)(1u << draw(random, 8));
        if (round % 5 == 0) /* a marker or a length turned to something else */
            bytes[draw(random, image->len)] = (uint8_t)draw(random, 256);
        feed(bytes, image->len);
    }
    free(bytes);
}

/* The start of one image and the end of another. */
static void feed_splices(const struct mr_test_image *a, const struct mr_test_image *b, uint32_t *random)
{
    uint8_t *bytes = malloc(a->len + b->len);
    if (!bytes)
        abort();
    for (int round = 0; round < 4; round++) {
        size_t head = draw(random, a->len);
        size_t tail = draw(random, b->len);
        memcpy(bytes, a->bytes, head);
        memcpy(bytes + head, b->bytes + b->len - tail, tail);
        feed(bytes, head + tail);
    }
    free(bytes);
}

static void run_corpus(const struct mr_test_image *seeds, size_t n)
{
    uint32_t random = 1;
    for (size_t i = 0; i < n; i++) {
        feed_cuts(&seeds[i]);
        feed_flips(&seeds[i], &random);
        for (size_t k = 0; k < n; k += n / 8)
            feed_splices(&seeds[i], &seeds[(i + k) % n], &random);
    }
}

static void write_seeds(const struct mr_test_image *seeds, size_t n, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/list", folder);
    FILE *list = fopen(path, "we");
    if (!list)
        abort();
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/seed%03zu", folder, i);
        remove(path);
        mr_test_image_save(&seeds[i], path);
        fprintf(list, "%s%s", i ? "," : "", path);
    }
    if (fclose(list) != 0)
        abort();
}

int main(int argc, char **argv)
{
    size_t n_read;
    struct mr_format_example *examples = mr_format_corpus_load(&n_read);
    struct mr_test_image *seeds = calloc(N_MADE + n_read, sizeof *seeds);
    if (!seeds)
        abort();
    for (int i = 0; i < N_MADE; i++)
        seeds[i] = make_seed(i);
    for (size_t i = 0; i < n_read; i++)
        seeds[N_MADE + i] = examples[i].file;
    if (argc > 1)
        write_seeds(seeds, N_MADE + n_read, argv[1]);
    else
        run_corpus(seeds, N_MADE + n_read);
    for (int i = 0; i < N_MADE; i++)
        mr_test_image_free(&seeds[i]);
    free(seeds);
    mr_format_corpus_free(examples, n_read);
    return 0;
}
