/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marks that our own rows of bench/peers print for the runner, as adapter.py does for the
 * others.
 */
#ifndef BENCH_PEERS_MARKS_H
#define BENCH_PEERS_MARKS_H

#include <stdbool.h>
#include <stddef.h>

/* CLOCK_MONOTONIC in seconds, which the runner's own clock is too. */
double mr_moments_now(void);

/* Print the mark and wait for the runner's answer. False if the runner is gone. */
bool mr_moments_say(const char *name);

/* Has the runner written a line, or gone? */
bool mr_moments_is_called(void);

/* "gaps": [...] of n seconds, without a comma around it. */
void mr_moments_print_gaps(const double *gaps, size_t n);

#endif
