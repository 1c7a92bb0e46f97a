/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations of baseline files, of marks and of scans. */
#include "tests/fuzz/fuzz_marks.h"
#include "tests/support/corpus.h"
#include "tests/support/scans.h"
#include "transforms/packed_selftest.h"

#include <string.h>

#define N_WRITTEN 12
#define N_ENCODED 7
#define N_FILES (N_WRITTEN + N_ENCODED)
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

static struct mr_test_image make_file(uint32_t i)
{
    if (i < N_ENCODED)
        return mr_test_jpeg(&encoded[i]);
    uint32_t n = i - N_ENCODED;
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
    struct mr_test_image image = {mr_corpus_room(len + 1), len + 1};
    image.bytes[0] = (uint8_t)i;
    memcpy(image.bytes + 1, i % 2 ? sample->bytes + start : sample->marks, len);
    return image;
}

static struct mr_test_image make_seed(uint32_t i)
{
    return i < N_FILES ? make_file(i) : make_part(i - N_FILES);
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)i;
    mr_corpus_feed(seed->bytes, seed->len);
    for (uint32_t round = 0; round < N_ROUNDS; round++)
        mr_corpus_feed_mutation(seed, 2, round, random);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {
        .n_seeds = N_FILES + 2 * FUZZ_MARKS_FILES, .make_seed = make_seed, .run_seed = run_seed};
    if (mr_packed_selftest_check_marks(NULL) != MR_OK) {
        printf("this libjpeg does not accept a decoder of scans\n");
        return 77;
    }
    int status = mr_corpus_main(&corpus, argc, argv);
    struct fuzz_marks_counts n = fuzz_marks_count();
    printf("%u of %u files with marks; %u of %u boxes by altered marks or scans\n", n.n_marked,
           n.n_files, n.n_hostile_good, n.n_hostile);
    require(n.n_marked >= n.n_files / 20 && n.n_hostile_good >= n.n_hostile / 20,
            "nothing was tried");
    return status;
}
