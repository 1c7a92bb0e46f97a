/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that are killed, stopped or interrupted, that end the thread that created the loader, or
 * that reap every child. Each test runs a host as a child of this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/processes.h"

enum { N_SAMPLES = 90 };

static char *folder;

static mr_loader *make_loader(mr_start start)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.num_workers = 3;
    o.start = start;
    return mr_test_loader(mr_test_dataset(folder), "train:64", &o);
}

/* A training loop that never ends, and writes to a pipe once it is under way. */
static _Noreturn void train_forever(mr_start start, int ready)
{
    mr_loader *loader = make_loader(start);
    for (uint64_t epoch = 0;; epoch++) {
        struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
        if (e.status != MR_END)
            _exit(3);
        mr_test_epoch_free(&e);
        if (epoch == 0 && write(ready, "r", 1) != 1)
            _exit(4);
    }
}

/* Start this host in a new process group and wait until it trains. */
static pid_t start_host(mr_start start)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t host = fork();
    assert_true(host >= 0);
    if (host == 0) {
        /* otherwise it would continue after this program was killed */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        close(ends[0]);
        train_forever(start, ends[1]);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return host;
}

/*
 * Count the workers below this program. Those of a dead host become our children, because we are a
 * subreaper.
 */
static uint32_t count_below(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return mr_test_count_workers(getpid());
}

static void expect_no_workers_within_a_second(void)
{
    for (int i = 0; i < 2000 && count_below() > 0; i++)
        mr_test_sleep_ms(10);
    assert_int_equal(count_below(), 0);
}

/* Count the entries of a folder whose names contain a word; "": all entries. */
static int count_entries(const char *path, const char *word)
{
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.' && strstr(entry->d_name, word);
    if (dir)
        closedir(dir);
    return n;
}

static void a_killed_host_leaves_no_worker_and_no_file(void **state)
{
    (void)state;
    static const mr_start starts[] = {MR_START_EXEC, MR_START_FORK};
    char *temporary = mr_test_folder_create();
    setenv("TMPDIR", temporary, 1);
    for (size_t i = 0; i < 2; i++) {
        pid_t host = start_host(starts[i]);
        assert_int_equal(mr_test_await_workers(host, 3), 3);
        kill(host, SIGKILL);
        assert_int_equal(waitpid(host, NULL, 0), host);
        expect_no_workers_within_a_second();
    }
    unsetenv("TMPDIR");
    assert_int_equal(count_entries(temporary, ""), 0);
    assert_int_equal(count_entries("/dev/shm", "millrace"), 0);
}

static void a_stopped_and_killed_host_with_stopped_workers_leaves_nothing(void **state)
{
    (void)state;
    pid_t host = start_host(MR_START_EXEC);
    assert_int_equal(mr_test_await_workers(host, 3), 3);
    assert_int_equal(mr_test_signal_workers(host, SIGSTOP), 3);
    kill(host, SIGSTOP);
    mr_test_sleep_ms(50);
    kill(host, SIGKILL);
    assert_int_equal(waitpid(host, NULL, 0), host);
    expect_no_workers_within_a_second();
}

static void an_interrupt_to_the_group_ends_host_and_workers(void **state)
{
    (void)state;
    int status;
    pid_t host = start_host(MR_START_EXEC);
    kill(-host, SIGINT); /* as a terminal does on Ctrl-C */
    assert_int_equal(waitpid(host, &status, 0), host);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    expect_no_workers_within_a_second();
}

static void a_terminal_stop_leaves_the_workers_alone(void **state)
{
    (void)state;
    pid_t host = start_host(MR_START_EXEC);
    kill(-host, SIGTSTP); /* Ctrl-Z: the host stops, its workers only run out of slots */
    mr_test_sleep_ms(100);
    assert_int_equal(mr_test_await_workers(host, 3), 3);
    kill(-host, SIGCONT);
    mr_test_sleep_ms(100);
    assert_int_equal(waitpid(host, NULL, WNOHANG), 0);
    kill(host, SIGKILL);
    assert_int_equal(waitpid(host, NULL, 0), host);
    expect_no_workers_within_a_second();
}

static void *create_in_thread(void *start)
{
    return make_loader(*(mr_start *)start);
}

static int host_outlives_creating_thread(void)
{
    for (int start = MR_START_EXEC; start <= MR_START_THREAD; start++) {
        pthread_t thread;
        void *loader;
        mr_start kind = (mr_start)start;
        if (pthread_create(&thread, NULL, create_in_thread, &kind) != 0 ||
            pthread_join(thread, &loader) != 0)
            return 1;
        mr_test_sleep_ms(50);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
            if (e.status != MR_END || e.n_samples != N_SAMPLES)
                return 2;
            mr_test_epoch_free(&e);
        }
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        mr_loader_get_stats(loader, &stats);
        if (stats.n_deaths != 0)
            return 3;
        mr_loader_destroy(loader);
    }
    return 0;
}

static void the_creating_thread_may_end(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(host_outlives_creating_thread), 0);
}

static void *reap_everything(void *stop)
{
    while (!*(volatile bool *)stop)
        if (waitpid(-1, NULL, WNOHANG) <= 0)
            mr_test_sleep_ms(1);
    return NULL;
}

/* Run epochs while workers are killed now and then. */
static int train_under_fire(void)
{
    mr_loader *loader = make_loader(MR_START_EXEC);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        int64_t pids[8];
        if (mr_loader_worker_pids(loader, pids, 8) > 0)
            kill((pid_t)pids[0], SIGKILL);
        struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
        if (e.status != MR_END || e.n_valid != N_SAMPLES)
            return 2;
        mr_test_epoch_free(&e);
    }
    mr_loader_destroy(loader);
    return mr_test_count_workers(getpid()) == 0 ? 0 : 3;
}

static int host_reaps_everything(void)
{
    volatile bool stop = false;
    pthread_t thread;
    if (pthread_create(&thread, NULL, reap_everything, (void *)&stop) != 0)
        return 1;
    int rc = train_under_fire();
    stop = true;
    pthread_join(thread, NULL);
    return rc;
}

static int host_ignores_sigchld(void)
{
    signal(SIGCHLD, SIG_IGN);
    return train_under_fire();
}

static int host_waits_for_its_own_child(void)
{
    pid_t own = fork();
    if (own == 0) {
        mr_test_sleep_ms(200);
        _exit(42);
    }
    int rc = train_under_fire();
    int status;
    if (waitpid(own, &status, 0) != own || !WIFEXITED(status) || WEXITSTATUS(status) != 42)
        return 5;
    return rc;
}

static void a_host_that_reaps_everything_gets_its_batches(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(host_reaps_everything), 0);
}

static void a_host_that_ignores_sigchld_gets_its_batches(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(host_ignores_sigchld), 0);
}

static void a_host_that_waits_for_its_own_child_is_undisturbed(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(host_waits_for_its_own_child), 0);
}

static int set_up(void **state)
{
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER,
          1); /* orphans become our children, where count_below() finds them */
    folder = mr_test_folder_filled(3, N_SAMPLES / 3);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_host_leaves_no_worker_and_no_file),
        cmocka_unit_test(a_stopped_and_killed_host_with_stopped_workers_leaves_nothing),
        cmocka_unit_test(an_interrupt_to_the_group_ends_host_and_workers),
        cmocka_unit_test(a_terminal_stop_leaves_the_workers_alone),
        cmocka_unit_test(the_creating_thread_may_end),
        cmocka_unit_test(a_host_that_reaps_everything_gets_its_batches),
        cmocka_unit_test(a_host_that_ignores_sigchld_gets_its_batches),
        cmocka_unit_test(a_host_that_waits_for_its_own_child_is_undisturbed),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
