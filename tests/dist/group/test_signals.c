/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals on which all ranks agree. Signals belong to a process, so ranks are processes here, and
 * the only collective needed is a double over shared memory. Each test runs in children, because
 * signals are watched once per process.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <millrace/run.h>

enum { MAX_RANKS = 4, STEPS = 40, MAX_TOLD = 16 };

/* In shared memory of all ranks. */
struct shared {
    pthread_barrier_t barrier;
    int32_t values[MAX_RANKS];
    _Atomic uint32_t n_ready;
    struct {
        int step[MAX_TOLD];
        int signal[MAX_TOLD];
        int n;
    } reported[MAX_RANKS]; /* the signal reported to each rank, by step */
};

/* The double's group. */
struct mr_group {
    uint32_t rank;
    uint32_t n_ranks;
    struct shared *shared;
    int raise_within; /* a signal that arrives during the collective; 0: none */
    int n_failures;   /* number of calls that will fail */
};

/* Declared as in dist/group/collectives.h, for this double's group. */
mr_status mr_collectives_all_reduce(struct mr_group *group, void *buffer, uint64_t count,
                                    mr_dtype dtype, mr_reduction op);

mr_status mr_collectives_all_reduce(struct mr_group *group, void *buffer, uint64_t count,
                                    mr_dtype dtype, mr_reduction op)
{
    int32_t *value = buffer;
    if (count != 1 || dtype != MR_I32 || op != MR_MAX)
        abort();
    if (group->raise_within)
        raise(group->raise_within);
    if (group->n_failures > 0) {
        group->n_failures--;
        *value = 77; /* undefined by the interface */
        return MR_ERR_TIMEOUT;
    }
    if (!group->shared)
        return MR_OK;
    group->shared->values[group->rank] = *value;
    pthread_barrier_wait(&group->shared->barrier);
    for (uint32_t r = 0; r < group->n_ranks; r++)
        if (group->shared->values[r] > *value)
            *value = group->shared->values[r];
    pthread_barrier_wait(&group->shared->barrier);
    return MR_OK;
}

static int check(bool holds, int line, const char *text)
{
    if (!holds)
        fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, line, text);
    return !holds;
}
#define CHECK(condition) failed |= check(condition, __LINE__, #condition)

static pid_t start(int (*f)(void *arg), void *arg)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(30);
    _exit(f(arg));
}

static int await(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

static void run_in_child(int (*f)(void *arg))
{
    assert_int_equal(await(start(f, NULL)), 0);
}

static int agree(mr_group *group)
{
    int signal = -1;
    if (mr_signals_agree(group, &signal) != MR_OK)
        fprintf(stderr, "mr_signals_agree failed\n");
    return signal;
}

static int see_own(void *arg)
{
    (void)arg;
    int failed = 0;
    mr_error error;
    CHECK(agree(NULL) == 0);
    CHECK(mr_signals_watch(&error) == MR_OK);
    CHECK(mr_signals_watch(&error) == MR_OK);
    CHECK(agree(NULL) == 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    CHECK(agree(NULL) == SIGUSR1);
    CHECK(agree(NULL) == 0);
    raise(SIGUSR1);
    raise(SIGTERM);
    CHECK(agree(NULL) == SIGTERM);
    CHECK(agree(NULL) == SIGUSR1); /* kept for this call */
    CHECK(agree(NULL) == 0);
    CHECK(mr_signals_agree(NULL, NULL) == MR_ERR_INVALID);
    return failed;
}

static void a_signal_is_reported_once_and_sigterm_first(void **state)
{
    (void)state;
    run_in_child(see_own);
}

static volatile sig_atomic_t n_plain, n_with_info, sender;

static void plain_handler(int signal)
{
    n_plain += signal == SIGUSR1;
    errno = ENOTTY;
}

static void info_handler(int signal, siginfo_t *info, void *context)
{
    n_with_info += signal == SIGTERM && context;
    sender = info->si_pid;
}

static int chain_handlers(void *arg)
{
    (void)arg;
    int failed = 0;
    struct sigaction plain = {.sa_handler = plain_handler};
    struct sigaction with_info = {.sa_sigaction = info_handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &plain, NULL) == 0 && sigaction(SIGTERM, &with_info, NULL) == 0);
    CHECK(mr_signals_watch(NULL) == MR_OK);
    CHECK(mr_signals_watch(NULL) == MR_OK); /* the handler is not chained to itself */
    errno = EXDEV;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
    CHECK(errno == EXDEV);
    CHECK(n_plain == 1);
    CHECK(n_with_info == 1);
    CHECK(sender == getpid());
    CHECK(agree(NULL) == SIGTERM);
    CHECK(agree(NULL) == SIGUSR1);
    return failed;
}

static void previous_handlers_are_called_too(void **state)
{
    (void)state;
    run_in_child(chain_handlers);
}

static int ignore_before(void *arg)
{
    (void)arg;
    int failed = 0;
    signal(SIGUSR1, SIG_IGN);
    CHECK(mr_signals_watch(NULL) == MR_OK);
    raise(SIGUSR1);
    CHECK(agree(NULL) == SIGUSR1);
    return failed;
}

static void an_ignored_signal_is_watched_too(void **state)
{
    (void)state;
    run_in_child(ignore_before);
}

static int lose_nothing(void *arg)
{
    (void)arg;
    int failed = 0, signal = -1;
    mr_group group = {.n_ranks = 1};
    CHECK(mr_signals_watch(NULL) == MR_OK);
    group.raise_within = SIGTERM;
    CHECK(agree(&group) == 0); /* it arrived after this rank had read */
    group.raise_within = 0;
    CHECK(agree(&group) == SIGTERM);
    CHECK(agree(&group) == 0);
    raise(SIGTERM);
    group.raise_within = SIGTERM;
    CHECK(agree(&group) == SIGTERM);
    group.raise_within = 0;
    CHECK(agree(&group) == SIGTERM); /* a second signal */
    CHECK(agree(&group) == 0);
    raise(SIGUSR1);
    group.n_failures = 1;
    CHECK(mr_signals_agree(&group, &signal) == MR_ERR_TIMEOUT);
    CHECK(signal == -1);
    CHECK(agree(&group) == SIGUSR1);
    return failed;
}

static void no_signal_is_lost_around_a_call(void **state)
{
    (void)state;
    run_in_child(lose_nothing);
}

static int read_through_signals(void *arg)
{
    int *fds = arg, failed = 0;
    char byte = 0;
    CHECK(mr_signals_watch(NULL) == MR_OK);
    CHECK(write(fds[1], "r", 1) == 1);
    CHECK(read(fds[0], &byte, 1) == 1 && byte == 'x');
    CHECK(agree(NULL) == SIGUSR1);
    return failed;
}

static void a_read_is_restarted_after_a_signal(void **state)
{
    (void)state;
    int there[2], back[2];
    char byte;
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    int fds[2] = {there[0], back[1]};
    pid_t pid = start(read_through_signals, fds);
    assert_int_equal(read(back[0], &byte, 1), 1);
    /* by now it is very likely in read() */
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    kill(pid, SIGUSR1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(write(there[1], "x", 1), 1);
    assert_int_equal(await(pid), 0);
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back[i]);
    }
}

/* One training loop per rank. Signals come from the rank itself, or from outside at any time. */
struct job {
    mr_group group;
    int raises_at; /* step; -1: never */
    bool is_slow;
};

static int train(void *arg)
{
    struct job *job = arg;
    struct shared *shared = job->group.shared;
    uint32_t rank = job->group.rank;
    if (mr_signals_watch(NULL) != MR_OK)
        return 1;
    shared->n_ready++;
    for (int step = 0; step < STEPS; step++) {
        if (step == job->raises_at)
            raise(SIGUSR1);
        if (job->is_slow)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        int signal = agree(&job->group);
        if (signal == 0)
            continue;
        int n = shared->reported[rank].n++;
        if (n >= MAX_TOLD)
            return 1;
        shared->reported[rank].step[n] = step;
        shared->reported[rank].signal[n] = signal;
    }
    return 0;
}

static struct shared *share(uint32_t n_ranks)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    assert_int_equal(pthread_barrier_init(&shared->barrier, &attributes, n_ranks), 0);
    pthread_barrierattr_destroy(&attributes);
    return shared;
}

static void expect_agreement(const struct shared *shared)
{
    for (int r = 1; r < MAX_RANKS; r++) {
        assert_int_equal(shared->reported[r].n, shared->reported[0].n);
        assert_memory_equal(shared->reported[r].step, shared->reported[0].step,
                            sizeof shared->reported[0].step);
        assert_memory_equal(shared->reported[r].signal, shared->reported[0].signal,
                            sizeof shared->reported[0].signal);
    }
}

static void a_signal_to_any_rank_is_seen_by_all_at_the_same_step(void **state)
{
    (void)state;
    for (uint32_t target = 0; target < MAX_RANKS; target++) {
        struct shared *shared = share(MAX_RANKS);
        pid_t pids[MAX_RANKS];
        for (uint32_t r = 0; r < MAX_RANKS; r++) {
            struct job job = {.group = {.rank = r, .n_ranks = MAX_RANKS, .shared = shared},
                              .raises_at = r == target ? 3 + (int)target : -1};
            pids[r] = start(train, &job);
        }
        for (uint32_t r = 0; r < MAX_RANKS; r++)
            assert_int_equal(await(pids[r]), 0);
        expect_agreement(shared);
        assert_int_equal(shared->reported[0].n, 1);
        assert_int_equal(shared->reported[0].step[0], 3 + (int)target);
        assert_int_equal(shared->reported[0].signal[0], SIGUSR1);
        munmap(shared, sizeof *shared);
    }
}

static void signals_from_outside_are_seen_by_all_at_the_same_step(void **state)
{
    (void)state;
    struct shared *shared = share(MAX_RANKS);
    pid_t pids[MAX_RANKS];
    for (uint32_t r = 0; r < MAX_RANKS; r++) {
        struct job job = {.group = {.rank = r, .n_ranks = MAX_RANKS, .shared = shared},
                          .raises_at = -1,
                          .is_slow = true};
        pids[r] = start(train, &job);
    }
    while (shared->n_ready < MAX_RANKS)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    kill(pids[2], SIGTERM);
    kill(pids[1], SIGUSR1);
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    for (uint32_t r = 0; r < MAX_RANKS; r++)
        kill(pids[r], SIGUSR1);
    for (uint32_t r = 0; r < MAX_RANKS; r++)
        assert_int_equal(await(pids[r]), 0);
    expect_agreement(shared);
    assert_true(shared->reported[0].n >= 2);
    int n_terms = 0;
    for (int i = 0; i < shared->reported[0].n; i++)
        n_terms += shared->reported[0].signal[i] == SIGTERM;
    assert_int_equal(n_terms, 1);
    munmap(shared, sizeof *shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_is_reported_once_and_sigterm_first),
        cmocka_unit_test(previous_handlers_are_called_too),
        cmocka_unit_test(an_ignored_signal_is_watched_too),
        cmocka_unit_test(no_signal_is_lost_around_a_call),
        cmocka_unit_test(a_read_is_restarted_after_a_signal),
        cmocka_unit_test(a_signal_to_any_rank_is_seen_by_all_at_the_same_step),
        cmocka_unit_test(signals_from_outside_are_seen_by_all_at_the_same_step),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
