/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzed function as a plain test: an index and a part, cut short and with numbers exchanged for hostile ones,
 * with right and with wrong checksums. With a folder as argument it writes the whole files there instead, as seeds for
 * libFuzzer, and their names, separated by commas, to the file "list" there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dataset/invented_marks.h"
#include "tests/dataset/invented_pack.h"
#include "tests/fuzz/fuzz_pack.h"

static const uint8_t seeds[] = {0,
                                FUZZ_PACK_MEND,
                                FUZZ_PACK_MARKS | FUZZ_PACK_MEND,
                                FUZZ_PACK_PART,
                                FUZZ_PACK_PART | FUZZ_PACK_MEND,
                                FUZZ_PACK_PART | FUZZ_PACK_MARKS | FUZZ_PACK_MEND};

static unsigned long n_inputs;

/* A file with the byte that says what it is before it. Ownership: free(). */
static uint8_t *load(const char *path, uint8_t what, size_t *len_out)
{
    size_t len;
    uint8_t *file = read_whole(path, &len), *input = malloc(len + 1);
    if (!input)
        abort();
    input[0] = what;
    memcpy(input + 1, file, len);
    free(file);
    *len_out = len + 1;
    return input;
}

static void remove_pack(const char *dir)
{
    static const char *const names[] = {
        "index",       "unfinished",  "marks",       "shard-00000",      "shard-00001",      "shard-00002",
        "shard-00003", "shard-00004", "shard-00005", "shard-00000.part", "shard-00001.part", "shard-00002.part"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* A part is of a pack that lacks its last sample. */
static uint8_t *make_seed(uint8_t what, size_t *len_out)
{
    char dir[] = "/tmp/fuzz-pack-seed-XXXXXX", path[64];
    struct mr_pack_writer_options options = invented_options(FUZZ_PACK_SAMPLES, FUZZ_PACK_SHARD);
    uint64_t n = what & FUZZ_PACK_PART ? FUZZ_PACK_SAMPLES - 1 : FUZZ_PACK_SAMPLES;
    options.marks = what & FUZZ_PACK_PART && what & FUZZ_PACK_MARKS; /* else by hand */
    if (!mkdtemp(dir) || invented_write_some(dir, &options, n, NULL) != MR_OK)
        abort();
    if (what & FUZZ_PACK_MARKS && !options.marks)
        mark_pack(dir);
    snprintf(path, sizeof path, "%s/%s", dir, what & FUZZ_PACK_PART ? "shard-00000.part" : MR_PACK_INDEX);
    uint8_t *input = load(path, what, len_out);
    remove_pack(dir);
    return input;
}

static void feed(const uint8_t *input, size_t len)
{
    LLVMFuzzerTestOneInput(input, len);
    n_inputs++;
}

/* A number of 4 or 8 bytes exchanged, at every place where one may stand. */
static void feed_numbers(uint8_t *input, size_t len, size_t step)
{
    static const uint64_t numbers[] = {0, 1, 3, 255, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t at = 1; at + 8 <= len; at += step) {
        uint8_t kept[8];
        memcpy(kept, input + at, sizeof kept);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            memcpy(input + at, &numbers[i], numbers[i] > UINT32_MAX ? 8 : 4);
            feed(input, len);
            memcpy(input + at, kept, sizeof kept);
        }
    }
}

static void feed_seed(uint8_t what, size_t step, size_t cut_step)
{
    size_t len;
    uint8_t *input = make_seed(what, &len);
    feed(input, len);
    feed_numbers(input, len, step);
    for (size_t cut = 0; cut < len; cut += cut_step)
        feed(input, cut);
    free(input);
}

static int write_seeds(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/list", dir);
    FILE *list = fopen(path, "w");
    if (!list)
        return 1;
    for (uint8_t i = 0; i < sizeof seeds; i++) {
        size_t len;
        uint8_t *input = make_seed(seeds[i], &len);
        snprintf(path, sizeof path, "%s/seed-%d", dir, seeds[i]);
        write_whole(path, input, len);
        fprintf(list, "%s%s", i ? "," : "", path);
        free(input);
    }
    return fclose(list) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return write_seeds(argv[1]);
    for (size_t i = 0; i < sizeof seeds; i++)
        feed_seed(seeds[i], !(seeds[i] & FUZZ_PACK_MEND) ? 97 : seeds[i] & FUZZ_PACK_MARKS ? 8 : 4, 61);
    printf("%lu inputs\n", n_inputs);
    return 0;
}
