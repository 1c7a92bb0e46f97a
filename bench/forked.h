/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forked processes that share a list of items through one counter and nothing else: no loader can
 * be faster.
 */
#ifndef BENCH_FORKED_H
#define BENCH_FORKED_H

#include "base/error.h"

/*
 * The work of one process. begin and end run outside the measured time; run returns whether the
 * item's result was right.
 */
struct mr_forked_job {
    void *(*begin)(const void *user); /* returns NULL if the process cannot work */
    bool (*run)(void *state, const void *user, uint64_t item);
    const void *user;
};

/*
 * Run items 0 .. n_items - 1 in n_processes. seconds_out: from when all processes are ready until
 * the last has finished. n_wrong_out: items whose result was wrong.
 */
mr_status mr_forked_run(const struct mr_forked_job *job, uint32_t n_processes, uint64_t n_items,
                        double *seconds_out, uint64_t *n_wrong_out, mr_error *error);

#endif
