/* SPDX-License-Identifier: Apache-2.0 */
/* mr_loader_fd(): an epoch by epoll, and every change from quiet to readable and back. */
#include "tests/loader/rig.h"

#include "loader/loader.h"
#include "tests/support/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { LONG_MS = 20000, QUIET_MS = 60 };

static int fd_of(mr_loader *loader)
{
    int fd;
    if (mr_loader_fd(loader, &fd) != MR_OK)
        fail_msg("%s", mr_loader_error(loader)->text);
    return fd;
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int rc;
    do {
        rc = poll(&wait, 1, timeout_ms);
    } while (rc < 0 && errno == EINTR);
    assert_true(rc >= 0);
    return rc == 1;
}

/*
 * Expect that it becomes readable, and that a poll of next() then returns this. *batch_out is the
 * lent batch.
 */
static void expect_answer(mr_loader *loader, int fd, mr_status expected, mr_batch **batch_out)
{
    if (!is_readable(fd, LONG_MS))
        fail_msg("still quiet after %d ms", LONG_MS);
    mr_status status = mr_loader_next(loader, 0, batch_out);
    if (status != expected)
        fail_msg("%s, not %s: %s", mr_status_name(status), mr_status_name(expected),
                 mr_loader_error(loader)->text);
}

static void expect_batch(mr_loader *loader, int fd, uint64_t number)
{
    mr_batch *batch;
    expect_answer(loader, fd, MR_OK, &batch);
    assert_int_equal(mr_batch_number(batch), number);
    rig_check(batch);
    mr_batch_release(batch);
}

static void expect_pending(mr_loader *loader, int fd)
{
    mr_batch *batch;
    assert_false(is_readable(fd, QUIET_MS));
    assert_int_equal(mr_loader_next(loader, 0, &batch), MR_PENDING);
    assert_false(is_readable(fd, 0));
}

/*
 * Like an event loop: one call for each event. Returns the number of batches; *n_damaged_out counts
 * errors in their place.
 */
static unsigned run_epoch(mr_loader *loader, int epoll, unsigned *n_damaged_out)
{
    struct epoll_event event;
    unsigned n = 0;
    *n_damaged_out = 0;
    for (;;) {
        mr_batch *batch;
        int rc = epoll_wait(epoll, &event, 1, LONG_MS);
        if (rc < 0 && errno == EINTR)
            continue;
        assert_int_equal(rc, 1);
        mr_status status = mr_loader_next(loader, 0, &batch);
        if (status == MR_END)
            return n;
        if (status == MR_ERR_DAMAGED) {
            ++*n_damaged_out;
            continue;
        }
        if (status != MR_OK) /* MR_PENDING too: it was readable */
            fail_msg("after %u batches: %s", n, mr_status_name(status));
        rig_check(batch);
        mr_batch_release(batch);
        n++;
    }
}

static void an_event_loop_gets_whole_epochs(void **state)
{
    struct rig *rig = *state;
    rig->shared->fails[20] = true;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        for (unsigned slow_us = 0; slow_us <= 1000; slow_us += 1000) {
            rig->shared->slow_us = slow_us;
            mr_loader_options options = rig_options_of(&rig_modes[m]);
            mr_loader *loader = rig_loader(rig, &options);
            int epoll = epoll_create1(EPOLL_CLOEXEC);
            struct epoll_event event = {.events = EPOLLIN};
            assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd_of(loader), &event), 0);
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                unsigned n_damaged;
                assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
                assert_int_equal(run_epoch(loader, epoll, &n_damaged), 12);
                assert_int_equal(n_damaged, 1);
                assert_int_equal(epoll_wait(epoll, &event, 1, QUIET_MS), 0);
            }
            close(epoll);
            mr_loader_destroy(loader);
        }
    }
}

static void it_is_quiet_until_the_batch_is_there(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        atomic_store(&rig->shared->gate, 1);
        mr_loader *loader = rig_loader(rig, &options);
        int fd = fd_of(loader);
        expect_pending(loader, fd);
        atomic_store(&rig->shared->gate, 0);
        expect_batch(loader, fd, 0);
        expect_batch(loader, fd, 1);
        assert_int_equal(fd_of(loader), fd);
        mr_loader_destroy(loader);
    }
}

static void after_the_end_it_is_quiet_until_another_epoch(void **state)
{
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *batch;
        int64_t order[3] = {5, 6, 7};
        int fd = fd_of(loader);
        for (unsigned i = 0; i < 13; i++)
            expect_batch(loader, fd, i);
        expect_answer(loader, fd, MR_END, &batch);
        assert_false(is_readable(fd, QUIET_MS));
        rig_expect(loader, MR_END); /* further calls return the end too */
        assert_false(is_readable(fd, 0));
        assert_int_equal(mr_loader_set_epoch_order(loader, 1, order, 3), MR_OK);
        expect_batch(loader, fd, 0);
        expect_answer(loader, fd, MR_END, &batch);
        assert_false(is_readable(fd, 0));
        assert_int_equal(mr_loader_set_epoch_order(loader, 2, NULL, 0), MR_OK);
        assert_true(is_readable(fd, 0));
        expect_answer(loader, fd, MR_END, &batch);
        assert_false(is_readable(fd, 0));
        assert_int_equal(mr_loader_set_epoch(loader, 3), MR_OK);
        expect_batch(loader, fd, 0);
        mr_loader_destroy(loader);
    }
}

static void another_epoch_makes_it_quiet(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(rig, &options);
        mr_batch_release(rig_next(loader));
        usleep(50000); /* the next batch is ready before the program waits */
        int fd = fd_of(loader);
        assert_true(is_readable(fd, LONG_MS));
        atomic_store(&rig->shared->gate, 1);
        assert_int_equal(mr_loader_set_epoch(loader, 7), MR_OK);
        assert_false(is_readable(fd, 0));
        expect_pending(loader, fd);
        atomic_store(&rig->shared->gate, 0);
        expect_batch(loader, fd, 0);
        mr_loader_destroy(loader);
    }
}

static void a_cancel_makes_it_readable_once(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_batch *batch;
        atomic_store(&rig->shared->gate, 1);
        mr_loader *loader = rig_loader(rig, &options);
        int fd = fd_of(loader);
        assert_false(is_readable(fd, 0));
        mr_loader_cancel(loader);
        assert_true(is_readable(fd, 0));
        expect_answer(loader, fd, MR_ERR_CANCELED, &batch);
        assert_false(is_readable(fd, 0));
        atomic_store(&rig->shared->gate, 0);
        for (unsigned i = 0; i < 13; i++)
            expect_batch(loader, fd, i);
        expect_answer(loader, fd, MR_END, &batch);
        mr_loader_cancel(loader);
        expect_answer(loader, fd, MR_ERR_CANCELED, &batch);
        assert_false(is_readable(fd, 0));
        mr_loader_destroy(loader);
    }
}

/*
 * All are lent. For most loaders an error is the answer; a loader that waits for a release has no
 * answer.
 */
static void with_all_slots_lent_it_agrees_with_next(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        for (unsigned waits = 0; waits < 2; waits++) {
            mr_loader_options options = rig_options_of(&rig_modes[m]);
            options.n_slots = 3;
            options.wait_when_lent = waits;
            mr_loader *loader = rig_loader(rig, &options);
            int fd = fd_of(loader);
            mr_batch *lent[3], *batch;
            for (unsigned i = 0; i < 3; i++)
                expect_answer(loader, fd, MR_OK, &lent[i]);
            if (waits)
                expect_pending(loader, fd);
            else
                expect_answer(loader, fd, MR_ERR_STATE, &batch);
            if (!mr_test_copies()) { /* otherwise the next batch is decoded already */
                atomic_store(&rig->shared->gate, 1);
                mr_batch_release(lent[0]);
                assert_false(is_readable(fd, 0));
                expect_pending(loader, fd);
                atomic_store(&rig->shared->gate, 0);
            } else {
                mr_batch_release(lent[0]);
            }
            expect_batch(loader, fd, 3);
            mr_batch_release(lent[2]);
            mr_batch_release(lent[1]);
            for (unsigned i = 4; i < 13; i++)
                expect_batch(loader, fd, i);
            mr_loader_destroy(loader);
        }
    }
}

static void kill_workers(mr_loader *loader)
{
    int64_t pids[2];
    uint32_t n = mr_loader_worker_pids(loader, pids, 2);
    for (uint32_t i = 0; i < n && i < 2; i++)
        kill((pid_t)pids[i], SIGABRT);
}

static void the_loaders_failure_makes_it_readable_for_good(void **state)
{
    struct rig *rig = *state;
    rig_needs_fork();
    rig_log_capture();
    mr_loader_options options = rig_options_of(&rig_modes[2]);
    mr_batch *batch;
    atomic_store(&rig->shared->gate, 1);
    mr_loader *loader = rig_loader(rig, &options);
    int fd = fd_of(loader);
    for (unsigned i = 0; !is_readable(fd, 20); i++) {
        assert_true(i < 1000);
        kill_workers(loader);
    }
    for (unsigned i = 0; i < 3; i++)
        expect_answer(loader, fd, MR_ERR_WORKER, &batch);
    atomic_store(&rig->shared->gate, 0);
    mr_loader_destroy(loader);
    atomic_store(&rig->shared->n_live, 0); /* those of the killed workers */
    rig_log_end();
}

static bool thread_sleeps_on_the_word(mr_loader *loader)
{
    return atomic_load(&loader->host->shared.control->host_waits) > 0;
}

/*
 * Expect that the descriptor's thread sleeps on the workers' word, or does not. On the host nothing
 * else sleeps there.
 */
static void expect_sleep(mr_loader *loader, bool on_word)
{
    for (unsigned ms = 0; thread_sleeps_on_the_word(loader) != on_word; ms++) {
        if (ms >= LONG_MS)
            fail_msg("the thread does %ssleep on the word after %d ms", on_word ? "not " : "",
                     LONG_MS);
        usleep(1000);
    }
}

/*
 * Otherwise a batch that arrives after the failure would not be seen before the program's next
 * call.
 */
static void a_failure_while_it_is_readable_is_seen_at_once(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options_of(&rig_modes[1]);
    mr_error error = {
        .status = MR_ERR_WORKER, .index = MR_NO_INDEX, .text = "all workers are gone"};
    mr_batch *batch;
    if (mr_test_copies())
        return;
    atomic_store(&rig->shared->gate, 1);
    mr_loader *loader = rig_loader(rig, &options);
    int fd = fd_of(loader);
    expect_sleep(loader, true);
    mr_loader_cancel(loader);
    assert_true(is_readable(fd, 0));
    expect_sleep(loader, false);
    mr_host_fail(loader->host, &error);
    expect_sleep(loader, true);
    expect_answer(loader, fd, MR_ERR_CANCELED, &batch);
    expect_answer(loader, fd, MR_ERR_WORKER, &batch);
    atomic_store(&rig->shared->gate, 0);
    mr_loader_destroy(loader);
}

static void it_ends_with_the_loader_also_while_batches_are_lent(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        for (unsigned gate = 0; gate < 2; gate++) {
            mr_loader_options options = rig_options_of(&rig_modes[m]);
            mr_batch *batch;
            mr_loader *loader = rig_loader(rig, &options);
            int fd = fd_of(loader);
            assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
            expect_answer(loader, fd, MR_OK, &batch);
            if (gate) { /* quiet, or not */
                assert_int_equal(mr_loader_set_epoch_order(loader, 1, NULL, 0), MR_OK);
                rig_expect(loader, MR_END);
            }
            mr_loader_destroy(loader);
            assert_int_equal(fcntl(fd, F_GETFD), -1);
            mr_batch_release(batch);
        }
    }
}

static void it_is_refused_without_workers(void **state)
{
    mr_loader_options options = rig_options_of(&rig_modes[0]);
    mr_loader *loader = rig_loader(*state, &options);
    int fd = 0;
    assert_int_equal(mr_loader_fd(loader, &fd), MR_ERR_UNSUPPORTED);
    assert_int_equal(fd, -1);
    assert_int_equal(mr_loader_error(loader)->status, MR_ERR_UNSUPPORTED);
    assert_int_equal(mr_loader_fd(loader, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_loader_fd(NULL, &fd), MR_ERR_INVALID);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(an_event_loop_gets_whole_epochs),
        RIG_TEST(it_is_quiet_until_the_batch_is_there),
        RIG_TEST(after_the_end_it_is_quiet_until_another_epoch),
        RIG_TEST(another_epoch_makes_it_quiet),
        RIG_TEST(a_cancel_makes_it_readable_once),
        RIG_TEST(with_all_slots_lent_it_agrees_with_next),
        RIG_TEST(the_loaders_failure_makes_it_readable_for_good),
        RIG_TEST(a_failure_while_it_is_readable_is_seen_at_once),
        RIG_TEST(it_ends_with_the_loader_also_while_batches_are_lent),
        RIG_TEST(it_is_refused_without_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
