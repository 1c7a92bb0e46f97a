/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: 10,000 mutations of baseline files, the same at each run. With a folder as
 * argument it writes the whole files there instead, as seeds for libFuzzer, and their names, separated by commas, to
 * the file "list" there.
 */
#include "tests/fuzz/fuzz_scan.h"
#include "tests/support/scans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_WRITTEN 12
#define N_ENCODED 8
#define N_SEEDS (N_WRITTEN + N_ENCODED)
#define N_ROUNDS 500

static const struct mr_test_jpeg encoded[N_ENCODED] = {
    {.width = 40, .height = 33},
    {.width = 33, .height = 40, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .optimised = true},
    {.width = 33, .height = 40, .sampling = {{2, 1}, {1, 1}, {1, 1}}, .restart = 3},
    {.width = 40, .height = 33, .restart = 1},
    {.width = 40, .height = 33, .colour = MR_TEST_GREY, .orientation = 6, .optimised = true},
    {.width = 30, .height = 30, .colour = MR_TEST_CMYK, .restart = 2},
    {.width = 50, .height = 20, .sampling = {{4, 1}, {2, 1}, {1, 1}}},
    {.width = 40, .height = 33, .one_scan_each = true},
};

static struct mr_test_image make_seed(int i)
{
    if (i < N_ENCODED)
        return mr_test_jpeg(&encoded[i]);
    uint32_t n = (uint32_t)(i - N_ENCODED);
    const struct mr_test_scan options = {.width = 24 + n,
                                         .height = 20,
                                         .seed = n,
                                         .n_components = n % 2 ? 3 : 1,
                                         .code = n % 3,
                                         .restart = n % 4 == 3 ? 2 : 0,
                                         .dc_only = n == 5};
    return mr_test_scan(&options);
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

/* One to four bits turned, a byte or a marker written, bytes taken out, or the end cut off; mostly in the scan. */
static void mutate(const struct mr_test_image *image, uint32_t round, uint32_t *random)
{
    uint8_t *bytes = malloc(image->len);
    size_t start = mr_test_scan_start(image), len = image->len;
    if (!bytes)
        abort();
    memcpy(bytes, image->bytes, len);
    size_t from = round % 4 == 0 ? 0 : start, at = from + draw(random, len - from - 1);
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
            bytes[from + draw(random, len - from)] ^= (uint8_t)(1u << draw(random, 8));
    }
    feed(bytes, len);
    free(bytes);
}

static void run_corpus(void)
{
    uint32_t random = 1, n_compared, n_own;
    for (int i = 0; i < N_SEEDS; i++) {
        struct mr_test_image seed = make_seed(i);
        feed(seed.bytes, seed.len);
        for (uint32_t round = 0; round < N_ROUNDS; round++)
            mutate(&seed, round, &random);
        mr_test_image_free(&seed);
    }
    fuzz_scan_count(&n_compared, &n_own);
    printf("%u boxes compared, %u without a look back at libjpeg\n", n_compared, n_own);
    if (n_own < n_compared / 20) /* or nothing was tried */
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
    if (argc > 1)
        write_seeds(argv[1]);
    else
        run_corpus();
    return 0;
}
