/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: files of every kind, with bytes altered in the header and anywhere, or cut
 * short; the same inputs at each run. With a folder as argument it writes the whole ones there instead, as seeds for
 * libFuzzer, and their names, separated by commas, to the file "list" there.
 */
#include "tests/fuzz/fuzz_packer.h"
#include "tests/support/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_PICTURES 14
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

/* A picture behind the byte that chooses how. */
static struct mr_test_image make_seed(int i, uint8_t kind)
{
    struct mr_test_image file = mr_test_jpeg(&pictures[i]);
    struct mr_test_image seed = {.bytes = malloc(file.len + 1), .len = file.len + 1};
    if (!seed.bytes)
        abort();
    seed.bytes[0] = kind;
    memcpy(seed.bytes + 1, file.bytes, file.len);
    mr_test_image_free(&file);
    return seed;
}

static uint32_t draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

static void run_seed(const struct mr_test_image *seed, uint32_t *random)
{
    uint8_t *bytes = malloc(seed->len);
    if (!bytes)
        abort();
    LLVMFuzzerTestOneInput(seed->bytes, seed->len);
    for (int round = 0; round < N_ROUNDS; round++) {
        memcpy(bytes, seed->bytes, seed->len);
        for (int k = 0; k <= round % 3; k++) {
            size_t at = 1 + draw(random, round % 2 ? seed->len - 1 : (seed->len < 620 ? seed->len : 620) - 1);
            bytes[at] = round % 4 < 2 ? (uint8_t)draw(random, 256) : bytes[at] ^ (uint8_t)(1u << draw(random, 8));
        }
        LLVMFuzzerTestOneInput(bytes, seed->len);
    }
    for (size_t len = 0; len < seed->len; len += 1 + len / 8)
        LLVMFuzzerTestOneInput(seed->bytes, len);
    free(bytes);
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
    for (int i = 0; i < N_PICTURES; i++) {
        for (uint8_t kind = 0; kind < (list ? 1 : 16); kind++) {
            struct mr_test_image seed = make_seed(i, list ? (uint8_t)i : kind);
            if (list) {
                snprintf(path, sizeof path, "%s/seed%02d", argv[1], i);
                remove(path);
                mr_test_image_save(&seed, path);
                fprintf(list, "%s%s", i ? "," : "", path);
            } else {
                run_seed(&seed, &random);
            }
            mr_test_image_free(&seed);
        }
    }
    return list && fclose(list) != 0;
}
