/* SPDX-License-Identifier: Apache-2.0 */
/* How launches end: failing ranks, signals, killed launchers; and that no process is left. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/dist/launch/launch_rig.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

/* Time that a launch takes beside what is measured, on a busy machine. */
enum { SLACK_MS = 4000 };

/* Waits for a trap: a signal interrupts `wait`, but not `sleep`. */
#define WAIT "sleep 60 & wait"

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        n++;
    return n;
}

static void await_ready(const struct mr_launched *l, uint32_t n)
{
    char line[24];
    for (uint32_t r = 0; r < n; r++) {
        snprintf(line, sizeof line, "%u: ready\n", r);
        mr_launched_expect(l, false, line);
    }
}

/* ---- failing ranks ---- */

static void assert_first_failure(struct mr_launched *l, int rank, int exit_status, const char *how,
                                 const char *rest)
{
    char words[200];
    mr_launched_wait(l);
    assert_int_equal(l->status, MR_OK);
    assert_int_equal(l->end, exit_status);
    assert_int_equal(l->result.exit_status, exit_status);
    assert_int_equal(l->result.rank, rank);
    snprintf(words, sizeof words, "millrace: error: rank %d (process %d) %s%s\n", rank,
             (int)l->result.pid, how, rest);
    assert_words(l->err, words);
    if (l->took_ms > 1000 + SLACK_MS)
        fail_msg("the launch took %u ms", l->took_ms);
}

static void failing_rank_ends_the_others(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 4, "[ $RANK = 2 ] && exit 3; sleep 60");
    assert_first_failure(&l, 2, 3, "exited with status 3", "; the other ranks were ended");
    mr_launched_free(&l);
    mr_launched_script(&l, 4, "[ $RANK = 2 ] && kill -SEGV $$; sleep 60");
    assert_first_failure(&l, 2, 139, "was killed by SIGSEGV", "; the other ranks were ended");
    mr_launched_free(&l);
    mr_launched_script(&l, 1, "kill -40 $$");
    assert_first_failure(&l, 0, 168, "was killed by signal 40", "");
    mr_launched_free(&l);
}

/* Rank 2, then rank 0, while the monitor is stopped and sees both at once. */
static void rank_that_failed_first_is_named(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(
        &l, 3,
        "[ $RANK = 2 ] && sleep 0.2 && kill -STOP $PPID && sleep 0.1 && exit 9; "
        "[ $RANK = 0 ] && sleep 0.7 && exit 8; sleep 1.2; kill -CONT $PPID; sleep 60");
    mr_launched_wait(&l);
    assert_int_equal(l.end, 9);
    assert_int_equal(l.result.rank, 2);
    assert_words(l.err, "exited with status 9; the other ranks were ended\n");
    assert_int_equal(count(l.err, "millrace: error: "), 1);
    mr_launched_free(&l);
}

static void ranks_that_ignore_sigterm_are_killed_within_a_second(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 3, "trap '' TERM; [ $RANK = 1 ] && exit 4; sleep 60 & sleep 60");
    assert_first_failure(&l, 1, 4, "exited with status 4", "; the other ranks were ended");
    mr_launched_free(&l);
}

static void stopped_rank_is_ended(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 2,
                       "trap 'echo woken; exit 1' TERM; [ $RANK = 0 ] && sleep 0.3 && exit 4; kill "
                       "-STOP $$; " WAIT);
    assert_first_failure(&l, 0, 4, "exited with status 4", "; the other ranks were ended");
    assert_words(l.out, "1: woken\n");
    mr_launched_free(&l);
}

static void ended_ranks_have_the_grace_time(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "trap 'sleep 1; echo saved; exit 0' TERM; "
                                         "[ $RANK = 0 ] && sleep 0.2 && exit 4; " WAIT};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 2;
    c.options.grace_ms = 20000;
    mr_launched_case(&l, &c);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 4);
    assert_words(l.out, "1: saved\n");
    assert_true(l.took_ms < 15000);
    mr_launched_free(&l);
}

/* ---- signals ---- */

static void signals_are_passed_on(void **state)
{
    static const struct {
        int number;
        const char *name;
    } signals[] = {
        {SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct mr_launched l;
        char script[200], line[32];
        snprintf(script, sizeof script, "trap 'echo got %s; exit 0' %s; echo ready; " WAIT,
                 signals[i].name, signals[i].name);
        mr_launched_script(&l, 3, script);
        await_ready(&l, 3);
        kill(l.pid, signals[i].number);
        mr_launched_wait(&l);
        assert_int_equal(l.end, 0);
        for (int r = 0; r < 3; r++) {
            snprintf(line, sizeof line, "%d: got %s\n", r, signals[i].name);
            assert_int_equal(count(l.out, line), 1);
        }
        mr_launched_free(&l);
    }
}

static void rank_killed_by_a_passed_signal_gives_the_status(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 2, "echo ready; " WAIT);
    await_ready(&l, 2);
    kill(l.pid, SIGTERM);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 128 + SIGTERM);
    assert_words(l.err, "was killed by SIGTERM");
    mr_launched_free(&l);
}

static void second_request_kills(void **state)
{
    static const int signals[][2] = {
        {SIGINT, SIGINT}, {SIGTERM, SIGTERM}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}};
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct mr_launched l;
        mr_launched_script(&l, 2,
                           "trap 'echo no' INT TERM; echo ready; while true; do sleep 0.05; done");
        await_ready(&l, 2);
        kill(l.pid, signals[i][0]);
        mr_launched_expect(&l, false, "0: no\n");
        mr_launched_expect(&l, false, "1: no\n");
        assert_int_equal(waitpid(l.pid, NULL, WNOHANG), 0);
        mr_test_sleep_ms(300); /* a signal within a moment of the first is not a second request */
        unsigned long long began_ms = mr_launched_now_ms();
        kill(l.pid, signals[i][1]);
        mr_launched_wait(&l);
        assert_true(mr_launched_now_ms() - began_ms < 1000 + SLACK_MS);
        assert_int_equal(l.result.exit_status,
                         128 + SIGKILL); /* of the ranks, not of the launcher */
        mr_launched_free(&l);
    }
}

/*
 * As timeout(1) does. If this process could not send the second signal soon enough, it tries again.
 */
static void signal_that_arrives_twice_at_once_counts_once(void **state)
{
    int end = -1;
    (void)state;
    for (int i = 0; i < 5 && end != 0; i++) {
        struct mr_launched l;
        mr_launched_script(&l, 1,
                           "trap 'n=1$n; echo got; [ $n = 11 ] && exit 0' TERM; echo ready; "
                           "while true; do sleep 0.01; done");
        await_ready(&l, 1);
        kill(l.pid, SIGTERM);
        mr_launched_expect(&l, false, "0: got\n"); /* so that the kernel does not merge the two */
        kill(l.pid, SIGTERM);
        mr_launched_wait(&l);
        end = l.end;
        mr_launched_free(&l);
    }
    assert_int_equal(end, 0);
}

static mr_status launch_under_nohup(const void *arg, mr_launch_result *result_out, mr_error *error)
{
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    return mr_launched_run_case(arg, result_out, error);
}

static void ignored_signals_stay_ignored(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "echo ready; sleep 0.3; echo end"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 2;
    mr_launched_start(&l, launch_under_nohup, &c, -1);
    await_ready(&l, 2);
    kill(l.pid, SIGHUP);
    for (int i = 0; i < 3; i++) { /* if the signal were counted, the second SIGINT would kill */
        kill(l.pid, SIGINT);
        mr_test_sleep_ms(20);
    }
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    assert_int_equal(count(l.out, "end\n"), 2);
    mr_launched_free(&l);
}

/* With a controlling terminal, whose foreground group is the launcher's. */
static mr_status launch_on_terminal(const void *arg, mr_launch_result *result_out, mr_error *error)
{
    setsid();
    int fd = open(getenv("MR_TEST_TERMINAL"), O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) != 0 || tcsetpgrp(fd, getpgrp()) != 0 || dup2(fd, 0) < 0)
        return MR_ERR_STATE;
    return mr_launched_run_case(arg, result_out, error);
}

static void terminal_interrupt_arrives_once(void **state)
{
    struct mr_launch_case c = {
        .options = MR_LAUNCH_OPTIONS_INIT,
        .script = "n=0; trap 'n=$((n+1)); echo hit' INT; read x; echo ready; "
                  "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.1; done; echo n=$n x=$x."};
    struct mr_launched l;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    (void)state;
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
        print_message("no pseudoterminal: %s\n", strerror(errno));
        skip();
    }
    setenv("MR_TEST_TERMINAL", ptsname(terminal), 1);
    c.options.nproc = 2;
    mr_launched_start(&l, launch_on_terminal, &c, -1);
    /* the terminal is not a rank's stdin: reading from it would have stopped rank 0 */
    await_ready(&l, 2);
    assert_int_equal(write(terminal, "\003", 1), 1);
    mr_launched_wait(&l);
    assert_words(l.out, "0: n=1 x=.\n");
    assert_words(l.out, "1: n=1 x=.\n");
    close(terminal);
    mr_launched_free(&l);
}

/* ---- nothing is left ---- */

/* Ranks with children in their group, in a new session, and in another launch. */
static void no_process_survives_20_killed_launchers(void **state)
{
    static const char script[] = "trap '' TERM HUP INT; sleep 60 & setsid sleep 60 & "
                                 "(setsid sh -c 'sleep 60 & sleep 60' &) ; sleep 60 & wait";
    struct timespec now;
    (void)state;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned seed = (unsigned)now.tv_nsec;
    print_message("seed %u\n", seed);
    for (int i = 0; i < 20; i++) {
        struct mr_launched l;
        mr_launched_script(&l, 4, script);
        seed = seed * 1103515245u + 12345u;
        usleep(seed / 65536 % 30000);
        kill(l.pid, SIGKILL);
        mr_launched_wait(&l); /* fails while a process is left */
        assert_int_equal(l.end, 128 + SIGKILL);
        mr_launched_free(&l);
    }
}

static void processes_left_by_a_successful_rank_are_ended(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 2, "trap '' TERM; sleep 60 & setsid sleep 60 & echo done");
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    assert_int_equal(count(l.out, "done\n"), 2);
    assert_true(l.took_ms < 1000 + SLACK_MS);
    mr_launched_free(&l);
}

static void processes_left_by_a_successful_rank_can_finish_their_lines(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "(sleep 0.1; echo late) & echo early"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 2;
    c.options.grace_ms = 20000;
    mr_launched_case(&l, &c);
    mr_launched_wait(&l);
    assert_int_equal(count(l.out, "early\n"), 2);
    assert_int_equal(count(l.out, "late\n"), 2);
    assert_true(l.took_ms < 15000);
    mr_launched_free(&l);
}

/* This process holds the write end of a rank's pipe, and it is not a descendant of the rank. */
static void foreign_holder_of_a_pipe_does_not_delay_the_end(void **state)
{
    struct mr_launched l;
    char text[64] = "", path[64];
    int pid = 0;
    (void)state;
    mr_launched_script(&l, 1, "trap 'echo end; exit 0' USR1; echo ready $$; " WAIT);
    mr_launched_expect(&l, false, "0: ready ");
    assert_true(pread(l.out_fd, text, sizeof text - 1, 0) > 0);
    assert_int_equal(sscanf(text, "0: ready %d", &pid), 1);
    snprintf(path, sizeof path, "/proc/%d/fd/1", pid);
    int held = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(held >= 0);
    kill(l.pid, SIGUSR1);
    mr_launched_wait(&l);
    close(held);
    assert_int_equal(l.end, 0);
    assert_words(l.out, "0: end\n");
    mr_launched_free(&l);
}

static void ranks_die_with_their_monitor(void **state)
{
    struct mr_launched l;
    (void)state;
    mr_launched_script(&l, 2, "[ $RANK = 0 ] && sleep 0.1 && kill -KILL $PPID; exec sleep 60");
    mr_launched_wait(&l);
    assert_int_equal(l.status, MR_ERR_IO);
    assert_words(l.error.text, "monitor");
    assert_words(l.error.text, "was killed by signal 9");
    mr_launched_free(&l);
}

/* ---- callers and outputs of all kinds ---- */

static mr_status launch_without_streams(const void *arg, mr_launch_result *result_out,
                                        mr_error *error)
{
    for (int i = 0; i < 3; i++)
        close(i);
    mr_status status = mr_launched_run_case(arg, result_out, error);
    return fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0 ? status
                                                                                   : MR_ERR_STATE;
}

static void caller_can_have_closed_streams(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "read x; echo a; echo b >&2 && exit 6"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 2;
    mr_launched_start(&l, launch_without_streams, &c, -1);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 6);
    mr_launched_free(&l);
}

static mr_status launch_with_few_descriptors(const void *arg, mr_launch_result *result_out,
                                             mr_error *error)
{
    const struct rlimit limit = {32, 32};
    setrlimit(RLIMIT_NOFILE, &limit);
    return mr_launched_run_case(arg, result_out, error);
}

static void rank_that_cannot_be_started_ends_the_others(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT, .script = "sleep 60"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 30;
    mr_launched_start(&l, launch_with_few_descriptors, &c, -1);
    mr_launched_wait(&l);
    assert_int_equal(l.status, MR_ERR_IO);
    assert_int_equal(l.error.os_error, EMFILE);
    assert_words(l.error.text, "cannot start rank ");
    mr_launched_free(&l);
}

static mr_status launch_ignoring_children(const void *arg, mr_launch_result *result_out,
                                          mr_error *error)
{
    signal(SIGCHLD, SIG_IGN);
    return mr_launched_run_case(arg, result_out, error);
}

static void caller_can_ignore_sigchld(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT, .script = "exit 6"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 1;
    mr_launched_start(&l, launch_ignoring_children, &c, -1);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 6);
    mr_launched_free(&l);
}

static int output_pipe[2];

static mr_status launch_into_pipe(const void *arg, mr_launch_result *result_out, mr_error *error)
{
    close(output_pipe[0]);
    dup2(output_pipe[1], 1);
    close(output_pipe[1]);
    return mr_launched_run_case(arg, result_out, error);
}

static void ranks_notice_that_stdout_is_closed(void **state)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT,
                               .script = "while true; do echo x; done"};
    struct mr_launched l;
    (void)state;
    c.options.nproc = 1;
    assert_int_equal(pipe2(output_pipe, O_CLOEXEC), 0);
    mr_launched_start(&l, launch_into_pipe, &c, -1);
    close(output_pipe[0]);
    close(output_pipe[1]);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 128 + SIGPIPE);
    mr_launched_free(&l);
}

/* Stdout is not read: a failing rank is still noticed, and the other ranks are ended. */
static void full_stdout_does_not_delay_the_end(void **state)
{
    struct mr_launch_case c = {
        .options = MR_LAUNCH_OPTIONS_INIT,
        .script = "echo pid $$ >&2; [ $RANK = 1 ] && sleep 0.3 && exit 5; exec yes"};
    struct mr_launched l;
    char bytes[4096];
    int pid = 0;
    (void)state;
    c.options.nproc = 2;
    assert_int_equal(pipe2(output_pipe, O_CLOEXEC), 0);
    mr_launched_start(&l, launch_into_pipe, &c, -1);
    close(output_pipe[1]);
    mr_launched_expect(&l, true, "0: pid ");
    mr_launched_expect(&l, true, "1: pid ");
    char *text = calloc(1, sizeof bytes);
    assert_true(pread(l.err_fd, text, sizeof bytes - 1, 0) > 0);
    assert_int_equal(sscanf(strstr(text, "0: pid "), "0: pid %d", &pid), 1);
    free(text);
    for (int waited_ms = 0; waited_ms < 5000 && kill(pid, 0) == 0; waited_ms += 10)
        mr_test_sleep_ms(10);
    assert_int_equal(kill(pid, 0), -1);
    while (read(output_pipe[0], bytes, sizeof bytes) > 0)
        continue;
    close(output_pipe[0]);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 5);
    mr_launched_free(&l);
}

/*
 * The monitor may have fewer files than it has open. poll() then refuses them all, and the monitor
 * polls each one alone.
 */
static void lines_arrive_even_if_poll_fails(void **state)
{
    static const struct rlimit few = {4, 4};
    struct mr_launched l;
    char text[64] = "";
    int monitor = 0;
    (void)state;
    mr_launched_script(
        &l, 1, "trap 'seq 20000; exit 0' USR1; echo ready $PPID; while true; do sleep 0.05; done");
    mr_launched_expect(&l, false, "0: ready ");
    assert_true(pread(l.out_fd, text, sizeof text - 1, 0) > 0);
    assert_int_equal(sscanf(text, "0: ready %d", &monitor), 1);
    assert_int_equal(prlimit(monitor, RLIMIT_NOFILE, &few, NULL), 0);
    kill(l.pid, SIGUSR1);
    mr_launched_wait(&l);
    assert_int_equal(l.end, 0);
    assert_int_equal(count(l.out, "\n"), 20001);
    assert_words(l.out, "0: 20000\n");
    mr_launched_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_rank_ends_the_others),
        cmocka_unit_test(rank_that_failed_first_is_named),
        cmocka_unit_test(ranks_that_ignore_sigterm_are_killed_within_a_second),
        cmocka_unit_test(stopped_rank_is_ended),
        cmocka_unit_test(ended_ranks_have_the_grace_time),
        cmocka_unit_test(signals_are_passed_on),
        cmocka_unit_test(rank_killed_by_a_passed_signal_gives_the_status),
        cmocka_unit_test(second_request_kills),
        cmocka_unit_test(signal_that_arrives_twice_at_once_counts_once),
        cmocka_unit_test(ignored_signals_stay_ignored),
        cmocka_unit_test(terminal_interrupt_arrives_once),
        cmocka_unit_test(no_process_survives_20_killed_launchers),
        cmocka_unit_test(processes_left_by_a_successful_rank_are_ended),
        cmocka_unit_test(processes_left_by_a_successful_rank_can_finish_their_lines),
        cmocka_unit_test(foreign_holder_of_a_pipe_does_not_delay_the_end),
        cmocka_unit_test(ranks_die_with_their_monitor),
        cmocka_unit_test(caller_can_have_closed_streams),
        cmocka_unit_test(rank_that_cannot_be_started_ends_the_others),
        cmocka_unit_test(caller_can_ignore_sigchld),
        cmocka_unit_test(ranks_notice_that_stdout_is_closed),
        cmocka_unit_test(full_stdout_does_not_delay_the_end),
        cmocka_unit_test(lines_arrive_even_if_poll_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
