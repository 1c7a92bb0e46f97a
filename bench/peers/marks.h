/* SPDX-License-Identifier: Apache-2.0 */
/* The marks that our own rows of bench/peers print for the runner, as adapter.py does for the others. */
#ifndef BENCH_PEERS_MARKS_H
#define BENCH_PEERS_MARKS_H

#include <stdbool.h>
#include <stddef.h>

/* CLOCK_MONOTONIC in seconds, which the runner's own clock is too. */
double mr_marks_now(void);

/* Say that this moment has come, and wait until the runner has looked. False when the runner is gone. */
bool mr_marks_say(const char *name);

/* Whether the runner has said something since, or is gone. */
bool mr_marks_is_called(void);

/* "gaps": [...] of n seconds, without a comma around it. */
void mr_marks_print_gaps(const double *gaps, size_t n);

#endif
