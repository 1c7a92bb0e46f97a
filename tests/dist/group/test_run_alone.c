/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics and helpers over the library's own group in a world of one, as in a program without a
 * launcher.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <millrace/metrics.h>
#include <millrace/run.h>

#include "tests/support/assert_words.h"

static int join(void **state)
{
    mr_group *group;
    mr_error error;
    assert_ok(mr_group_create(NULL, &group, &error), &error);
    *state = group;
    return 0;
}

static int leave(void **state)
{
    mr_group_destroy(*state);
    return 0;
}

static void metrics_are_reduced_by_a_group_of_one(void **state)
{
    mr_metrics *metrics;
    assert_int_equal(mr_metrics_create(*state, &metrics, NULL), MR_OK);
    for (int step = 0; step < 3; step++) {
        assert_int_equal(mr_metrics_add(metrics, "loss", step, 4), MR_OK);
        assert_int_equal(mr_metrics_max(metrics, "loss", step), MR_OK);
        assert_int_equal(mr_metrics_reduce_async(metrics), MR_OK);
        assert_int_equal(mr_metrics_add(metrics, "loss", 0, 0), MR_OK);
        assert_int_equal(mr_metrics_sync(metrics), MR_OK);
        assert_true(mr_metrics_mean(metrics, "loss") == step / 4.0);
        assert_true(mr_metrics_maximum(metrics, "loss") == step);
    }
    assert_int_equal(mr_metrics_reduce_async(metrics), MR_OK);
    mr_metrics_destroy(metrics);
}

static void helpers_work_with_a_group_of_one(void **state)
{
    int signal = -1;
    assert_int_equal(mr_group_rank0_first_begin(*state), MR_OK);
    assert_int_equal(mr_group_rank0_first_end(*state), MR_OK);
    assert_int_equal(mr_group_local_rank0_first_begin(*state), MR_OK);
    assert_int_equal(mr_group_local_rank0_first_end(*state), MR_OK);
    assert_int_equal(mr_group_same(*state, 7, "the dataset"), MR_OK);
    assert_int_equal(mr_signals_watch(NULL), MR_OK);
    assert_int_equal(mr_signals_agree(*state, &signal), MR_OK);
    assert_int_equal(signal, 0);
    raise(SIGTERM);
    assert_int_equal(mr_signals_agree(*state, &signal), MR_OK);
    assert_int_equal(signal, SIGTERM);
    assert_true(mr_group_seed(*state, 42, "init") == mr_group_seed(NULL, 42, "init"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(metrics_are_reduced_by_a_group_of_one, join, leave),
        cmocka_unit_test_setup_teardown(helpers_work_with_a_group_of_one, join, leave),
    };
    clearenv(); /* no launcher */
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
