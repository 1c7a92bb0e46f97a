/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics over simulated ranks: exact averages, extremes, names that differ, and reductions in the
 * background.
 */
#include "tests/dist/group/group_double.h"
#include "tests/support/assert_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/support/allocations.h"

#include <millrace/metrics.h>

static mr_metrics *make(mr_group *group)
{
    mr_metrics *metrics;
    mr_error error;
    if (mr_metrics_create(group, &metrics, &error) != MR_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return metrics;
}

static void a_world_of_one_needs_no_group(void **state)
{
    (void)state;
    mr_metrics *metrics = make(NULL);
    assert_true(isnan(mr_metrics_mean(metrics, "loss")));
    assert_int_equal(mr_metrics_add(metrics, "loss", 6, 4), MR_OK);
    assert_int_equal(mr_metrics_add(metrics, "loss", 3, 2), MR_OK);
    assert_int_equal(mr_metrics_add(metrics, "correct", 3, 6), MR_OK);
    assert_int_equal(mr_metrics_min(metrics, "loss", 1.25), MR_OK);
    assert_int_equal(mr_metrics_max(metrics, "loss", 1.75), MR_OK);
    assert_true(isnan(mr_metrics_sum(metrics, "loss"))); /* no reduction yet */
    assert_int_equal(mr_metrics_reduce(metrics), MR_OK);
    assert_true(mr_metrics_mean(metrics, "loss") == 1.5);
    assert_true(mr_metrics_sum(metrics, "loss") == 9);
    assert_true(mr_metrics_count(metrics, "loss") == 6);
    assert_true(mr_metrics_mean(metrics, "correct") == 0.5);
    assert_true(mr_metrics_minimum(metrics, "loss") == 1.25);
    assert_true(mr_metrics_maximum(metrics, "loss") == 1.75);
    assert_true(isnan(mr_metrics_minimum(metrics, "correct")));
    assert_true(isnan(mr_metrics_mean(metrics, "other")));
    assert_true(isnan(mr_metrics_mean(metrics, NULL)));
    mr_metrics_destroy(metrics);
    mr_metrics_destroy(NULL);
}

static void each_reduction_begins_anew(void **state)
{
    (void)state;
    mr_metrics *metrics = make(NULL);
    for (int step = 0; step < 5; step++) {
        assert_int_equal(mr_metrics_add(metrics, "loss", step, 1), MR_OK);
        assert_int_equal(mr_metrics_max(metrics, "loss", -step), MR_OK);
        assert_int_equal(mr_metrics_reduce(metrics), MR_OK);
        assert_true(mr_metrics_sum(metrics, "loss") == step);
        assert_true(mr_metrics_count(metrics, "loss") == 1);
        assert_true(mr_metrics_maximum(metrics, "loss") == -step);
    }
    assert_int_equal(mr_metrics_add(metrics, "loss", 1, 0), MR_OK); /* for no sample */
    assert_int_equal(mr_metrics_reduce(metrics), MR_OK);
    assert_true(isnan(mr_metrics_mean(metrics, "loss")));
    assert_true(mr_metrics_count(metrics, "loss") == 0);
    assert_true(isnan(mr_metrics_maximum(metrics, "loss")));
    mr_metrics_destroy(metrics);
}

/*
 * Samples whose sums are exact in any order: multiples of 2^-20, so that the oracle's average is
 * the only right one.
 */
enum { N_SAMPLES = 1003, BATCH = 16 };

static double get_sample(uint64_t epoch, uint64_t index)
{
    struct mr_rng rng;
    mr_rng_init(&rng, 5, epoch, index);
    return (double)(int32_t)mr_rng_u32(&rng) / 1048576.0;
}

/*
 * Rank r has the samples whose index is r modulo the number of ranks, in batches. With "idle" the
 * last rank has none.
 */
static void average_epochs(mr_group *group, void *idle)
{
    mr_metrics *metrics = make(group);
    uint32_t n = mr_group_world_size(group), rank = mr_group_rank(group);
    uint32_t n_busy = idle && n > 1 ? n - 1 : n;
    mr_metrics_declare(metrics, "loss");
    mr_metrics_declare(metrics, "one");
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        double sum = 0, lowest = INFINITY, highest = -INFINITY;
        for (uint64_t i = 0; i < N_SAMPLES; i++) {
            double value = get_sample(epoch, i);
            sum += value;
            lowest = fmin(lowest, value);
            highest = fmax(highest, value);
        }
        for (uint64_t first = rank; rank < n_busy && first < N_SAMPLES; first += BATCH * n_busy) {
            double batch_sum = 0, rows = 0;
            for (uint64_t i = first; i < N_SAMPLES && i < first + BATCH * n_busy;
                 i += n_busy, rows++) {
                batch_sum += get_sample(epoch, i);
                RANK_CHECK(group, mr_metrics_min(metrics, "loss", get_sample(epoch, i)) == MR_OK);
                RANK_CHECK(group, mr_metrics_max(metrics, "loss", get_sample(epoch, i)) == MR_OK);
            }
            RANK_CHECK(group, mr_metrics_add(metrics, "loss", batch_sum, rows) == MR_OK);
            RANK_CHECK(group, mr_metrics_add(metrics, "one", rows, rows) == MR_OK);
        }
        RANK_CHECK(group, mr_metrics_reduce(metrics) == MR_OK);
        RANK_CHECK(group, mr_metrics_sum(metrics, "loss") == sum);
        RANK_CHECK(group, mr_metrics_count(metrics, "loss") == N_SAMPLES);
        RANK_CHECK(group, mr_metrics_mean(metrics, "loss") == sum / N_SAMPLES);
        RANK_CHECK(group, mr_metrics_mean(metrics, "one") == 1);
        RANK_CHECK(group, mr_metrics_minimum(metrics, "loss") == lowest);
        RANK_CHECK(group, mr_metrics_maximum(metrics, "loss") == highest);
        RANK_CHECK(group, isnan(mr_metrics_minimum(metrics, "one")));
    }
    mr_metrics_destroy(metrics);
}

static void averages_are_exact_with_uneven_ranks(void **state)
{
    (void)state;
    static char idle;
    static const uint32_t worlds[] = {1, 2, 3, 4};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        group_double_run_well(worlds[i], average_epochs, NULL);
        group_double_run_well(worlds[i], average_epochs, &idle);
    }
}

static void reduce_three_names(mr_group *group, void *with_extremes)
{
    mr_metrics *metrics = make(group);
    for (int step = 0; step < 10; step++) {
        mr_metrics_add(metrics, "loss", 1, 1);
        mr_metrics_add(metrics, "correct", 1, 1);
        mr_metrics_add(metrics, "top5", 1, 1);
        if (with_extremes && mr_group_rank(group) == 1)
            mr_metrics_max(metrics, "loss", step);
        RANK_CHECK(group, mr_metrics_reduce(metrics) == MR_OK);
        if (with_extremes)
            RANK_CHECK(group, mr_metrics_maximum(metrics, "loss") == step);
    }
    mr_metrics_destroy(metrics);
}

static void all_names_take_one_all_reduce_and_extremes_a_second(void **state)
{
    (void)state;
    static char with_extremes;
    struct group_double_run run = {.n_ranks = 2};
    group_double_run(&run, reduce_three_names, NULL);
    assert_int_equal(run.n_failures, 0);
    assert_int_equal(run.log.n_all_reduces, 1 + 10); /* the names once */
    assert_int_equal(run.log.n_others + run.log.n_barriers, 0);
    assert_int_equal(run.log.count, 6);
    assert_int_equal(run.log.dtype, MR_F64);
    assert_int_equal(run.log.op, MR_SUM);
    run = (struct group_double_run){.n_ranks = 2};
    group_double_run(&run, reduce_three_names, &with_extremes);
    assert_int_equal(run.n_failures, 0);
    assert_int_equal(run.log.n_all_reduces, 1 + 20);
    assert_int_equal(run.log.op, MR_MIN);
}

enum difference { LACKS_ONE, OTHER_NAME, OTHER_ORDER, SPLIT_ELSEWHERE, HAS_NONE, N_DIFFERENCES };

static void differ(mr_group *group, void *arg)
{
    static const char *const other[N_DIFFERENCES][2] = {
        {"loss", NULL}, {"loss", "corect"}, {"correct", "loss"}, {"los", "scorrect"}, {NULL, NULL}};
    enum difference difference = *(enum difference *)arg;
    mr_metrics *metrics = make(group);
    for (int i = 0; i < 2; i++) {
        const char *name = mr_group_rank(group) == 2 ? other[difference][i]
                           : i                       ? "correct"
                                                     : "loss";
        if (name)
            mr_metrics_add(metrics, name, 1, 1);
    }
    RANK_CHECK(group, mr_metrics_reduce(metrics) == MR_ERR_PEER);
    const char *text = mr_metrics_error(metrics)->text;
    RANK_CHECK(group, strstr(text, "ranks have different metrics"));
    if (mr_group_rank(group) == 0)
        RANK_CHECK(group, strstr(text, "rank 0 has 2: loss, correct"));
    if (mr_group_rank(group) == 2 && difference == OTHER_NAME)
        RANK_CHECK(group, strstr(text, "rank 2 has 2: loss, corect"));
    RANK_CHECK(group, isnan(mr_metrics_mean(metrics, "loss")));
    mr_metrics_destroy(metrics);
}

static void ranks_with_different_names_get_an_error(void **state)
{
    (void)state;
    for (enum difference difference = 0; difference < N_DIFFERENCES; difference++)
        group_double_run_well(3, differ, &difference);
}

static void a_list_of_many_names_is_cut(mr_group *group, void *arg)
{
    (void)arg;
    mr_metrics *metrics = make(group);
    char name[MR_METRIC_NAME + 1];
    for (uint32_t i = 0; i < MR_MAX_METRICS - mr_group_rank(group); i++) {
        snprintf(name, sizeof name, "a_name_that_is_long_enough_to_fill_the_line_%03u", i);
        RANK_CHECK(group, mr_metrics_declare(metrics, name) == MR_OK);
    }
    RANK_CHECK(group, mr_metrics_reduce(metrics) == MR_ERR_PEER);
    const char *text = mr_metrics_error(metrics)->text;
    RANK_CHECK(group, strcmp(text + strlen(text) - 3, "...") == 0);
    mr_metrics_destroy(metrics);
}

static void many_names_that_differ_fit_the_message(void **state)
{
    (void)state;
    group_double_run_well(2, a_list_of_many_names_is_cut, NULL);
}

static void bad_names_are_refused(void **state)
{
    (void)state;
    mr_metrics *metrics = make(NULL);
    char name[MR_METRIC_NAME + 2];
    memset(name, 'x', sizeof name);
    name[MR_METRIC_NAME + 1] = '\0';
    assert_int_equal(mr_metrics_add(metrics, name, 1, 1), MR_ERR_INVALID);
    assert_words(mr_metrics_error(metrics)->text, "64 bytes, not 1 to 63");
    name[MR_METRIC_NAME] = '\0';
    assert_int_equal(mr_metrics_add(metrics, name, 1, 1), MR_OK);
    assert_int_equal(mr_metrics_declare(metrics, ""), MR_ERR_INVALID);
    assert_int_equal(mr_metrics_declare(metrics, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_metrics_declare(NULL, "loss"), MR_ERR_INVALID);
    assert_int_equal(mr_metrics_add(metrics, "loss", 1, -1), MR_ERR_INVALID);
    assert_words(mr_metrics_error(metrics)->text, "count -1");
    for (int i = 2; i < MR_MAX_METRICS; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(mr_metrics_declare(metrics, name), MR_OK);
    }
    assert_int_equal(mr_metrics_declare(metrics, "one more"), MR_ERR_INVALID);
    assert_words(mr_metrics_error(metrics)->text, "limit of 256");
    assert_int_equal(mr_metrics_declare(metrics, "loss"), MR_OK); /* it is already declared */
    assert_int_equal(mr_metrics_reduce(metrics), MR_OK);
    assert_int_equal(mr_metrics_reduce(NULL), MR_ERR_INVALID);
    assert_int_equal(mr_metrics_create(NULL, NULL, NULL), MR_ERR_INVALID);
    mr_metrics_destroy(metrics);
}

static void names_are_fixed_by_the_first_reduction(void **state)
{
    (void)state;
    mr_metrics *metrics = make(NULL);
    assert_int_equal(mr_metrics_add(metrics, "loss", 1, 1), MR_OK);
    assert_int_equal(mr_metrics_reduce(metrics), MR_OK);
    assert_int_equal(mr_metrics_add(metrics, "accuracy", 1, 1), MR_ERR_INVALID);
    assert_string_equal(mr_metrics_error(metrics)->text,
                        "metric 'accuracy' is not among the 1 of the first reduction");
    assert_int_equal(mr_metrics_min(metrics, "loss", 1), MR_ERR_INVALID);
    assert_words(mr_metrics_error(metrics)->text, "before the first reduction");
    assert_int_equal(mr_metrics_add(metrics, "loss", 2, 1), MR_OK);
    assert_int_equal(mr_metrics_reduce(metrics), MR_OK);
    assert_true(mr_metrics_mean(metrics, "loss") == 2);
    mr_metrics_destroy(metrics);
}

static void pass_odd_values(mr_group *group, void *arg)
{
    (void)arg;
    mr_metrics *metrics = make(group);
    bool odd = mr_group_rank(group) == 1;
    static const char *const names[] = {"nan", "inf", "-inf", "both"};
    const double values[] = {(double)NAN, INFINITY, -INFINITY, odd ? INFINITY : -INFINITY};
    for (int i = 0; i < 4; i++) {
        double value = odd || i == 3 ? values[i] : 1;
        mr_metrics_add(metrics, names[i], value, 1);
        mr_metrics_min(metrics, names[i], value);
        mr_metrics_max(metrics, names[i], value);
    }
    RANK_CHECK(group, mr_metrics_reduce(metrics) == MR_OK);
    RANK_CHECK(group,
               isnan(mr_metrics_mean(metrics, "nan")) && mr_metrics_count(metrics, "nan") == 3);
    RANK_CHECK(group, isnan(mr_metrics_minimum(metrics, "nan")) &&
                          isnan(mr_metrics_maximum(metrics, "nan")));
    RANK_CHECK(group, mr_metrics_mean(metrics, "inf") == INFINITY);
    RANK_CHECK(group, mr_metrics_minimum(metrics, "inf") == 1 &&
                          mr_metrics_maximum(metrics, "inf") == INFINITY);
    RANK_CHECK(group, mr_metrics_mean(metrics, "-inf") == -INFINITY);
    RANK_CHECK(group, mr_metrics_minimum(metrics, "-inf") == -INFINITY &&
                          mr_metrics_maximum(metrics, "-inf") == 1);
    RANK_CHECK(group, isnan(mr_metrics_mean(metrics, "both")));
    RANK_CHECK(group, mr_metrics_minimum(metrics, "both") == -INFINITY);
    mr_metrics_destroy(metrics);
}

static void nan_and_infinity_are_passed_through(void **state)
{
    (void)state;
    group_double_run_well(3, pass_odd_values, NULL);
}

static void reduce_in_background(mr_group *group, void *arg)
{
    (void)arg;
    mr_metrics *metrics = make(group);
    mr_metrics_add(metrics, "loss", 10, 1);
    RANK_CHECK(group, mr_metrics_reduce(metrics) == MR_OK);
    double n = mr_group_world_size(group);
    for (int step = 1; step <= 20; step++) {
        double before = mr_metrics_sum(metrics, "loss");
        mr_metrics_add(metrics, "loss", step, 1);
        group_double_hold(group, true);
        /* returns although no collective makes progress */
        RANK_CHECK(group, mr_metrics_reduce_async(metrics) == MR_OK);
        mr_metrics_add(metrics, "loss", 1000, 1); /* belongs to the next reduction */
        RANK_CHECK(group, mr_metrics_sum(metrics, "loss") == before);
        group_double_hold(group, false);
        RANK_CHECK(group, mr_metrics_sync(metrics) == MR_OK);
        RANK_CHECK(group, mr_metrics_sync(metrics) == MR_OK); /* no reduction is under way */
        RANK_CHECK(group, mr_metrics_sum(metrics, "loss") == n * (step + (step > 1 ? 1000 : 0)));
        RANK_CHECK(group, mr_metrics_count(metrics, "loss") == n * (step > 1 ? 2 : 1));
    }
    mr_metrics_destroy(metrics);
}

static void a_reduction_in_the_background_leaves_the_results(void **state)
{
    (void)state;
    group_double_run_well(1, reduce_in_background, NULL);
    group_double_run_well(4, reduce_in_background, NULL);
}

static void chain(mr_group *group, void *arg)
{
    (void)arg;
    mr_metrics *metrics = make(group);
    double n = mr_group_world_size(group);
    mr_metrics_declare(metrics, "loss");
    for (int step = 0; step < 100; step++) {
        mr_metrics_add(metrics, "loss", step, 1);
        RANK_CHECK(group,
                   mr_metrics_reduce_async(metrics) == MR_OK); /* waits for the previous one */
        if (step > 0)
            RANK_CHECK(group, mr_metrics_sum(metrics, "loss") == n * (step - 1));
    }
    mr_metrics_destroy(metrics); /* while one is under way */
}

static void a_second_reduction_waits_for_the_first(void **state)
{
    (void)state;
    group_double_run_well(3, chain, NULL);
}

static void steps_without_allocation(mr_group *group, void *arg)
{
    (void)arg;
    mr_metrics *metrics = make(group);
    for (int step = 0; step < 50; step++) {
        if (step == 1) {
            mr_group_barrier(group);
            allocations.n_own = 0;
            mr_group_barrier(group);
        }
        mr_metrics_add(metrics, "loss", 1, 1);
        mr_metrics_add(metrics, "correct", 1, 1);
        mr_metrics_min(metrics, "loss", 1);
        RANK_CHECK(group, mr_metrics_reduce_async(metrics) == MR_OK);
    }
    RANK_CHECK(group, mr_metrics_sync(metrics) == MR_OK);
    mr_group_barrier(group);
    RANK_CHECK(group, allocations.n_own == 0);
    mr_group_barrier(group);
    mr_metrics_destroy(metrics);
}

static void nothing_is_allocated_after_the_first_reduction(void **state)
{
    (void)state;
    group_double_run_well(2, steps_without_allocation, NULL);
    allocations.n_own = 0;
    mr_metrics_destroy(make(NULL));
    assert_int_equal(allocations.n_own, 1); /* the counter works */
}

static void meet_a_failure(mr_group *group, void *arg)
{
    int at = *(int *)arg;
    mr_metrics *metrics = make(group);
    mr_status status = MR_OK;
    for (int step = 0; step < 3 && status == MR_OK; step++) {
        mr_metrics_add(metrics, "loss", 1, 1);
        mr_metrics_min(metrics, "loss", step);
        status = mr_metrics_reduce(metrics);
        if (status == MR_OK)
            RANK_CHECK(group, mr_metrics_minimum(metrics, "loss") == step);
    }
    /* 1 for the names, 2 for each step */
    RANK_CHECK(group, status == (at < 8 ? MR_ERR_PEER : MR_OK));
    if (status != MR_OK)
        RANK_CHECK(group, strstr(mr_metrics_error(metrics)->text, "disconnected"));
    mr_metrics_destroy(metrics);
}

static void an_error_of_the_group_is_passed_on(void **state)
{
    (void)state;
    for (int at = 1; at <= 8; at++) {
        struct group_double_run run = {.n_ranks = 2, .fails_at = (uint32_t)at};
        group_double_run(&run, meet_a_failure, &at);
        assert_int_equal(run.n_failures, 0);
    }
}

/* Sums from device and host are added up; the double knows only f32. */
static void add_both_ways(mr_group *group, void *arg)
{
    float loss = 0.25F;
    double n = mr_group_world_size(group);
    mr_metrics *metrics = make(group);
    (void)arg;
    mr_metrics_add(metrics, "correct", 3, 4);
    for (int step = 0; step < 3; step++) {
        mr_metrics_add(metrics, "loss", 1, 1);
        RANK_CHECK(group, mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 3, NULL) == MR_OK);
        RANK_CHECK(group, mr_metrics_reduce_async(metrics) == MR_OK);
        /* belongs to the next reduction */
        RANK_CHECK(group, mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 1, NULL) == MR_OK);
        RANK_CHECK(group, mr_metrics_sync(metrics) == MR_OK);
        RANK_CHECK(group, mr_metrics_sum(metrics, "loss") == (step ? 1.5 : 1.25) * n);
        RANK_CHECK(group, mr_metrics_count(metrics, "loss") == (step ? 5 : 4) * n);
        RANK_CHECK(group, mr_metrics_count(metrics, "correct") == (step ? 0 : 4) * n);
    }
    RANK_CHECK(group,
               mr_metrics_add_device(metrics, "loss", &loss, MR_F64, 1, NULL) == MR_ERR_DEVICE);
    RANK_CHECK(group, strstr(mr_metrics_error(metrics)->text, "f32 alone"));
    mr_metrics_destroy(metrics);
}

static void sums_of_a_device_are_added_to_those_of_the_host(void **state)
{
    (void)state;
    struct group_double_run run = {.n_ranks = 3, .has_device = true};
    group_double_run(&run, add_both_ways, NULL);
    assert_int_equal(run.n_failures, 0);
    assert_int_equal(run.log.n_all_reduces, 1 + 3); /* the names, and one for each step */
}

static void add_wrongly(mr_group *group, void *arg)
{
    float loss = 1;
    mr_metrics *metrics = make(group);
    (void)arg;
    mr_status status = mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 1, NULL);
    RANK_CHECK(group, status == MR_ERR_UNSUPPORTED);
    RANK_CHECK(group, strstr(mr_metrics_error(metrics)->text, "this one's is gloo"));
    RANK_CHECK(group,
               mr_metrics_add_device(metrics, "loss", NULL, MR_F32, 1, NULL) == MR_ERR_INVALID);
    RANK_CHECK(group,
               mr_metrics_add_device(metrics, "loss", &loss, MR_U8, 1, NULL) == MR_ERR_INVALID);
    RANK_CHECK(group,
               mr_metrics_add_device(metrics, "loss", &loss, MR_F32, -1, NULL) == MR_ERR_INVALID);
    RANK_CHECK(group,
               mr_metrics_add_device(metrics, NULL, &loss, MR_F32, 1, NULL) == MR_ERR_INVALID);
    mr_metrics_destroy(metrics);
}

static void sums_of_a_device_need_a_group_on_a_device(void **state)
{
    (void)state;
    float loss = 1;
    group_double_run_well(2, add_wrongly, NULL);
    mr_metrics *alone = make(NULL);
    assert_int_equal(mr_metrics_add_device(alone, "loss", &loss, MR_F32, 1, NULL),
                     MR_ERR_UNSUPPORTED);
    mr_metrics_destroy(alone);
    assert_int_equal(mr_metrics_add_device(NULL, "loss", &loss, MR_F32, 1, NULL), MR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_world_of_one_needs_no_group),
        cmocka_unit_test(each_reduction_begins_anew),
        cmocka_unit_test(averages_are_exact_with_uneven_ranks),
        cmocka_unit_test(all_names_take_one_all_reduce_and_extremes_a_second),
        cmocka_unit_test(ranks_with_different_names_get_an_error),
        cmocka_unit_test(many_names_that_differ_fit_the_message),
        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(names_are_fixed_by_the_first_reduction),
        cmocka_unit_test(nan_and_infinity_are_passed_through),
        cmocka_unit_test(a_reduction_in_the_background_leaves_the_results),
        cmocka_unit_test(a_second_reduction_waits_for_the_first),
        cmocka_unit_test(nothing_is_allocated_after_the_first_reduction),
        cmocka_unit_test(an_error_of_the_group_is_passed_on),
        cmocka_unit_test(sums_of_a_device_are_added_to_those_of_the_host),
        cmocka_unit_test(sums_of_a_device_need_a_group_on_a_device),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
