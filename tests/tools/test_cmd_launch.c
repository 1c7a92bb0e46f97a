/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `millrace launch`: its options, statuses and messages. tests/dist/launch/test_launch*.c test the
 * launching itself.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static void program_runs_as_ranks(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "launch", "--nproc", "2", "--", "sh", "-c",
                   "echo $RANK of $WORLD_SIZE, $0 $1", "--nproc", "7", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "0: 0 of 2, --nproc 7\n");
    assert_words(run.out, "1: 1 of 2, --nproc 7\n");
    assert_string_equal(run.err, "");
    mr_run_command(&run, "launch", "--nproc", "1", "--no-prefix", "sh", "-c", "echo $0", "--nproc",
                   NULL);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "--nproc\n");
    mr_run_free(&run);
}

static void options_reach_the_ranks(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "launch", "--nproc=2", "--nnodes=2", "--node-rank=1",
                   "--rendezvous=node0:29500", "--log-dir=logs", "--", "sh", "-c",
                   "echo $RANK $GROUP_RANK $MASTER_ADDR:$MASTER_PORT", NULL);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "");
    char *log = mr_run_read_file("logs/rank-3.log", NULL);
    assert_string_equal(log, "3 1 node0:29500\n");
    free(log);
    mr_run_free(&run);
}

static void exit_status_is_that_of_the_first_that_failed(void **state)
{
    static const struct {
        const char *script;
        int status;
        const char *words;
    } cases[] = {
        {"[ $RANK = 1 ] && exit 3; sleep 60", 3,
         " exited with status 3; the other ranks were ended\n"},
        {"[ $RANK = 1 ] && kill -SEGV $$; sleep 60", 139,
         " was killed by SIGSEGV; the other ranks were ended\n"},
    };
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_run_command(&run, "launch", "--nproc", "3", "--", "sh", "-c", cases[i].script, NULL);
        assert_int_equal(run.status, cases[i].status);
        assert_words(run.err, "millrace launch: rank 1 (process ");
        assert_words(run.err, cases[i].words);
    }
    mr_run_command(&run, "launch", "--nproc", "2", "--", "./not-there", NULL);
    assert_int_equal(run.status, 127);
    assert_words(run.err, "cannot run './not-there': No such file or directory");
    mr_run_write_file("no-program", "x", 1);
    mr_run_command(&run, "launch", "--nproc", "2", "--", "./no-program", NULL);
    assert_int_equal(run.status, 126);
    assert_words(run.err, "cannot run './no-program': Permission denied");
    mr_run_command(&run, "launch", "--nproc", "2", "--log-dir", "no-program", "--", "true", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "no-program/rank-0.log");
    mr_run_free(&run);
}

static void signal_is_passed_on(void **state)
{
    const char *const args[] = {
        "launch",
        "--nproc",
        "2",
        "--",
        "sh",
        "-c",
        "trap 'echo saved; exit 0' TERM; touch ready.$RANK; sleep 60 & while [ ! -e ready.0 ] "
        "|| [ ! -e ready.1 ]; do sleep 0.02; done; touch ready; wait",
        NULL};
    struct mr_run run = {0};

    (void)state;
    mr_run_command_signal_at(&run, ".stdout", SIGTERM, "ready", args);
    run.out = mr_run_read_file(".stdout", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "0: saved\n");
    assert_words(run.out, "1: saved\n");
    mr_run_free(&run);
}

static void help_says_what_signals_do(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "launch", "--help", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "passed on to the ranks");
    assert_words(run.out, "A second SIGINT or SIGTERM");
    mr_run_free(&run);
}

/*
 * SIGXFSZ must end a program that writes too large a file, although this command ignores the
 * signal.
 */
static void program_has_the_usual_signals(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "launch", "--nproc", "1", "--", "grep", "-E", "^Sig(Ign|Blk)",
                   "/proc/self/status", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "0: SigBlk:\t0000000000000000\n");
    assert_words(run.out, "0: SigIgn:\t0000000000000000\n");
    mr_run_free(&run);
}

static void wrong_calls_exit_2_and_name_what_is_wrong(void **state)
{
    static const struct {
        const char *args[10];
        const char *words;
    } cases[] = {
        {{"launch"}, "--nproc is missing"},
        {{"launch", "--", "true"}, "--nproc is missing"},
        {{"launch", "--nproc", "2"}, "the program is missing"},
        {{"launch", "--nproc", "2", "--"}, "the program is missing"},
        {{"launch", "--nproc", "0", "true"}, "--nproc: '0' is not a number from 1 to 256"},
        {{"launch", "--nproc", "gpus", "true"}, "--nproc: 'gpus'"},
        {{"launch", "--nproc", "1", "--nnodes", "2", "true"}, "--rendezvous is missing"},
        {{"launch", "--nproc", "1", "--node-rank", "1", "true"},
         "--node-rank 1 is not below --nnodes 1"},
        {{"launch", "--nproc", "1", "--rendezvous", "here", "true"}, "'here' is not HOST:PORT"},
        {{"launch", "--polish", "true"}, "--polish"},
        {{"launch", "--nproc", "1", ""}, "argv names no program"},
    };
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_run_command_to(&run, ".stdout", 0, cases[i].args);
        if (run.status != 2)
            fail_msg("case %zu exits with %d: %s", i, run.status, run.err);
        assert_words(run.err, cases[i].words);
    }
    mr_run_free(&run);
}

/* On a machine with GPUs there is a rank for each. */
static void gpu_means_one_rank_for_each(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "launch", "--nproc", "gpu", "--", "true", NULL);
    if (run.status != 0) {
        assert_int_equal(run.status, 1);
        assert_words(run.err, "millrace launch: --nproc gpu: ");
    }
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_runs_as_ranks),
        cmocka_unit_test(options_reach_the_ranks),
        cmocka_unit_test(exit_status_is_that_of_the_first_that_failed),
        cmocka_unit_test(signal_is_passed_on),
        cmocka_unit_test(help_says_what_signals_do),
        cmocka_unit_test(program_has_the_usual_signals),
        cmocka_unit_test(wrong_calls_exit_2_and_name_what_is_wrong),
        cmocka_unit_test(gpu_means_one_rank_for_each),
    };

    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
