/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keyed permutation is a bijection: every small n is tried. Over many epochs it is as good as
 * random draws by chi-square. Keys are fixed, so each run gets the same statistics; they must be
 * within 5 sigma of their expectation.
 */
#include "sampler/keyed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { SIGMAS = 5 };

static void assert_bijection(uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct mr_keyed keyed;
    mr_keyed_init(&keyed, n, seed, epoch);
    unsigned char *seen = calloc(n, 1);
    assert_non_null(seen);
    for (uint64_t p = 0; p < n; p++) {
        uint64_t value = mr_keyed_at(&keyed, p);
        if (value >= n || seen[value]++)
            fail_msg("n %llu position %llu: %llu is out of range or came twice",
                     (unsigned long long)n, (unsigned long long)p, (unsigned long long)value);
    }
    free(seen);
}

static void it_is_a_bijection_for_every_small_n(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 2048; n++)
        assert_bijection(n, n, 3);
    for (uint64_t n = 1; n <= 40; n++)
        for (uint64_t epoch = 0; epoch < 50; epoch++)
            assert_bijection(n, 0, epoch);
}

static void it_is_a_bijection_around_powers_of_two_and_squares(void **state)
{
    (void)state;
    for (uint64_t n = 4096; n <= 1 << 18; n *= 4)
        for (uint64_t off = 0; off < 5; off++)
            assert_bijection(n + off - 2, 7, n);
    assert_bijection(511 * 511, 1, 2);
    assert_bijection(511 * 512 + 1, 1, 2);
    assert_bijection(65535, 1, 2);
}

/* Only in the long run of the test. */
static void it_is_a_bijection_for_many_more_sizes(void **state)
{
    (void)state;
    if (!getenv("MR_TEST_LONG"))
        skip();
    for (uint64_t n = 2049; n <= 20000; n++)
        assert_bijection(n, n, 5);
    for (uint64_t epoch = 0; epoch < 10; epoch++)
        assert_bijection(1281167, 42, epoch);
    for (uint64_t off = 0; off < 3; off++)
        assert_bijection((1 << 26) + off - 1, 7, off);
}

/* Compare the counts of n_cells equally likely outcomes with their expectation. */
static void assert_uniform(const char *what, const uint32_t *counts, size_t n_cells)
{
    double total = 0, chi2 = 0, df = (double)n_cells - 1;
    for (size_t i = 0; i < n_cells; i++)
        total += counts[i];
    double expected = total / (double)n_cells;
    assert_true(expected >= 5);
    for (size_t i = 0; i < n_cells; i++)
        chi2 += (counts[i] - expected) * (counts[i] - expected) / expected;
    double sigmas = (chi2 - df) / sqrt(2 * df);
    if (fabs(sigmas) > SIGMAS)
        fail_msg("%s: chi-square %.1f with %.0f degrees of freedom, %.1f sigma", what, chi2, df,
                 sigmas);
}

/*
 * The values of positions over many epochs: of each position, of two neighbours together, and of
 * one position in two consecutive epochs.
 */
static void check_small(uint64_t n, uint32_t n_epochs)
{
    size_t cells = n * n;
    uint32_t *single = calloc(cells, sizeof *single), *near = calloc(cells, sizeof *near);
    uint32_t *far = calloc(cells, sizeof *far), *epochs = calloc(cells, sizeof *epochs);
    assert_true(single && near && far && epochs);
    uint64_t previous = 0;
    for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
        struct mr_keyed keyed;
        mr_keyed_init(&keyed, n, 11, epoch);
        for (uint64_t p = 0; p < n; p++)
            single[p * n + mr_keyed_at(&keyed, p)]++;
        uint64_t first = mr_keyed_at(&keyed, 0);
        near[first * n + mr_keyed_at(&keyed, 1)]++;
        far[first * n + mr_keyed_at(&keyed, n - 1)]++;
        if (epoch % 2) /* every second pair, so that the pairs are independent */
            epochs[previous * n + first]++;
        previous = first;
    }
    char what[64];
    for (uint64_t p = 0; p < n; p++) {
        snprintf(what, sizeof what, "n %llu, position %llu", (unsigned long long)n,
                 (unsigned long long)p);
        assert_uniform(what, single + p * n, n);
    }
    /* Two positions never have the same value, so leave out the diagonal. */
    for (uint64_t v = n; v-- > 0;) {
        assert_int_equal(near[v * n + v] + far[v * n + v], 0);
        memmove(near + v * n + v, near + v * n + v + 1, (cells - (v * n + v) - 1) * sizeof *near);
        memmove(far + v * n + v, far + v * n + v + 1, (cells - (v * n + v) - 1) * sizeof *far);
    }
    snprintf(what, sizeof what, "n %llu, positions 0 and 1", (unsigned long long)n);
    assert_uniform(what, near, cells - n);
    snprintf(what, sizeof what, "n %llu, first and last position", (unsigned long long)n);
    if (n > 2)
        assert_uniform(what, far, cells - n);
    snprintf(what, sizeof what, "n %llu, neighbouring epochs", (unsigned long long)n);
    assert_uniform(what, epochs, cells);
    free(single);
    free(near);
    free(far);
    free(epochs);
}

static void small_sets_are_shuffled_uniformly_over_epochs(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                     15, 16, 17, 24, 25, 26, 31, 32, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_small(sizes[i], 30000);
}

/* All n! orders of a set come equally often. */
static void check_whole_orders(uint64_t n, size_t n_orders, uint64_t n_epochs)
{
    uint32_t *counts = calloc(n_orders, sizeof *counts);
    assert_non_null(counts);
    for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
        struct mr_keyed keyed;
        mr_keyed_init(&keyed, n, 0, epoch);
        size_t rank = 0;
        for (uint64_t p = 0; p < n; p++) { /* Lehmer code */
            size_t smaller = 0;
            for (uint64_t q = p + 1; q < n; q++)
                smaller += mr_keyed_at(&keyed, q) < mr_keyed_at(&keyed, p);
            rank = rank * (n - p) + smaller;
        }
        counts[rank]++;
    }
    char what[64];
    snprintf(what, sizeof what, "orders of %llu", (unsigned long long)n);
    assert_uniform(what, counts, n_orders);
    free(counts);
}

static void every_order_of_a_tiny_set_comes_equally_often(void **state)
{
    (void)state;
    check_whole_orders(2, 2, 20000);
    check_whole_orders(3, 6, 20000);
    check_whole_orders(4, 24, 40000);
    check_whole_orders(5, 120, 40000);
    check_whole_orders(6, 720, 40000);
}

/* For large sizes several values share a cell. */
static void check_large(uint64_t n, uint64_t n_positions)
{
    enum { CELLS = 32 };
    uint32_t *single = calloc(CELLS * CELLS, sizeof *single),
             *pair = calloc(CELLS * CELLS, sizeof *pair);
    uint32_t *step = calloc(CELLS * CELLS, sizeof *step), *low = calloc(CELLS * CELLS, sizeof *low);
    assert_true(single && pair && step && low);
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        struct mr_keyed keyed, next;
        mr_keyed_init(&keyed, n, 5, epoch);
        mr_keyed_init(&next, n, 5, epoch + 1);
        for (uint64_t p = 0; p + 1 < n_positions; p += 2) {
            uint64_t a = mr_keyed_at(&keyed, p), b = mr_keyed_at(&keyed, p + 1),
                     c = mr_keyed_at(&next, p);
            single[a * (CELLS * CELLS) / n]++;
            pair[a * CELLS / n * CELLS + b * CELLS / n]++;
            step[(b + n - a) % n * (CELLS * CELLS) / n]++;
            low[a * CELLS / n * CELLS + c * CELLS / n]++;
        }
    }
    assert_uniform("values", single, CELLS * CELLS);
    assert_uniform("neighbouring positions", pair, CELLS * CELLS);
    assert_uniform("steps between neighbouring positions", step, CELLS * CELLS);
    assert_uniform("neighbouring epochs", low, CELLS * CELLS);
    free(single);
    free(pair);
    free(step);
    free(low);
}

static void large_sets_are_shuffled_uniformly(void **state)
{
    (void)state;
    check_large(UINT64_C(1) << 20, 20000);
    check_large(1281167, 20000);
    check_large(UINT64_C(1) << 40, 20000);
    check_large((UINT64_C(1) << 39) + 12345, 20000);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void the_largest_set_has_no_collision_in_a_sample(void **state)
{
    (void)state;
    enum { SAMPLE = 100000 };
    const uint64_t n = MR_KEYED_MAX_N;
    uint64_t *values = malloc(SAMPLE * sizeof *values);
    assert_non_null(values);
    struct mr_keyed keyed;
    mr_keyed_init(&keyed, n, 1, 1);
    for (uint64_t i = 0; i < SAMPLE; i++) { /* both ends and the middle */
        uint64_t p = i % 3 == 0 ? i : i % 3 == 1 ? n - 1 - i : n / 2 + i;
        values[i] = mr_keyed_at(&keyed, p);
        assert_true(values[i] < n);
    }
    qsort(values, SAMPLE, sizeof *values, compare_u64);
    for (uint64_t i = 1; i < SAMPLE; i++)
        assert_true(values[i - 1] != values[i]);
    free(values);
}

/* Other machines and versions must give the same order. */
static void known_answers_hold(void **state)
{
    (void)state;
    struct mr_keyed keyed;
    mr_keyed_init(&keyed, 10, 0, 0);
    static const uint64_t ten[] = {9, 6, 3, 0, 4, 2, 5, 7, 8, 1};
    for (uint64_t p = 0; p < 10; p++)
        assert_int_equal(mr_keyed_at(&keyed, p), ten[p]);
    mr_keyed_init(&keyed, MR_KEYED_MAX_N, 42, 89);
    static const uint64_t huge[] = {947638735132, 553196596369, 318699570061, 807464289063};
    for (uint64_t p = 0; p < 4; p++)
        assert_int_equal(mr_keyed_at(&keyed, p), huge[p]);
}

static void a_lookup_is_fast(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1000, 1281167, MR_KEYED_MAX_N};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct mr_keyed keyed;
        mr_keyed_init(&keyed, sizes[i], 0, 0);
        clock_t start = clock();
        uint64_t sum = 0;
        enum { LOOKUPS = 200000 };
        for (uint64_t p = 0; p < LOOKUPS; p++)
            sum += mr_keyed_at(&keyed, p % sizes[i]);
        double ns = (double)(clock() - start) / CLOCKS_PER_SEC * 1e9 / LOOKUPS;
        print_message("n %llu: %.0f ns a lookup (sum %llu)\n", (unsigned long long)sizes[i], ns,
                      (unsigned long long)sum);
        /* a tenth of a percent of what an image takes, also under sanitizers */
        assert_true(ns < 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_a_bijection_for_every_small_n),
        cmocka_unit_test(it_is_a_bijection_around_powers_of_two_and_squares),
        cmocka_unit_test(it_is_a_bijection_for_many_more_sizes),
        cmocka_unit_test(small_sets_are_shuffled_uniformly_over_epochs),
        cmocka_unit_test(every_order_of_a_tiny_set_comes_equally_often),
        cmocka_unit_test(large_sets_are_shuffled_uniformly),
        cmocka_unit_test(the_largest_set_has_no_collision_in_a_sample),
        cmocka_unit_test(known_answers_hold),
        cmocka_unit_test(a_lookup_is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
