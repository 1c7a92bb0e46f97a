/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain forked processes that share a list of items by one counter and nothing else: no loader can
 * be faster.
 */
#ifndef BENCH_FORKED_H
#define BENCH_FORKED_H

#include "base/error.h"

/*
 * One process's part. begin and end run outside the measured time; run returns whether the item
 * came out right.
 */
struct mr_forked_job {
    void *(*begin)(const void *user); /* NULL: the process cannot work */
    bool (*run)(void *state, const void *user, uint64_t item);
    const void *user;
};

/*
 * Run items 0 .. n_items - 1 in n_processes. seconds_out: from the moment at which all processes
 * are ready to the one at which the last has finished. n_wrong_out: items that were not right.
 */
mr_status mr_forked_run(const struct mr_forked_job *job, uint32_t n_processes, uint64_t n_items,
                        double *seconds_out, uint64_t *n_wrong_out, mr_error *error);

#endif
