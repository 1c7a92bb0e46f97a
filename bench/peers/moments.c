/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints lines of JSON on standard output. The runner answers every mark with a line on standard
 * input; no answer means that it has died.
 */
#include "bench/peers/moments.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

double mr_moments_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

bool mr_moments_say(const char *name)
{
    char answer[16];
    printf("{\"mark\": \"%s\", \"t\": %.6f}\n", name, mr_moments_now());
    return fflush(stdout) == 0 && fgets(answer, sizeof answer, stdin) != NULL;
}

bool mr_moments_is_called(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) != 0;
}

void mr_moments_print_gaps(const double *gaps, size_t n)
{
    printf("\"gaps\": [");
    for (size_t i = 0; i < n; i++)
        printf("%s%.6f", i ? ", " : "", gaps[i]);
    printf("]");
}
