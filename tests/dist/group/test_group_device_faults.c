/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group on a device when something fails: the engine is aborted once, every work ends with an
 * error that names the collective, and later calls return the same error.
 */
#include "tests/dist/group/group_rig.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/loader.h>
#include <millrace/metrics.h>
#include <millrace/run.h>

#include "dist/group/group.h"
#include "tests/dist/group/device_engine_double.h"

static struct device_double *orders;

static struct device_double_rank *get_orders(const mr_group *group)
{
    return &orders->ranks[mr_group_rank(group)];
}

static void expect_aborted(uint32_t n)
{
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_sums), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&orders->ranks[r].n_healthy_ends), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), 1);
    }
}

static void stays_dead(mr_group *group, mr_status status)
{
    float x = 0;
    mr_group_work *work = NULL;
    mr_group *part = NULL;
    char first[MR_ERROR_TEXT];
    memcpy(first, mr_group_error(group)->text, sizeof first);
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F32, MR_SUM) == status);
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &work) == status && work == NULL);
    RIG_CHECK(group, mr_group_split(group, 0, 0, &part) == status);
    RIG_CHECK(group, strcmp(mr_group_error(group)->text, first) == 0);
}

/* Rank 1's third issue fails; the other rank waits in vain. */
static void fails_at_three(mr_group *group, void *arg)
{
    float x[10] = {0};
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    RIG_CHECK(group, mr_group_all_reduce(group, x, 10, MR_F32, MR_SUM) == MR_OK);
    mr_status status = mr_group_all_reduce(group, x, 10, MR_F32, MR_MEAN);
    if (mr_group_rank(group) == 1) {
        RIG_CHECK(group, status == MR_ERR_DEVICE);
        RIG_SAYS(group, "all_reduce 3 (10 f32, mean): the double was told to fail");
    } else {
        RIG_CHECK(group, status == MR_ERR_TIMEOUT);
        RIG_SAYS(group,
                 "all_reduce 3 (10 f32, mean) timed out after 1 s: rank 1 has left the group");
    }
    stays_dead(group, status);
}

static void an_issue_that_fails_ends_the_group(void **state)
{
    (void)state;
    orders = rig_use_device();
    atomic_store(&orders->ranks[1].fails_at, 3);
    atomic_store(&orders->ranks[1].issue_status, MR_ERR_DEVICE);
    rig_run(2, 1000, fails_at_three, NULL);
    expect_aborted(2);
}

/*
 * The second of three works fails on the device. It and the third end with its error; the first
 * succeeds.
 */
static void fails_on_the_device(mr_group *group, void *arg)
{
    bool by_test = *(bool *)arg;
    mr_group_work *works[3];
    float x[3] = {0};
    for (int i = 0; i < 3; i++)
        RIG_CHECK(group, mr_group_all_reduce_async(group, &x[i], 1, MR_F32, MR_SUM, NULL,
                                                   &works[i]) == MR_OK);
    /* only after all three are under way */
    atomic_store(&orders->ranks[mr_group_rank(group)].breaks_at, 2);
    mr_status status = MR_PENDING;
    uint64_t until = rig_now_ms() + 5000;
    if (by_test) /* both ranks have reached it */
        RIG_CHECK(group, mr_group_work_sync(works[0], MR_FOREVER) == MR_OK);
    while (by_test && status == MR_PENDING && rig_now_ms() < until)
        status = mr_group_work_test(works[1]);
    if (!by_test)
        status = mr_group_work_sync(works[2], MR_FOREVER);
    RIG_CHECK(group, status == MR_ERR_DEVICE);
    RIG_SAYS(group, "all_reduce 2 (1 f32, sum): the double's ticket was told to fail");
    RIG_CHECK(group, mr_group_work_wait(works[2], NULL) == status);
    RIG_CHECK(group, mr_group_work_test(works[0]) == MR_OK);
    RIG_CHECK(group, mr_group_work_sync(works[1], MR_FOREVER) == status);
    stays_dead(group, status);
    for (int i = 0; i < 3; i++)
        mr_group_work_destroy(works[i]);
}

static void a_failed_work_is_named_and_later_works_end_with_its_error(void **state)
{
    (void)state;
    for (int by_test = 0; by_test < 2; by_test++) {
        bool how = by_test;
        orders = rig_use_device();
        for (int r = 0; r < 2; r++) {
            atomic_store(&orders->ranks[r].test_status, MR_ERR_DEVICE);
            atomic_store(&orders->ranks[r].held_above, 1);
            /* later works do not end by themselves */
            atomic_store(&orders->ranks[r].is_held, true);
        }
        rig_run(2, 60000, fails_on_the_device, &how);
        expect_aborted(2);
    }
}

/*
 * The work was freed and is not polled. The watch finds the failure, and the next call reports it.
 */
static void is_unhealthy(mr_group *group, void *arg)
{
    mr_group_work *work = NULL;
    static float x[RIG_RANKS];
    (void)arg;
    atomic_store(&get_orders(group)->is_held, true);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &x[mr_group_rank(group)], 1, MR_F32, MR_SUM,
                                               NULL, &work) == MR_OK);
    mr_group_work_destroy(work);
    atomic_store(&get_orders(group)->health_status, MR_ERR_PEER);
    uint64_t until = rig_now_ms() + 5000;
    while (atomic_load(&get_orders(group)->n_aborts) == 0 && rig_now_ms() < until)
        usleep(1000);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    RIG_SAYS(group, "all_reduce 1 (1 f32, sum): ");
    /* it may also say that rank 1 has left, if rank 1 was first */
    RIG_SAYS(group, "the double is not well");
    stays_dead(group, MR_ERR_PEER);
}

static void the_watch_checks_the_health_of_the_engine(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(2, 60000, is_unhealthy, NULL);
    expect_aborted(2);
}

static void times_out(mr_group *group, void *arg)
{
    double x = 0;
    uint64_t start = rig_now_ms();
    (void)arg;
    if (mr_group_rank(group) == 2) {
        /* it is busy elsewhere, but connected, until the other ranks have given up */
        uint64_t until = start + 10000;
        while (rig_now_ms() < until && (!atomic_load(&orders->ranks[0].n_aborts) ||
                                        !atomic_load(&orders->ranks[1].n_aborts)))
            usleep(1000);
        usleep(100000); /* they still read the settings */
        return;
    }
    group->timeout_ms =
        mr_group_rank(group) == 0 ? 1000 : 3000; /* rank 1 waits longer than rank 0 */
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F64, MR_MAX) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start >= 990 && rig_now_ms() - start < 9000);
    RIG_SAYS(group, mr_group_rank(group) == 0
                        ? "all_reduce 1 (1 f64, max) timed out after 1 s: rank 2 did not join"
                        : "all_reduce 1 (1 f64, max) timed out after 3 s: ");
    stays_dead(group, MR_ERR_TIMEOUT);
}

static void a_missing_rank_is_waited_for_until_the_timeout(void **state)
{
    (void)state;
    orders = rig_use_device();
    rig_run(3, 1000, times_out, NULL);
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
    }
}

/* An engine that is still connecting at the deadline. */
static void never_connects(mr_group *group, void *arg)
{
    (void)arg;
    uint64_t start = rig_now_ms();
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 150000);
    RIG_SAYS(group, "barrier 1 timed out after 500 ms");
    stays_dead(group, MR_ERR_TIMEOUT);
}

static void an_engine_that_never_connects_ends_at_the_deadline(void **state)
{
    (void)state;
    orders = rig_use_device();
    for (int r = 0; r < 2; r++)
        atomic_store(&orders->ranks[r].is_connecting, true);
    rig_run(2, 500, never_connects, NULL);
    expect_aborted(2);
}

/* Metrics under way, and their sums on the device, when the engine fails. */
static void metrics_fail(mr_group *group, void *arg)
{
    mr_metrics *metrics = NULL;
    float loss = 1;
    (void)arg;
    RIG_CHECK(group, mr_metrics_create(group, &metrics, NULL) == MR_OK);
    RIG_CHECK(group, mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 1, NULL) == MR_OK);
    RIG_CHECK(group, mr_metrics_reduce_async(metrics) == MR_OK);
    RIG_CHECK(group, mr_metrics_sync(metrics) == MR_ERR_DEVICE);
    RIG_CHECK(group,
              strstr(mr_metrics_error(metrics)->text, "all_reduce 2 (512 f64, sum)") != NULL);
    RIG_CHECK(group,
              mr_metrics_add_device(metrics, "loss", &loss, MR_F32, 1, NULL) == MR_ERR_DEVICE);
    mr_metrics_destroy(metrics);
}

static void metrics_report_the_failure_and_free_everything(void **state)
{
    (void)state;
    orders = rig_use_device();
    for (int r = 0; r < 2; r++) {
        atomic_store(&orders->ranks[r].breaks_at, 2);
        atomic_store(&orders->ranks[r].test_status, MR_ERR_DEVICE);
    }
    rig_run(2, 60000, metrics_fail, NULL);
    expect_aborted(2);
}

/*
 * Only its owner may abort an adopted communicator. Works end all the same. If host numbers are
 * under way, the engine is never destroyed.
 */
static void adopted_times_out(mr_group *group, void *arg)
{
    bool on_host = *(bool *)arg;
    static float x[RIG_RANKS];
    int signal = 0;
    mr_status status =
        on_host ? mr_signals_agree(group, &signal)
                : mr_group_all_reduce(group, &x[mr_group_rank(group)], 1, MR_F32, MR_SUM);
    RIG_CHECK(group, status == MR_ERR_TIMEOUT);
    stays_dead(group, status);
}

static void an_adopted_communicator_is_not_aborted(void **state)
{
    (void)state;
    int comm = 0;
    for (int i = 0; i < 2; i++) {
        bool on_host = i;
        orders = rig_use_device();
        rig_adopt(&comm);
        for (int r = 0; r < 2; r++)
            atomic_store(&orders->ranks[r].is_held, true);
        rig_run(2, 300, adopted_times_out, &on_host);
        rig_adopt(NULL);
        assert_int_equal(atomic_load(&orders->n_misuses), 0);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 0);
            assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), on_host);
            assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), !on_host);
        }
    }
}

/* Ranks as processes. One is killed while the other ranks wait on their devices in vain. */
static void waits_for_the_dead(mr_group *group, void *arg)
{
    float x = 0;
    mr_group_work *work = NULL;
    (void)arg;
    if (mr_group_rank(group) == 1) {
        usleep(300000);
        raise(SIGKILL);
    }
    uint64_t start = rig_now_ms();
    RIG_CHECK(group, mr_group_all_reduce_async(group, &x, 1, MR_F32, MR_SUM, NULL, &work) == MR_OK);
    RIG_CHECK(group, mr_group_work_sync(work, MR_FOREVER) == MR_ERR_PEER);
    RIG_CHECK(group, rig_now_ms() - start < 150000);
    RIG_SAYS(group, "all_reduce 1 (1 f32, sum): ");
    RIG_SAYS(group, "rank 1");
    RIG_CHECK(group, atomic_load(&get_orders(group)->n_aborts) == 1);
    mr_group_work_destroy(work);
    stays_dead(group, MR_ERR_PEER);
}

static void a_dead_rank_is_named_even_if_the_engine_reports_nothing(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    orders = rig_use_device();
    atomic_store(&orders->is_apart, true);
    rig_fork(3, 60000, waits_for_the_dead, NULL, results);
    assert_int_equal(results[0], 0);
    assert_int_equal(results[1], 128 + SIGKILL);
    assert_int_equal(results[2], 0);
}

/* The same between two collectives: the next call reports it at once. */
static void calls_after_a_death(mr_group *group, void *arg)
{
    (void)arg;
    if (mr_group_rank(group) == 1)
        raise(SIGKILL);
    usleep(1000000);
    uint64_t start = rig_now_ms();
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    RIG_CHECK(group, rig_now_ms() - start < 15000);
    RIG_SAYS(group, "barrier 1: ");
    RIG_SAYS(group, "rank 1");
    RIG_CHECK(group, atomic_load(&get_orders(group)->n_issues) == 0);
}

static void a_death_between_collectives_is_reported_by_the_next(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    orders = rig_use_device();
    atomic_store(&orders->is_apart, true);
    rig_fork(2, 60000, calls_after_a_death, NULL, results);
    assert_int_equal(results[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* they fork, so they run before there are threads */
        cmocka_unit_test(a_dead_rank_is_named_even_if_the_engine_reports_nothing),
        cmocka_unit_test(a_death_between_collectives_is_reported_by_the_next),
        cmocka_unit_test(an_issue_that_fails_ends_the_group),
        cmocka_unit_test(a_failed_work_is_named_and_later_works_end_with_its_error),
        cmocka_unit_test(the_watch_checks_the_health_of_the_engine),
        cmocka_unit_test(a_missing_rank_is_waited_for_until_the_timeout),
        cmocka_unit_test(an_engine_that_never_connects_ends_at_the_deadline),
        cmocka_unit_test(metrics_report_the_failure_and_free_everything),
        cmocka_unit_test(an_adopted_communicator_is_not_aborted),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
