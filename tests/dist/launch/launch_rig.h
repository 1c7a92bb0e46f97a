/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launcher in a separate process, with its output and that of its ranks in memory. A failure here
 * ends the program.
 */
#ifndef TESTS_DIST_LAUNCH_LAUNCH_RIG_H
#define TESTS_DIST_LAUNCH_LAUNCH_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <millrace/launch.h>

struct mr_launched {
    pid_t pid;  /* the launcher's */
    int out_fd; /* files without names */
    int err_fd;
    int life_fd;    /* end of file once neither it nor any process that it started is left */
    int outcome_fd; /* receives the outcome */
    /* After mr_launched_wait(): */
    mr_status status;
    mr_launch_result result;
    mr_error error;
    int end; /* exit status of the launcher, 128 + signal */
    char *out;
    size_t out_len;
    char *err;
    unsigned took_ms;
    unsigned long long began_ms;
};

/*
 * The function of the launcher; its standard streams are already set. stdin_fd of launched_start:
 * -1 for /dev/null.
 */
typedef mr_status (*mr_launched_fn)(const void *arg, mr_launch_result *result_out, mr_error *error);

void mr_launched_start(struct mr_launched *launched, mr_launched_fn fn, const void *arg,
                       int stdin_fd);
/* The usual launcher: mr_launch() of /bin/sh -c script, or of a program without arguments. */
struct mr_launch_case {
    mr_launch_options options;
    const char *script;
    const char *program;
};
mr_status mr_launched_run_case(const void *launch_case, mr_launch_result *result_out,
                               mr_error *error);
/* launch_case is only read until this returns. */
void mr_launched_case(struct mr_launched *launched, const struct mr_launch_case *launch_case);
void mr_launched_script(struct mr_launched *launched, uint32_t nproc, const char *script);
/*
 * Wait for its end, for a minute at most. Fails unless all its processes are gone 5 s later, and
 * then shows what each remaining process waits for.
 */
void mr_launched_wait(struct mr_launched *launched);
void mr_launched_free(struct mr_launched *launched);
/* Wait until text is in stdout (or stderr), for 30 s at most. */
void mr_launched_expect(const struct mr_launched *launched, bool on_stderr, const char *text);
unsigned long long mr_launched_now_ms(void);

#endif
