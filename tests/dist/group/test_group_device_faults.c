/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group over an engine of a device's memory when something fails: the engine is aborted once,
 * every work ends with words that name the collective, and later calls return the same words.
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

static struct device_double *told;

static struct device_double_rank *told_of(const mr_group *group)
{
    return &told->ranks[mr_group_rank(group)];
}

static void expect_aborted(uint32_t n)
{
    assert_int_equal(atomic_load(&told->n_misuses), 0);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(atomic_load(&told->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&told->ranks[r].n_sums), 0);
        assert_int_equal(atomic_load(&told->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&told->ranks[r].n_healthy_ends), 0);
        assert_int_equal(atomic_load(&told->ranks[r].n_other_ends), 1);
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

/* Rank 1's third issue fails; the other waits in vain. */
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
    told = rig_use_device();
    atomic_store(&told->ranks[1].fails_at, 3);
    atomic_store(&told->ranks[1].issue_status, MR_ERR_DEVICE);
    rig_run(2, 1000, fails_at_three, NULL);
    expect_aborted(2);
}

/*
 * The second of three works fails on the device: it and the one behind end with its words, the
 * first is well.
 */
static void fails_on_the_device(mr_group *group, void *arg)
{
    bool by_test = *(bool *)arg;
    mr_group_work *works[3];
    float x[3] = {0};
    for (int i = 0; i < 3; i++)
        RIG_CHECK(group, mr_group_all_reduce_async(group, &x[i], 1, MR_F32, MR_SUM, NULL,
                                                   &works[i]) == MR_OK);
    /* not before all three are under way */
    atomic_store(&told->ranks[mr_group_rank(group)].breaks_at, 2);
    mr_status status = MR_PENDING;
    uint64_t until = rig_now_ms() + 5000;
    if (by_test) /* both ranks have come to it */
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
        mr_group_work_free(works[i]);
}

static void a_work_that_fails_is_named_and_those_behind_end_with_it(void **state)
{
    (void)state;
    for (int by_test = 0; by_test < 2; by_test++) {
        bool how = by_test;
        told = rig_use_device();
        for (int r = 0; r < 2; r++) {
            atomic_store(&told->ranks[r].test_status, MR_ERR_DEVICE);
            atomic_store(&told->ranks[r].held_above, 1);
            /* what is behind it does not end by itself */
            atomic_store(&told->ranks[r].is_held, true);
        }
        rig_run(2, 60000, fails_on_the_device, &how);
        expect_aborted(2);
    }
}

/* Nobody asks for the work, whose handle is free: the watch finds it, and the next call tells. */
static void is_not_well(mr_group *group, void *arg)
{
    mr_group_work *work = NULL;
    static float x[RIG_RANKS];
    (void)arg;
    atomic_store(&told_of(group)->is_held, true);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &x[mr_group_rank(group)], 1, MR_F32, MR_SUM,
                                               NULL, &work) == MR_OK);
    mr_group_work_free(work);
    atomic_store(&told_of(group)->health_status, MR_ERR_PEER);
    uint64_t until = rig_now_ms() + 5000;
    while (atomic_load(&told_of(group)->n_aborts) == 0 && rig_now_ms() < until)
        usleep(1000);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    RIG_SAYS(group, "all_reduce 1 (1 f32, sum): ");
    /* and that rank 1 has left, where it was the first */
    RIG_SAYS(group, "the double is not well");
    stays_dead(group, MR_ERR_PEER);
}

static void the_watch_asks_for_the_engines_health(void **state)
{
    (void)state;
    told = rig_use_device();
    rig_run(2, 60000, is_not_well, NULL);
    expect_aborted(2);
}

static void times_out(mr_group *group, void *arg)
{
    double x = 0;
    uint64_t start = rig_now_ms();
    (void)arg;
    if (mr_group_rank(group) == 2) {
        /* it is somewhere else, but there, until the others have given up */
        uint64_t until = start + 10000;
        while (rig_now_ms() < until &&
               (!atomic_load(&told->ranks[0].n_aborts) || !atomic_load(&told->ranks[1].n_aborts)))
            usleep(1000);
        usleep(100000); /* they look at what is told */
        return;
    }
    group->timeout_ms = mr_group_rank(group) == 0 ? 1000 : 3000; /* rank 1 waits on after rank 0 */
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F64, MR_MAX) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start >= 990 && rig_now_ms() - start < 9000);
    RIG_SAYS(group, mr_group_rank(group) == 0
                        ? "all_reduce 1 (1 f64, max) timed out after 1 s: rank 2 did not join"
                        : "all_reduce 1 (1 f64, max) timed out after 3 s: ");
    stays_dead(group, MR_ERR_TIMEOUT);
}

static void a_rank_that_does_not_come_is_not_waited_for_beyond_the_time(void **state)
{
    (void)state;
    told = rig_use_device();
    rig_run(3, 1000, times_out, NULL);
    assert_int_equal(atomic_load(&told->n_misuses), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(atomic_load(&told->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&told->ranks[r].n_tickets), 0);
    }
}

/* An engine that is still connecting when the time is over. */
static void never_connects(mr_group *group, void *arg)
{
    (void)arg;
    uint64_t start = rig_now_ms();
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 150000);
    RIG_SAYS(group, "barrier 1 timed out after 500 ms");
    stays_dead(group, MR_ERR_TIMEOUT);
}

static void an_engine_that_never_connects_ends_by_the_deadline(void **state)
{
    (void)state;
    told = rig_use_device();
    for (int r = 0; r < 2; r++)
        atomic_store(&told->ranks[r].is_connecting, true);
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

static void metrics_tell_the_failure_and_give_all_back(void **state)
{
    (void)state;
    told = rig_use_device();
    for (int r = 0; r < 2; r++) {
        atomic_store(&told->ranks[r].breaks_at, 2);
        atomic_store(&told->ranks[r].test_status, MR_ERR_DEVICE);
    }
    rig_run(2, 60000, metrics_fail, NULL);
    expect_aborted(2);
}

/*
 * What was adopted is its owner's to abort: works end all the same. With numbers of the host under
 * way the engine stays.
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
        told = rig_use_device();
        rig_adopt(&comm);
        for (int r = 0; r < 2; r++)
            atomic_store(&told->ranks[r].is_held, true);
        rig_run(2, 300, adopted_times_out, &on_host);
        rig_adopt(NULL);
        assert_int_equal(atomic_load(&told->n_misuses), 0);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(atomic_load(&told->ranks[r].n_aborts), 0);
            assert_int_equal(atomic_load(&told->ranks[r].n_tickets), on_host);
            assert_int_equal(atomic_load(&told->ranks[r].n_other_ends), !on_host);
        }
    }
}

/* Ranks as processes; one is killed while the others wait on their devices for nothing. */
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
    RIG_CHECK(group, atomic_load(&told_of(group)->n_aborts) == 1);
    mr_group_work_free(work);
    stays_dead(group, MR_ERR_PEER);
}

static void a_dead_rank_is_named_though_the_engine_says_nothing(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    told = rig_use_device();
    atomic_store(&told->is_apart, true);
    rig_fork(3, 60000, waits_for_the_dead, NULL, results);
    assert_int_equal(results[0], 0);
    assert_int_equal(results[1], 128 + SIGKILL);
    assert_int_equal(results[2], 0);
}

/* The same between two collectives: the next call tells, at once. */
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
    RIG_CHECK(group, atomic_load(&told_of(group)->n_issues) == 0);
}

static void a_death_between_collectives_is_told_by_the_next(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    told = rig_use_device();
    atomic_store(&told->is_apart, true);
    rig_fork(2, 60000, calls_after_a_death, NULL, results);
    assert_int_equal(results[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* before there are threads */
        cmocka_unit_test(a_dead_rank_is_named_though_the_engine_says_nothing),
        cmocka_unit_test(a_death_between_collectives_is_told_by_the_next),
        cmocka_unit_test(an_issue_that_fails_ends_the_group),
        cmocka_unit_test(a_work_that_fails_is_named_and_those_behind_end_with_it),
        cmocka_unit_test(the_watch_asks_for_the_engines_health),
        cmocka_unit_test(a_rank_that_does_not_come_is_not_waited_for_beyond_the_time),
        cmocka_unit_test(an_engine_that_never_connects_ends_by_the_deadline),
        cmocka_unit_test(metrics_tell_the_failure_and_give_all_back),
        cmocka_unit_test(an_adopted_communicator_is_not_aborted),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
