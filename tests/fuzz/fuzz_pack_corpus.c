/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index and a part, cut short and with numbers exchanged for hostile ones, with right and with
 * wrong checksums.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "tests/dataset/invented_marks.h"
#include "tests/dataset/invented_pack.h"
#include "tests/fuzz/fuzz_pack.h"
#include "tests/support/corpus.h"

static const uint8_t seeds[] = {0,
                                FUZZ_PACK_MEND,
                                FUZZ_PACK_MARKS | FUZZ_PACK_MEND,
                                FUZZ_PACK_MEMBERS | FUZZ_PACK_MEND,
                                FUZZ_PACK_PART,
                                FUZZ_PACK_PART | FUZZ_PACK_MEND,
                                FUZZ_PACK_PART | FUZZ_PACK_MARKS | FUZZ_PACK_MEND,
                                FUZZ_PACK_PART | FUZZ_PACK_MEMBERS | FUZZ_PACK_MEND};

static unsigned long n_inputs;

/* A file, after the byte that says what it is. */
static struct mr_test_image load(const char *path, uint8_t what)
{
    size_t len;
    uint8_t *file = read_whole(path, &len);
    struct mr_test_image input = {mr_corpus_room(len + 1), len + 1};
    input.bytes[0] = what;
    memcpy(input.bytes + 1, file, len);
    free(file);
    return input;
}

static void remove_pack(const char *dir)
{
    static const char *const names[] = {"index",
                                        "unfinished",
                                        "marks",
                                        "shard-00000",
                                        "shard-00001",
                                        "shard-00002",
                                        "shard-00003",
                                        "shard-00004",
                                        "shard-00005",
                                        "shard-00000.part",
                                        "shard-00001.part",
                                        "shard-00002.part"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* A part is of a pack that lacks its last sample. */
static struct mr_test_image make_seed(uint32_t i)
{
    uint8_t what = seeds[i];
    char dir[] = "/tmp/fuzz-pack-seed-XXXXXX", path[64];
    struct mr_pack_writer_options options =
        what & FUZZ_PACK_MEMBERS ? invented_member_options(FUZZ_PACK_SAMPLES, FUZZ_PACK_SHARD)
                                 : invented_options(FUZZ_PACK_SAMPLES, FUZZ_PACK_SHARD);
    uint64_t n = what & FUZZ_PACK_PART ? FUZZ_PACK_SAMPLES - 1 : FUZZ_PACK_SAMPLES;
    options.marks = what & FUZZ_PACK_PART && what & FUZZ_PACK_MARKS; /* else by hand */
    if (!mkdtemp(dir) || invented_write_some(dir, &options, n, NULL) != MR_OK)
        abort();
    if (what & FUZZ_PACK_MARKS && !options.marks)
        mark_pack(dir);
    snprintf(path, sizeof path, "%s/%s", dir,
             what & FUZZ_PACK_PART ? "shard-00000.part" : MR_PACK_INDEX);
    struct mr_test_image input = load(path, what);
    remove_pack(dir);
    return input;
}

static void feed(const uint8_t *input, size_t len)
{
    mr_corpus_feed(input, len);
    n_inputs++;
}

/* Exchange a number of 4 or 8 bytes, at every place where one may be. */
static void feed_numbers(uint8_t *input, size_t len, size_t step)
{
    static const uint64_t numbers[] = {0,          1,         3,          255,           INT32_MAX,
                                       UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    for (size_t at = 1; at + 8 <= len; at += step) {
        uint8_t saved[8];
        memcpy(saved, input + at, sizeof saved);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            memcpy(input + at, &numbers[i], numbers[i] > UINT32_MAX ? 8 : 4);
            feed(input, len);
            memcpy(input + at, saved, sizeof saved);
        }
    }
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)random;
    feed(seed->bytes, seed->len);
    feed_numbers(seed->bytes, seed->len,
                 !(seeds[i] & FUZZ_PACK_MEND)                       ? 97
                 : seeds[i] & (FUZZ_PACK_MARKS | FUZZ_PACK_MEMBERS) ? 8
                                                                    : 4);
    for (size_t cut = 0; cut < seed->len; cut += 61)
        feed(seed->bytes, cut);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {
        .n_seeds = sizeof seeds, .make_seed = make_seed, .run_seed = run_seed};
    int status = mr_corpus_main(&corpus, argc, argv);
    printf("%lu inputs\n", n_inputs);
    return status;
}
