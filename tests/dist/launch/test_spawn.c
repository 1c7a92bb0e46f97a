/* SPDX-License-Identifier: Apache-2.0 */
/* mr_launch_spawn(): functions as ranks. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rank_note.h"
#include "dist/rendezvous/rendezvous.h"
#include "tests/dist/launch/launch_rig.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

/* A launcher that spawns fn n times. */
struct spawn_case {
    int (*fn)(void *arg, uint32_t local_rank);
    uint32_t n;
    void *arg;
};

static mr_status run_spawn(const void *arg, mr_launch_result *result_out, mr_error *error)
{
    const struct spawn_case *c = arg;
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    options.nproc = c->n;
    return mr_launch_spawn(&options, c->fn, c->arg, result_out, error);
}

static void spawn(struct mr_launched *l, const struct spawn_case *c)
{
    mr_launched_start(l, run_spawn, c, -1);
    mr_launched_wait(l);
}

static int print_identity(void *arg, uint32_t local_rank)
{
    printf("%s %u: %s of %s, %s %s %s\n", (const char *)arg, local_rank, getenv("RANK"),
           getenv("WORLD_SIZE"), getenv("LOCAL_RANK"), getenv("MASTER_ADDR"), getenv("OTHER"));
    setenv("MORE", "x", 1); /* a rank may change its environment */
    return strcmp(getenv("MORE"), "x") == 0 ? 0 : 1;
}

static void function_gets_its_rank_and_argument(void **state)
{
    struct mr_launched l;
    (void)state;
    setenv("OTHER", "kept", 1);
    spawn(&l, &(struct spawn_case){print_identity, 3, (char[]){"word"}});
    assert_int_equal(l.status, MR_OK);
    assert_int_equal(l.end, 0);
    assert_int_equal(l.result.rank, -1);
    assert_words(l.out, "0: word 0: 0 of 3, 0 127.0.0.1 kept\n");
    assert_words(l.out, "2: word 2: 2 of 3, 2 127.0.0.1 kept\n");
    mr_launched_free(&l);
}

/* 0: the port is bound and this socket listens. */
static int listen_at_master(bool reuses)
{
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(getenv("MASTER_PORT"))),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || (reuses && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0))
        return -1;
    bool good = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0;
    int failed = good ? 0 : errno;
    close(fd);
    return failed;
}

static int check_port(void *arg, uint32_t local_rank)
{
    (void)local_rank;
    (void)arg;
    return listen_at_master(false) == EADDRINUSE && listen_at_master(true) == 0 ? 0 : 1;
}

/* Otherwise the kernel may give it to another program before rank 0's store binds it. */
static void the_port_is_held_for_the_store(void **state)
{
    struct mr_launched l;
    (void)state;
    spawn(&l, &(struct spawn_case){check_port, 1, NULL});
    assert_int_equal(l.status, MR_OK);
    assert_int_equal(l.end, 0);
    mr_launched_free(&l);
}

static int return_7_from_rank_1(void *arg, uint32_t local_rank)
{
    (void)arg;
    if (local_rank == 1)
        return 7;
    mr_test_sleep_ms(60000);
    return 0;
}

static void return_value_is_the_exit_status(void **state)
{
    struct mr_launched l;
    (void)state;
    spawn(&l, &(struct spawn_case){return_7_from_rank_1, 3, NULL});
    assert_int_equal(l.end, 7);
    assert_int_equal(l.result.rank, 1);
    assert_words(l.err, "rank 1 (process ");
    assert_words(l.err, "exited with status 7; the other ranks were ended\n");
    assert_true(l.took_ms < 10000); /* rank 0 would sleep for a minute */
    mr_launched_free(&l);
}

static int kill_rank_0(void *arg, uint32_t local_rank)
{
    (void)arg;
    signal(SIGABRT, SIG_DFL);
    if (local_rank == 0)
        raise(SIGKILL);
    mr_test_sleep_ms(60000);
    return 0;
}

static void killed_rank_is_named(void **state)
{
    struct mr_launched l;
    (void)state;
    spawn(&l, &(struct spawn_case){kill_rank_0, 2, NULL});
    assert_int_equal(l.end, 128 + SIGKILL);
    assert_words(l.err, "rank 0 (process ");
    assert_words(l.err, "was killed by SIGKILL; the other ranks were ended\n");
    mr_launched_free(&l);
}

static void on_exit_of_rank(void)
{
    printf("handler ran\n");
}

static int leave_with_handler(void *arg, uint32_t local_rank)
{
    (void)local_rank;
    (void)arg;
    atexit(on_exit_of_rank);
    printf("unflushed ");
    return 0;
}

static mr_status spawn_with_text_in_stdio(const void *arg, mr_launch_result *result_out,
                                          mr_error *error)
{
    printf("before ");
    return run_spawn(arg, result_out, error);
}

static void exit_handlers_run_and_no_output_is_written_twice(void **state)
{
    struct spawn_case c = {leave_with_handler, 3, NULL};
    struct mr_launched l;
    (void)state;
    mr_launched_start(&l, spawn_with_text_in_stdio, &c, -1);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    assert_int_equal(count(l.out, "before "), 1);
    assert_int_equal(count(l.out, "unflushed handler ran\n"), 3);
    mr_launched_free(&l);
}

static int count_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int check_inheritance(void *arg, uint32_t local_rank)
{
    const int *n_before = arg;
    struct sigaction child;
    sigset_t mask;
    (void)local_rank;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&mask, i) != (i == SIGURG))
            return 3;
    if (sigaction(SIGCHLD, NULL, &child) != 0 || child.sa_handler != SIG_IGN)
        return 4;
    if (getpgrp() != getpid())
        return 5;
    /* the socket for its notes to the launcher */
    return count_descriptors() == *n_before + 1 ? 0 : 6;
}

static mr_status spawn_from_odd_caller(const void *arg, mr_launch_result *result_out,
                                       mr_error *error)
{
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    sigset_t set;
    int n = count_descriptors();
    options.nproc = 4;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGCHLD, SIG_IGN);
    (void)arg;
    mr_status status = mr_launch_spawn(&options, check_inheritance, &n, result_out, error);
    return count_descriptors() == n ? status : MR_ERR_STATE;
}

static void ranks_inherit_what_fork_gives_and_no_more(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_start(&l, spawn_from_odd_caller, NULL, -1);
    mr_launched_wait(&l);
    assert_int_equal(l.status, MR_OK);
    assert_int_equal(l.end, 0);
    mr_launched_free(&l);
}

static void *sleep_in_thread(void *arg)
{
    char byte;
    (void)!read(*(int *)arg, &byte, 1);
    return NULL;
}

static void process_with_a_second_thread_is_refused(void **state)
{
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = {.struct_size = sizeof result, .rank = 5};
    mr_error error;
    pthread_t thread;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_thread, &ends[0]), 0);
    options.nproc = 2;
    assert_int_equal(mr_launch_spawn(&options, return_7_from_rank_1, NULL, &result, &error),
                     MR_ERR_STATE);
    assert_words(error.text, "threads");
    assert_int_equal(result.rank, 5);
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
}

static void wrong_arguments_are_refused(void **state)
{
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    mr_error error;
    (void)state;
    assert_int_equal(mr_launch_spawn(NULL, print_identity, NULL, &result, &error), MR_ERR_INVALID);
    assert_int_equal(mr_launch_spawn(&options, print_identity, NULL, &result, &error),
                     MR_ERR_INVALID);
    assert_words(error.text, "nproc 0");
    options.nproc = 257;
    assert_int_equal(mr_launch_spawn(&options, print_identity, NULL, &result, &error),
                     MR_ERR_INVALID);
    options.nproc = 1;
    assert_int_equal(mr_launch_spawn(&options, NULL, NULL, &result, &error), MR_ERR_INVALID);
    assert_int_equal(mr_launch_spawn(&options, print_identity, NULL, NULL, &error), MR_ERR_INVALID);
    options.nnodes = 2;
    assert_int_equal(mr_launch_spawn(&options, print_identity, NULL, &result, &error),
                     MR_ERR_INVALID);
    options.struct_size = 3;
    assert_int_equal(mr_launch_spawn(&options, print_identity, NULL, &result, &error),
                     MR_ERR_INVALID);
}

/* Joins the group of all ranks; returns 9 if that fails. */
static int join_all(void)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    struct mr_rendezvous rendezvous;
    mr_error error;
    options.backend = "gloo";
    options.timeout_ms = 30000;
    if (mr_rendezvous_join(&options, &rendezvous, &error) != MR_OK)
        return 9;
    mr_rendezvous_leave(&rendezvous);
    return 0;
}

/* Rank 1 never joins. With arg the other ranks wait before it ends, otherwise after. */
static int join_but_rank_1(void *arg, uint32_t local_rank)
{
    bool is_first = (local_rank == 1) == (arg == NULL);
    mr_test_sleep_ms(is_first ? 0 : 200);
    return local_rank == 1 ? 0 : join_all();
}

static void rank_that_exits_with_0_without_joining_is_reported_at_once(void **state)
{
    static char waits_first[] = "x";
    void *const orders[] = {NULL, waits_first};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct spawn_case c = {join_but_rank_1, 3, orders[i]};
        struct mr_launched l;
        spawn(&l, &c);
        assert_int_equal(l.status, MR_OK);
        assert_int_equal(l.end, 1);
        assert_int_equal(l.result.rank, 1);
        assert_words(l.err, "exited with status 0 before it joined the group that rank ");
        assert_words(l.err, "; the other ranks were ended\n");
        if (l.took_ms > 10000)
            fail_msg("the launch took %u ms", l.took_ms);
        mr_launched_free(&l);
    }
}

/* Rank 1 joins after a signal; the other ranks ignore it. */
static int join_late(void *arg, uint32_t local_rank)
{
    sigset_t usr1;
    int number;
    (void)arg;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    if (local_rank == 1 && sigwait(&usr1, &number) != 0)
        return 8;
    return join_all();
}

static void rank_that_runs_without_joining_is_named_and_can_still_join(void **state)
{
    struct spawn_case c = {join_late, 3, NULL};
    struct mr_launched l;
    int process = 0;
    (void)state;
    mr_launched_start(&l, run_spawn, &c, -1);
    mr_launched_expect(&l, true, " has waited 10 s for it\n");
    kill(l.pid, SIGUSR1);
    mr_launched_wait(&l);
    assert_int_equal(l.status, MR_OK);
    assert_int_equal(l.end, 0);
    assert_int_equal(sscanf(l.err,
                            "millrace: warning: rank 1 (process %d) is running but has not joined",
                            &process),
                     1);
    assert_true(process > 0);
    assert_int_equal(count(l.err, "\n"), 1);
    assert_true(l.took_ms >= 10000);
    mr_launched_free(&l);
}

static int join_or_not(void *arg, uint32_t local_rank)
{
    const char *joining = arg;
    return joining[local_rank] == 'j' ? join_all() : 0;
}

/* Ranks 0 and 1 form a separate world; rank 2 is in none. */
static int join_a_world_of_two(void *arg, uint32_t local_rank)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    struct mr_rendezvous rendezvous;
    mr_error error;
    char init[64];
    (void)arg;
    if (local_rank == 2)
        return 0;
    snprintf(init, sizeof init, "tcp://127.0.0.1:%s", getenv("MASTER_PORT"));
    options.init = init;
    options.world_size = 2;
    options.rank = local_rank;
    options.backend = "gloo";
    options.timeout_ms = 30000;
    mr_test_sleep_ms(local_rank == 1 ? 300 : 0); /* rank 0 waits after rank 2 has ended */
    if (mr_rendezvous_join(&options, &rendezvous, &error) != MR_OK)
        return 9;
    mr_rendezvous_leave(&rendezvous);
    return 0;
}

static void ranks_that_need_not_join_are_not_reported(void **state)
{
    static const char *const joining[] = {"---", "jjj"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct spawn_case c = {i < 2 ? join_or_not : join_a_world_of_two, 3,
                               (void *)(uintptr_t)joining[i % 2]};
        struct mr_launched l;
        spawn(&l, &c);
        assert_int_equal(l.end, 0);
        assert_int_equal(l.result.rank, -1);
        assert_string_equal(l.err, "");
        mr_launched_free(&l);
    }
}

/*
 * Rank 1 acts like a wrapper that closes descriptors and whose child joins after the wrapper's end.
 * It shuts down its end of the socket, which the monitor sees as a close, and waits until the
 * monitor has seen it.
 */
static int join_below_a_wrapper(void *arg, uint32_t local_rank)
{
    char byte;
    int notes = -1;
    const char *text = getenv(MR_RANK_NOTE_VARIABLE);
    (void)arg;
    if (local_rank != 1)
        return join_all();
    if (!text || sscanf(text, "%d:", &notes) != 1 || shutdown(notes, SHUT_WR) != 0 ||
        recv(notes, &byte, 1, 0) != 0)
        return 8;
    close(notes);
    pid_t wrapper = getpid(), child = fork();
    if (child != 0)
        return child < 0 ? 7 : 0;
    while (getppid() == wrapper)
        mr_test_sleep_ms(10);
    mr_test_sleep_ms(1500); /* the other ranks wait, and rank 1 has exited with 0 */
    return join_all();
}

static void rank_that_cannot_write_notes_is_not_reported(void **state)
{
    struct spawn_case c = {join_below_a_wrapper, 3, NULL};
    struct mr_launched l;
    (void)state;
    spawn(&l, &c);
    assert_string_equal(l.err, "");
    assert_int_equal(l.end, 0);
    assert_int_equal(l.result.rank, -1);
    mr_launched_free(&l);
}

static int launch_below(void *arg, uint32_t local_rank)
{
    char *const argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, arg, NULL};
    mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
    mr_launch_result result = MR_LAUNCH_RESULT_INIT;
    (void)local_rank;
    options.nproc = 2;
    return mr_launch(&options, argv, &result, NULL) == MR_OK ? result.exit_status : 99;
}

static void rank_can_launch_and_nothing_outlives_the_first_launcher(void **state)
{
    struct spawn_case c = {launch_below, 2, (char[]){"echo below $RANK of $WORLD_SIZE"}};
    struct mr_launched l;
    (void)state;
    spawn(&l, &c);
    assert_int_equal(l.end, 0);
    assert_words(l.out, "1: 1: below 1 of 2\n");
    mr_launched_free(&l);

    c.arg = (char[]){"echo ready; setsid sleep 60 & sleep 60"};
    mr_launched_start(&l, run_spawn, &c, -1);
    mr_launched_expect(&l, false, "0: 1: ready\n");
    mr_launched_expect(&l, false, "1: 0: ready\n");
    kill(l.pid, SIGKILL);
    mr_launched_wait(&l);
    mr_launched_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(function_gets_its_rank_and_argument),
        cmocka_unit_test(the_port_is_held_for_the_store),
        cmocka_unit_test(return_value_is_the_exit_status),
        cmocka_unit_test(killed_rank_is_named),
        cmocka_unit_test(exit_handlers_run_and_no_output_is_written_twice),
        cmocka_unit_test(ranks_inherit_what_fork_gives_and_no_more),
        cmocka_unit_test(process_with_a_second_thread_is_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(rank_that_exits_with_0_without_joining_is_reported_at_once),
        cmocka_unit_test(rank_that_runs_without_joining_is_named_and_can_still_join),
        cmocka_unit_test(ranks_that_need_not_join_are_not_reported),
        cmocka_unit_test(rank_that_cannot_write_notes_is_not_reported),
        cmocka_unit_test(rank_can_launch_and_nothing_outlives_the_first_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
