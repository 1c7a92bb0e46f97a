/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: mutations of baseline files, of marks and of scans, the same at each run. With a
 * folder as argument it writes what it begins with there instead, as seeds for libFuzzer, and their names, separated by
 * commas, to the file "list" there.
 */
#include "tests/fuzz/fuzz_marks.h"
#include "tests/support/scans.h"
#include "transforms/packed_selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_WRITTEN 12
#define N_ENCODED 7
#define N_FILES (N_WRITTEN + N_ENCODED)
#define N_SEEDS (N_FILES + 2 * FUZZ_MARKS_FILES)
#define N_ROUNDS 300

static const struct mr_test_jpeg encoded[N_ENCODED] = {
    {.width = 300, .height = 33},
    {.width = 150, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .optimised = true},
    {.width = 290, .height = 40, .sampling = {{2, 1}, {1, 1}, {1, 1}}, .restart = 3},
    {.width = 40, .height = 33, .restart = 1},
    {.width = 140, .height = 33, .colour = MR_TEST_GREY, .orientation = 6, .optimised = true},
    {.width = 130, .height = 30, .colour = MR_TEST_CMYK, .restart = 2},
    {.width = 40, .height = 33, .one_scan_each = true},
};

static struct mr_test_image make_file(int i)
{
    if (i < N_ENCODED)
        return mr_test_jpeg(&encoded[i]);
    uint32_t n = (uint32_t)(i - N_ENCODED);
    const struct mr_test_scan options = {.width = 24 + 20 * n,
                                         .height = 20,
                                         .seed = n,
                                         .n_components = n % 2 ? 3 : 1,
                                         .code = n % 3,
                                         .restart = n % 4 == 3 ? 2 : 0,
                                         .dc_only = n == 5};
    return mr_test_scan(&options);
}

/* Marks of one of the fixed files, or its scan. */
static struct mr_test_image make_part(uint32_t i)
{
    const struct packed_sample *sample = fuzz_marks_file(i / 2);
    uint32_t start = sample->rows[0], end = sample->rows[sample->image.n_rows];
    size_t len = i % 2 ? end - start : sample->image.marks_len;
    struct mr_test_image image = {malloc(len + 1), len + 1};
    if (!image.bytes)
        abort();
    image.bytes[0] = (uint8_t)i;
    memcpy(image.bytes + 1, i % 2 ? sample->bytes + start : sample->marks, len);
    return image;
}

static struct mr_test_image make_seed(int i)
{
    return i < N_FILES ? make_file(i) : make_part((uint32_t)(i - N_FILES));
}

static uint32_t draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

/* In a block of exactly len bytes, so that AddressSanitizer sees a read past the end. */
static void feed(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

/* Bits turned, a byte or a marker written, bytes taken out, or the end cut off. */
static void mutate(const struct mr_test_image *image, uint32_t round, uint32_t *random)
{
    uint8_t *bytes = malloc(image->len);
    size_t len = image->len, at = 2 + draw(random, len - 4);
    if (!bytes)
        abort();
    memcpy(bytes, image->bytes, len);
    switch (round % 7) {
    case 0: bytes[at] = (uint8_t)draw(random, 256); break;
    case 1:
        bytes[at] = 0xff;
        bytes[at + 1] = (uint8_t)(draw(random, 3) ? 0xd0 + draw(random, 10) : draw(random, 256));
        break;
    case 2:
        len -= 1 + draw(random, 3);
        memmove(bytes + at, bytes + at + (image->len - len), len > at ? len - at : 0);
        break;
    case 3: len = at; break;
    default:
        for (uint32_t k = 0; k < round % 7 - 3; k++)
            bytes[2 + draw(random, len - 2)] ^= (uint8_t)(1u << draw(random, 8));
    }
    feed(bytes, len);
    free(bytes);
}

static void run_corpus(void)
{
    uint32_t random = 1;
    for (int i = 0; i < N_SEEDS; i++) {
        struct mr_test_image seed = make_seed(i);
        feed(seed.bytes, seed.len);
        for (uint32_t round = 0; round < N_ROUNDS; round++)
            mutate(&seed, round, &random);
        mr_test_image_free(&seed);
    }
    struct fuzz_marks_counts n = fuzz_marks_count();
    printf("%u of %u files with marks; %u of %u boxes by altered marks or scans\n", n.n_marked, n.n_files,
           n.n_hostile_good, n.n_hostile);
    if (n.n_marked < n.n_files / 20 || n.n_hostile_good < n.n_hostile / 20) /* or nothing was tried */
        abort();
}

static void write_seeds(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/list", folder);
    FILE *list = fopen(path, "we");
    if (!list)
        abort();
    for (int i = 0; i < N_SEEDS; i++) {
        struct mr_test_image image = make_seed(i);
        snprintf(path, sizeof path, "%s/seed%02d", folder, i);
        remove(path);
        mr_test_image_save(&image, path);
        mr_test_image_free(&image);
        fprintf(list, "%s%s", i ? "," : "", path);
    }
    if (fclose(list) != 0)
        abort();
}

int main(int argc, char **argv)
{
    if (mr_packed_selftest_check_marks(NULL) != MR_OK) {
        printf("this libjpeg gives no place to a decoder of scans\n");
        return 77;
    }
    if (argc > 1)
        write_seeds(argv[1]);
    else
        run_corpus();
    return 0;
}
