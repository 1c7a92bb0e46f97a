/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends children of test programs. Children end with _exit(), so that no buffer is
 * written twice and no cleanup runs twice.
 */
#include "tests/support/processes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void mr_test_sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

int mr_test_in_child(int (*f)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(f());
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("a test's child");
        exit(1);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
