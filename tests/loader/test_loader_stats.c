/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics: counts, shares, times on request, the verdict as text. */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <string.h>
#include <stdio.h>
#include <unistd.h>

static mr_loader_stats stats_of(mr_loader *loader)
{
    mr_loader_stats stats;
    memset(&stats, 0xa5, sizeof stats);
    stats.struct_size = sizeof stats;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    assert_int_equal(stats.struct_size, sizeof stats);
    assert_true(stats.busy_share_min >= 0 && stats.busy_share_min <= stats.busy_share_mean);
    assert_true(stats.busy_share_mean <= stats.busy_share_max && stats.busy_share_max <= 1);
    assert_true(stats.consumer_wait_ns <= stats.elapsed_ns);
    assert_string_equal(stats.reader, "none"); /* callbacks read nothing */
    return stats;
}

static struct verdict {
    char text[128];
} verdict_of(mr_loader *loader)
{
    struct verdict verdict;
    char start[9];
    size_t len = mr_loader_verdict(loader, verdict.text, sizeof verdict.text);
    assert_true(len > 8 && len == strlen(verdict.text));
    assert_true(mr_loader_verdict(loader, start, sizeof start) > 8);
    assert_true(strlen(start) == 8 && strncmp(start, verdict.text, 8) == 0);
    return verdict;
}

static void a_new_loader_has_counted_nothing(void **state)
{
    mr_loader_options options = rig_options();
    options.n_slots = 5;
    mr_loader *loader = rig_loader(*state, &options);
    mr_loader_stats s = stats_of(loader);
    assert_int_equal(s.n_batches, 0);
    assert_int_equal(s.n_samples, 0);
    assert_int_equal(s.n_damaged, 0);
    assert_int_equal(s.elapsed_ns, 0);
    assert_int_equal(s.n_slots, 5);
    assert_int_equal(s.num_workers, 2);
    assert_int_equal(s.n_deaths, 0);
    assert_string_equal(verdict_of(loader).text, "no batch was taken yet");
    mr_loader_destroy(loader);
}

static void what_was_returned_is_counted(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t indices[100];
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch_release(rig_next(loader));
        mr_loader_stats s = stats_of(loader);
        assert_int_equal(s.n_batches, 1);
        assert_int_equal(s.n_samples, 8);
        rig_drain(loader, false, indices, 100);
        assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        rig_drain(loader, false, indices, 100);
        s = stats_of(loader);
        assert_int_equal(s.n_batches, 26);
        assert_int_equal(s.n_samples, 200);
        assert_true(s.elapsed_ns > 0);
        assert_int_equal(s.num_workers, rig_modes[m].num_workers == MR_NO_WORKERS ? 0 : 2);
        mr_loader_destroy(loader);
    }
}

static void times_of_stages_are_measured_on_request_only(void **state)
{
    for (unsigned with = 0; with < 2; with++) {
        mr_loader_options options = rig_options();
        int64_t indices[100];
        options.with_timing = with;
        mr_loader *loader = rig_loader(*state, &options);
        rig_drain(loader, false, indices, 100);
        mr_loader_stats s = stats_of(loader);
        assert_int_equal(s.decode_ns + s.transform_ns > 0, with);
        if (!with)
            assert_int_equal(s.read_ns, 0);
        assert_true(s.busy_share_max > 0);
        mr_loader_destroy(loader);
    }
}

static void sleep_of_workers_without_a_free_slot_is_waiting(void **state)
{
    mr_loader_options options = rig_options();
    options.with_timing = true;
    options.n_slots = 2;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *a = rig_next(loader), *b = rig_next(loader);
    usleep(60000);
    mr_batch_release(a);
    mr_batch_release(b);
    mr_batch_release(rig_next(loader)); /* the workers woke up and have counted their sleep */
    mr_batch_release(rig_next(loader));
    for (int i = 0; i < 4000 && stats_of(loader).wait_ns < 50000000; i++)
        usleep(5000);
    assert_true(stats_of(loader).wait_ns >= 50000000);
    mr_loader_destroy(loader);
}

static void ready_batches_are_those_decoded_and_not_returned(void **state)
{
    mr_loader_options options = rig_options();
    options.n_slots = 5;
    options.n_buffers = 3;
    uint32_t n_ahead = mr_test_copies() ? 8 : 5;
    mr_loader *loader = rig_loader(*state, &options);
    for (int i = 0; i < 10000 && stats_of(loader).n_ready < n_ahead; i++)
        usleep(2000);
    assert_int_equal(stats_of(loader).n_ready, n_ahead);
    mr_batch *lent = rig_next(loader);
    assert_int_equal(stats_of(loader).n_ready, n_ahead - 1);
    mr_batch_release(lent);
    mr_loader_destroy(loader);
}

static void a_slow_dataset_is_loader_bound(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options();
    unsigned percent = 0;
    int64_t indices[100];
    rig->shared->slow_us = 2000;
    mr_loader *loader = rig_loader(rig, &options);
    rig_drain(loader, false, indices, 100);
    mr_loader_stats s = stats_of(loader);
    assert_int_equal(sscanf(verdict_of(loader).text,
                            "loader-bound: consumer waited %u %% of the time", &percent),
                     1);
    assert_true(percent > 50 && percent <= 100);
    assert_true(s.busy_share_mean > 0.3);
    mr_loader_destroy(loader);
}

static void a_slow_consumer_is_consumer_bound(void **state)
{
    mr_loader_options options = rig_options();
    mr_batch *batch;
    mr_loader *loader = rig_loader(*state, &options);
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        usleep(15000);
        mr_batch_release(batch);
    }
    assert_words(verdict_of(loader).text, "consumer-bound: consumer waited only ");
    mr_loader_destroy(loader);
}

static void an_older_callers_struct_is_not_overrun(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader_stats s;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch_release(rig_next(loader));
    memset(&s, 0xa5, sizeof s);
    s.struct_size = offsetof(mr_loader_stats, n_damaged);
    assert_int_equal(mr_loader_get_stats(loader, &s), MR_OK);
    assert_int_equal(s.n_samples, 8);
    assert_int_equal(s.n_damaged, UINT64_C(0xa5a5a5a5a5a5a5a5));
    s.struct_size = 0;
    assert_int_equal(mr_loader_get_stats(loader, &s), MR_ERR_INVALID);
    s.struct_size = sizeof s + 8;
    assert_int_equal(mr_loader_get_stats(loader, &s), MR_ERR_INVALID);
    assert_int_equal(mr_loader_get_stats(loader, NULL), MR_ERR_INVALID);
    mr_loader_destroy(loader);
}

static void forked_workers_have_process_ids(void **state)
{
    rig_needs_fork();
    mr_loader_options options = rig_options_of(&rig_modes[2]);
    int64_t pids[4] = {0, 0, -9, -9};
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_worker_pids(loader, NULL, 0), 2);
    assert_int_equal(mr_loader_worker_pids(loader, pids, 1), 2);
    assert_true(pids[0] > 0);
    assert_int_equal(pids[1], 0);
    assert_int_equal(mr_loader_worker_pids(loader, pids, 4), 2);
    assert_true(pids[1] > 0 && pids[0] != pids[1] && pids[0] != getpid());
    assert_int_equal(pids[2], -9);
    mr_loader_destroy(loader);
}

/* kill() of pid 0 would signal the caller's whole process group. */
static void threads_have_no_process_ids(void **state)
{
    mr_loader_options options = rig_options();
    options.start = MR_START_THREAD;
    options.num_workers = 3;
    int64_t pid = -9;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_worker_pids(loader, &pid, 1), 0);
    assert_int_equal(pid, -9);
    assert_int_equal(stats_of(loader).num_workers, 3);
    mr_loader_destroy(loader);
}

static void each_worker_has_a_busy_share(void **state)
{
    mr_loader_options options = rig_options();
    options.start = MR_START_THREAD;
    options.num_workers = 2;
    double shares[3] = {-9, -9, -9};
    mr_loader *loader = rig_loader(*state, &options);
    int64_t indices[RIG_MAX];
    rig_drain(loader, false, indices, RIG_MAX);
    assert_int_equal(mr_loader_worker_shares(loader, shares, 3), 2);
    mr_loader_stats s = stats_of(loader);
    for (int i = 0; i < 2; i++)
        assert_true(shares[i] >= 0 && shares[i] <= 1);
    assert_true(s.busy_share_max > 0 && shares[0] + shares[1] > 0);
    assert_true(shares[2] == -9);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(threads_have_no_process_ids),
        RIG_TEST(each_worker_has_a_busy_share),
        RIG_TEST(a_new_loader_has_counted_nothing),
        RIG_TEST(what_was_returned_is_counted),
        RIG_TEST(times_of_stages_are_measured_on_request_only),
        RIG_TEST(sleep_of_workers_without_a_free_slot_is_waiting),
        RIG_TEST(ready_batches_are_those_decoded_and_not_returned),
        RIG_TEST(a_slow_dataset_is_loader_bound),
        RIG_TEST(a_slow_consumer_is_consumer_bound),
        RIG_TEST(an_older_callers_struct_is_not_overrun),
        RIG_TEST(forked_workers_have_process_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
