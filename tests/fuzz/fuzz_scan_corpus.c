/* SPDX-License-Identifier: Apache-2.0 */
/* 10,000 mutations of baseline files, mostly in the scan. */
#include "tests/fuzz/fuzz_scan.h"
#include "tests/support/corpus.h"
#include "tests/support/scans.h"

#define N_WRITTEN 12
#define N_ENCODED 8
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

static struct mr_test_image make_seed(uint32_t i)
{
    if (i < N_ENCODED)
        return mr_test_jpeg(&encoded[i]);
    uint32_t n = i - N_ENCODED;
    const struct mr_test_scan options = {.width = 24 + n,
                                         .height = 20,
                                         .seed = n,
                                         .n_components = n % 2 ? 3 : 1,
                                         .code = n % 3,
                                         .restart = n % 4 == 3 ? 2 : 0,
                                         .dc_only = n == 5};
    return mr_test_scan(&options);
}

static void run_seed(struct mr_test_image *seed, uint32_t i, uint32_t *random)
{
    (void)i;
    mr_corpus_feed(seed->bytes, seed->len);
    for (uint32_t round = 0; round < N_ROUNDS; round++)
        mr_corpus_feed_mutation(seed, round % 4 == 0 ? 0 : mr_test_scan_start(seed), round, random);
}

int main(int argc, char **argv)
{
    const struct mr_corpus corpus = {
        .n_seeds = N_WRITTEN + N_ENCODED, .make_seed = make_seed, .run_seed = run_seed};
    uint32_t n_compared, n_own;
    int status = mr_corpus_main(&corpus, argc, argv);
    fuzz_scan_count(&n_compared, &n_own);
    printf("%u boxes compared, %u not decoded again by libjpeg\n", n_compared, n_own);
    require(n_own >= n_compared / 20, "nothing was tried");
    return status;
}
