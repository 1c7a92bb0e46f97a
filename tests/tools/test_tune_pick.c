/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which number of workers `millrace tune` picks, and which bound it names, from invented figures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tools/measure/tune_pick.h"

static struct mr_tune_count count_of(uint32_t workers, const double *img_s, uint32_t n_rounds)
{
    struct mr_tune_count count = {.workers = workers, .close = true};
    for (uint32_t r = 0; r < n_rounds; r++)
        mr_tune_pick_add(&count, &(struct mr_bench_row){.img_s = img_s[r],
                                                        .shares = {.cpu = 0.9, .consumer = 1}});
    return count;
}

static void steps_rise_by_half_a_power_and_end_at_the_most(void **state)
{
    static const uint32_t sixteen[] = {0, 1, 2, 3, 4, 6, 8, 12, 16}, five[] = {0, 1, 2, 3, 4, 5};
    uint32_t steps[32];

    (void)state;
    assert_int_equal(mr_tune_pick_counts(16, steps, 32), 9);
    assert_memory_equal(steps, sixteen, sizeof sixteen);
    assert_int_equal(mr_tune_pick_counts(5, steps, 32), 6);
    assert_memory_equal(steps, five, sizeof five);
    assert_int_equal(mr_tune_pick_counts(1, steps, 32), 2);
    assert_int_equal(mr_tune_pick_counts(0, steps, 32), 1);
    assert_int_equal(steps[0], 0);
    for (uint32_t most = 1; most <= 1024; most++) {
        size_t n = mr_tune_pick_counts(most, steps, 32);
        assert_true(n <= 32);
        assert_int_equal(steps[n - 1], most);
        for (size_t i = 1; i < n; i++)
            assert_true(steps[i] > steps[i - 1]);
    }
}

static void smallest_within_three_per_cent_is_picked(void **state)
{
    const double slow[] = {960, 961, 959}, near[] = {975, 974, 976}, best[] = {1000, 1001, 999};
    struct mr_tune_count counts[] = {count_of(1, slow, 3), count_of(2, near, 3),
                                     count_of(4, best, 3), count_of(8, near, 3)};
    struct mr_tune_answer answer;

    (void)state;
    assert_true(mr_tune_pick_choose(counts, 4, &answer));
    assert_int_equal(counts[answer.pick].workers, 2);
    assert_int_equal(counts[answer.best].workers, 4);
    assert_float_equal(answer.img_s, 975, 1e-9);
    assert_float_equal(counts[1].ratio, 975.0 / 1000, 1e-3);
}

static void minute_that_is_slow_for_all_changes_nothing(void **state)
{
    const double small[] = {990, 99, 992, 9.9, 985}, large[] = {1000, 100, 1000, 10, 1000};
    struct mr_tune_count counts[] = {count_of(2, small, 5), count_of(4, large, 5)};
    struct mr_tune_answer answer;

    (void)state;
    assert_true(mr_tune_pick_choose(counts, 2, &answer));
    assert_int_equal(counts[answer.pick].workers, 2);
    assert_float_equal(counts[0].ratio, 0.99, 1e-9);
    assert_in_range(1e4 * counts[0].lowest, 9850, 9899);
}

static void ratios_on_both_sides_of_the_bound_ask_for_another_round(void **state)
{
    const double small[] = {960, 980, 985}, large[] = {1000, 1000, 1000},
                 beyond[] = {900, 1100, 900};
    struct mr_tune_count counts[] = {count_of(1, small, 3), count_of(2, large, 3),
                                     count_of(3, beyond, 3)};
    struct mr_tune_answer answer;

    (void)state;
    assert_false(mr_tune_pick_choose(counts, 2, &answer));
    assert_int_equal(counts[answer.pick].workers, 1);
    counts[0] = count_of(1, large, 3);
    assert_true(mr_tune_pick_choose(counts, 2, &answer));
    assert_false(mr_tune_pick_choose(counts, 3, &answer)); /* more workers may be better */
    assert_int_equal(counts[answer.pick].workers, 1);
}

/*
 * A reported case: by the medians of images per second 0 workers were best, but the ratios that
 * were printed with them reached 112 %.
 */
static void best_is_the_one_with_the_highest_ratio(void **state)
{
    const double rates[][3] = {
        {1000, 500, 900}, {1080, 540, 880}, {1060, 530, 880}, {1120, 560, 880}};
    struct mr_tune_count counts[4];
    struct mr_tune_answer answer;

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        counts[i] = count_of(i, rates[i], 3);
    mr_tune_pick_choose(counts, 4, &answer);
    assert_int_equal(counts[answer.best].workers, 3);
    assert_int_equal(counts[answer.pick].workers, 3);
    assert_float_equal(counts[0].ratio, 1000.0 / 1120, 1e-9);
    assert_float_equal(counts[1].ratio, 1080.0 / 1120, 1e-9);
    for (int i = 0; i < 3; i++)
        assert_true(counts[i].ratio < 1 && counts[i].in_noise); /* as the third round shows */
}

/*
 * For any measurement: no number is above the best one, and the answer is the smallest number above
 * the bound.
 */
static void no_ratio_is_above_the_best(void **state)
{
    uint32_t random = 1;
    double rates[6][MR_TUNE_MAX_ROUNDS];
    struct mr_tune_count counts[6];
    struct mr_tune_answer answer;

    (void)state;
    for (int k = 0; k < 1000; k++) {
        for (uint32_t i = 0; i < 6; i++) {
            for (uint32_t r = 0; r < MR_TUNE_MAX_ROUNDS; r++)
                rates[i][r] = 900 + ((random = random * 1664525 + 1013904223) >> 8) % 200;
            counts[i] = count_of(i, rates[i], 3 + (uint32_t)k % 5);
        }
        mr_tune_pick_choose(counts, 6, &answer);
        assert_true(counts[answer.best].ratio == 1);
        for (size_t i = 0; i < 6; i++) {
            assert_true(counts[i].ratio <= 1);
            assert_true(i >= answer.pick || counts[i].ratio < 0.97);
        }
        assert_true(counts[answer.pick].ratio >= 0.97);
    }
}

static void expect_lines(struct mr_tune_count *counts, size_t n, const char *const *rows,
                         const char *last)
{
    struct mr_tune_answer answer;
    char line[MR_TUNE_LINE];

    mr_tune_pick_choose(counts, n, &answer);
    mr_tune_pick_explain(&answer, 2);
    for (size_t i = 0; i < n; i++) {
        mr_tune_pick_row(&counts[i], line, sizeof line);
        assert_string_equal(line, rows[i]);
    }
    mr_tune_pick_line(&answer, line, sizeof line);
    if (strncmp(line, last, strlen(last)) != 0)
        fail_msg("'%s' does not begin with '%s'", line, last);
}

static void lines_say_what_is_within_the_noise(void **state)
{
    const double low[] = {500, 500, 500}, steady[] = {980, 980, 980}, best[] = {1000, 1000, 1000};
    const double close[] = {1010, 960, 960}, even[] = {1000, 990, 996};
    struct mr_tune_count counts[3];

    (void)state;
    counts[0] = count_of(0, low, 3), counts[1] = count_of(2, best, 3);
    expect_lines(
        counts, 2,
        (const char *const[]){"      0       50.0 %   0.500    0.500       3",
                              "      2      100.0 %   1.000    1.000       3"},
        "workers 2: 1000.0 img/s, the best; decode-bound: 2 workers work 90 % of the time");
    counts[0] = count_of(1, steady, 3);
    expect_lines(counts, 2,
                 (const char *const[]){"      1       98.0 %   0.980    0.980       3",
                                       "      2      100.0 %   1.000    1.000       3"},
                 "workers 1: 980.0 img/s, 98.0 % of the best (2 workers); decode-bound: ");
    counts[0] = count_of(1, even, 3);
    expect_lines(
        counts, 2,
        (const char *const[]){"      1       99.6 %   0.993    0.998       3  within the noise",
                              "      2      100.0 %   0.998    1.003       3"},
        "workers 1: 996.0 img/s, 99.6 % of the best (2 workers), within the noise; decode-bound: ");
    counts[0] = count_of(1, close, 3);
    expect_lines(
        counts, 2,
        (const char *const[]){"      1       96.0 %   0.960    0.985       3  within the noise",
                              "      2      100.0 %   0.975    1.000       3"},
        "workers 2: 1000.0 img/s, the best, but others are within the noise; decode-bound: ");
}

static void numbers_far_from_the_best_of_every_round_are_left(void **state)
{
    const double far[] = {100, 120}, moody[] = {50, 190}, best[] = {200, 200};
    struct mr_tune_count counts[] = {count_of(0, far, 2), count_of(1, moody, 2),
                                     count_of(2, best, 2)};

    (void)state;
    assert_int_equal(mr_tune_pick_close(counts, 3), 2);
    assert_false(counts[0].close);
    assert_true(counts[1].close);
    assert_true(counts[2].close);
}

static struct mr_tune_answer explain_counts(struct mr_tune_count *counts, size_t n,
                                            struct mr_bench_shares shares, uint32_t n_cpus)
{
    const double rising[][3] = {{500, 500, 500}, {1000, 1000, 1000}};
    struct mr_tune_answer answer;

    for (size_t i = 0; i < n; i++)
        counts[i] = count_of((uint32_t)i + 1, rising[i], 3);
    struct mr_bench_shares three = {.cpu = 3 * shares.cpu,
                                    .queue = 3 * shares.queue,
                                    .slot = 3 * shares.slot,
                                    .read = 3 * shares.read,
                                    .consumer = 3 * shares.consumer};
    counts[n - 1].shares = three;
    mr_tune_pick_choose(counts, n, &answer);
    mr_tune_pick_explain(&answer, n_cpus);
    return answer;
}

static void bound_is_named_by_where_the_time_went(void **state)
{
    static const struct {
        struct mr_bench_shares shares;
        enum mr_tune_reason reason;
        const char *words;
    } cases[] = {
        {{.cpu = 0.97, .read = 0.03, .consumer = 0.98},
         MR_TUNE_DECODE,
         "2 workers work 97 % of the time"},
        {{.cpu = 0.3, .queue = 0.4, .read = 0.3, .consumer = 0.98},
         MR_TUNE_DECODE,
         "wait 40 % for a CPU"},
        {{.cpu = 0.2, .read = 0.8, .consumer = 0.98},
         MR_TUNE_READ,
         "2 workers wait for bytes 80 % of the time"},
        {{.cpu = 0.2, .slot = 0.8, .consumer = 0.03},
         MR_TUNE_CONSUMER,
         "the consumer waits for 2 workers 3 %"},
    };
    struct mr_tune_count counts[2];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_tune_answer answer = explain_counts(counts, 2, cases[i].shares, 2);
        assert_int_equal(answer.reason, cases[i].reason);
        assert_words(answer.why, cases[i].words);
    }
}

static void waiting_for_servers_is_network_bound(void **state)
{
    const struct mr_bench_shares waiting = {.cpu = 0.2, .read = 0.8, .consumer = 1};
    const double rising[] = {1000, 1000, 1000};
    struct mr_bench_row row = {.reader = "http"};
    struct mr_tune_count count = {0};
    struct mr_tune_answer answer;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        row.img_s = rising[i];
        row.shares = waiting;
        mr_tune_pick_add(&count, &row);
    }
    count.close = true;
    mr_tune_pick_choose(&count, 1, &answer);
    mr_tune_pick_explain(&answer, 2);
    assert_int_equal(answer.reason, MR_TUNE_NETWORK);
    assert_string_equal(mr_tune_pick_name(answer.reason), "network-bound");
    assert_words(answer.why, "wait for bytes 80 % of the time");
    assert_words(answer.why, "--max-workers, --connections");
}

static void more_workers_are_suggested_only_where_they_may_help(void **state)
{
    const struct mr_bench_shares computing = {.cpu = 1, .consumer = 1},
                                 reading = {.read = 1, .consumer = 1};
    const struct mr_bench_shares fed = {.slot = 1};
    struct mr_tune_count counts[2];

    (void)state;
    assert_null(strstr(explain_counts(counts, 2, computing, 2).why, "--max-workers"));
    assert_words(explain_counts(counts, 2, computing, 8).why, "--max-workers");
    assert_words(explain_counts(counts, 2, reading, 2).why, "--max-workers");
    assert_null(strstr(explain_counts(counts, 2, fed, 8).why, "--max-workers"));

    struct mr_tune_answer answer = explain_counts(counts, 2, reading, 2);
    /* the second worker gained nothing */
    memcpy(counts[0].img_s, counts[1].img_s, sizeof counts[0].img_s);
    mr_tune_pick_choose(counts, 2, &answer);
    mr_tune_pick_explain(&answer, 2);
    assert_int_equal(counts[answer.pick].workers, 1);
    assert_int_equal(answer.reason, MR_TUNE_READ); /* as the row with the most workers shows */
    assert_null(strstr(answer.why, "--max-workers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_rise_by_half_a_power_and_end_at_the_most),
        cmocka_unit_test(smallest_within_three_per_cent_is_picked),
        cmocka_unit_test(minute_that_is_slow_for_all_changes_nothing),
        cmocka_unit_test(ratios_on_both_sides_of_the_bound_ask_for_another_round),
        cmocka_unit_test(best_is_the_one_with_the_highest_ratio),
        cmocka_unit_test(no_ratio_is_above_the_best),
        cmocka_unit_test(lines_say_what_is_within_the_noise),
        cmocka_unit_test(numbers_far_from_the_best_of_every_round_are_left),
        cmocka_unit_test(bound_is_named_by_where_the_time_went),
        cmocka_unit_test(waiting_for_servers_is_network_bound),
        cmocka_unit_test(more_workers_are_suggested_only_where_they_may_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
