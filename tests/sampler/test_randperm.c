/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.randperm against a literal reference that draws all its words first, and its time for
 * ImageNet's size.
 */
#include "sampler/randperm.h"

#include "base/mt19937.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

enum { MAX_N = 300 };

/* Inside out: put i at a random place, and move the number that was there to the end. */
static void reference_wide(int64_t *values, int64_t n, uint64_t seed)
{
    struct mr_mt19937 mt;
    mr_mt19937_init(&mt, seed);
    for (int64_t i = 0; i < n; i++) {
        uint64_t random1 = mr_mt19937_u32(&mt), random2 = mr_mt19937_u32(&mt);
        int64_t z = (int64_t)((random1 * 4294967296u + random2) % (uint64_t)(i + 1));
        values[i] = i == z ? i : values[z];
        values[z] = i;
    }
}

/* Forward: pick one of the numbers not yet taken, and move the first of them to its place. */
static void reference_narrow(int64_t *values, int64_t n, uint64_t seed)
{
    struct mr_mt19937 mt;
    mr_mt19937_init(&mt, seed);
    int64_t rest[MAX_N];
    for (int64_t i = 0; i < n; i++)
        rest[i] = i;
    for (int64_t i = 0; i < n; i++) {
        int64_t z = i + 1 < n ? mr_mt19937_u32(&mt) % (n - i) : 0;
        values[i] = rest[i + z];
        rest[i + z] = rest[i];
    }
}

static void every_small_permutation_is_the_reference_s(void **state)
{
    (void)state;
    int64_t want[MAX_N];
    uint32_t narrow[MAX_N];
    uint64_t wide[MAX_N];
    for (int64_t n = 0; n < MAX_N; n++) {
        uint64_t seed = (uint64_t)n * 0x9e3779b97f4a7c15u;
        reference_narrow(want, n, seed);
        mr_randperm_u32(narrow, (uint64_t)n, seed, false);
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(narrow[i], want[i]);
        reference_wide(want, n, seed);
        mr_randperm_u32(narrow, (uint64_t)n, seed, true);
        mr_randperm_u64(wide, (uint64_t)n, seed);
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(narrow[i], want[i]);
            assert_int_equal(wide[i], want[i]);
        }
    }
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void imagenet_takes_less_than_50_ms(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    skip();
#endif
#endif
    enum { N = 1281167, ROUNDS = 5 };
    uint32_t *values = malloc(N * sizeof *values);
    assert_non_null(values);
    double best = 1e9;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        double start = cpu_ms();
        mr_randperm_u32(values, N, round, false);
        double took = cpu_ms() - start;
        best = took < best ? took : best;
    }
    free(values);
    print_message("torch order of %d indices: %.1f ms\n", N, best);
    if (best >= 50.0)
        fail_msg("%.1f ms of CPU", best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_permutation_is_the_reference_s),
        cmocka_unit_test(imagenet_takes_less_than_50_ms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
