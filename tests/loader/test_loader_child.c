/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program forks while it has a loader: every call in the child fails at once, whatever the
 * parent's threads were doing, and the parent continues undisturbed.
 */
#include "loader/loader.h"
#include "tests/loader/rig.h"
#include "tests/support/devices.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__ % 200 + 1;                                                             \
    } while (0)

/* In the child: returns 0, or a number that identifies the failed line. */
static int misuse(mr_loader *loader, mr_batch *lent)
{
    mr_batch *batch = lent;
    uint8_t position[MR_LOADER_STATE_MAX] = {0};
    size_t len;
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    int64_t pids[4];
    CHECK(mr_loader_next(loader, MR_FOREVER, &batch) == MR_ERR_STATE && batch == NULL);
    CHECK(mr_loader_error(loader)->status == MR_ERR_STATE);
    CHECK(strstr(mr_loader_error(loader)->text, "forked child"));
    CHECK(mr_loader_set_epoch(loader, 7) == MR_ERR_STATE);
    CHECK(mr_loader_set_epoch_order(loader, 7, (int64_t[]){1}, 1) == MR_ERR_STATE);
    CHECK(mr_loader_save(loader, position, sizeof position, &len) == MR_ERR_STATE);
    CHECK(mr_loader_restore(loader, position, sizeof position) == MR_ERR_STATE);
    CHECK(mr_loader_get_stats(loader, &stats) == MR_ERR_STATE);
    CHECK(mr_loader_worker_pids(loader, pids, 4) == 0);
    CHECK(mr_loader_epoch(loader) == 0);
    CHECK(mr_loader_n_batches(loader) == 13 && mr_loader_n_samples(loader) == 100);
    mr_loader_cancel(loader);
    mr_batch_release(lent);
    mr_loader_destroy(loader);
    return 0;
}

/* Fork, and wait at most ten seconds for the child. */
static void fork_and_misuse(mr_loader *loader, mr_batch *lent)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        _exit(misuse(loader, lent));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_the_rest(mr_loader *loader, int64_t first)
{
    int64_t got[100];
    assert_int_equal(rig_drain(loader, false, got, 100), 100 - first);
    for (int64_t i = first; i < 100; i++)
        assert_int_equal(got[i - first], i);
}

static void a_forked_child_is_refused_and_the_parent_continues(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *lent = rig_next(loader);
        fork_and_misuse(loader, lent);
        rig_check(lent);
        mr_batch_release(lent);
        expect_the_rest(loader, 8);
        mr_loader_destroy(loader);
    }
}

static void a_child_forked_while_the_lock_is_held_does_not_hang(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *lent = rig_next(loader);
        pthread_mutex_lock(&loader->host->lock); /* as the supervisor may hold it at any moment */
        fork_and_misuse(loader, lent);
        pthread_mutex_unlock(&loader->host->lock);
        mr_batch_release(lent);
        expect_the_rest(loader, 8);
        mr_loader_destroy(loader);
    }
}

static void a_child_that_exits_takes_no_worker_along(void **state)
{
    rig_needs_fork();
    mr_loader_options options = rig_options_of(&rig_modes[2]);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader *loader = rig_loader(*state, &options);
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    expect_the_rest(loader, 0);
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    assert_int_equal(stats.n_deaths, 0);
    assert_int_equal(stats.num_workers, 2);
    mr_loader_destroy(loader);
}

static void pass_turn(int fd)
{
    assert_int_equal(write(fd, "x", 1), 1);
}

static bool await_turn(int fd)
{
    char turn;
    return read(fd, &turn, 1) == 1;
}

/* In the child: the bytes can be read while the batch is lent, and are returned with it. */
static int read_batch(const uint8_t *bytes, const int64_t *index, int from_parent, int to_parent)
{
    CHECK(await_turn(from_parent)); /* the loader is destroyed */
    for (unsigned i = 0; i < RIG_BYTES; i++)
        CHECK(bytes[i] == rig_byte(index[0], i));
    CHECK(write(to_parent, "x", 1) == 1);
    CHECK(await_turn(from_parent)); /* the batch is released */
    for (unsigned i = 0; i < RIG_BYTES; i++)
        CHECK(bytes[i] == 0);
    return 0;
}

static void a_child_reads_a_lent_batch_until_it_is_released(void **state)
{
    int to_child[2], to_parent[2], status;
    if (mr_test_copies())
        skip(); /* batches are in a device's memory */
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *lent = rig_next(loader);
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(to_parent), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        close(to_child[1]);
        _exit(read_batch(mr_test_data(lent, "image"), mr_test_data(lent, "index"), to_child[0],
                         to_parent[1]));
    }
    close(to_parent[1]);
    mr_loader_destroy(loader);
    pass_turn(to_child[1]);
    await_turn(to_parent[0]);
    mr_batch_release(lent);
    pass_turn(to_child[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(to_child[0]);
    close(to_child[1]);
    close(to_parent[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_forked_child_is_refused_and_the_parent_continues),
        RIG_TEST(a_child_forked_while_the_lock_is_held_does_not_hang),
        RIG_TEST(a_child_that_exits_takes_no_worker_along),
        RIG_TEST(a_child_reads_a_lent_batch_until_it_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
