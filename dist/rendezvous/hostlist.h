/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's short forms: node lists "n[01-03,7],m5" and task counts "2(x3),1". */
#ifndef DIST_RENDEZVOUS_HOSTLIST_H
#define DIST_RENDEZVOUS_HOSTLIST_H

#include "base/error.h"

#define MR_HOSTLIST_HOST 256       /* bytes of a host name, including the zero */
#define MR_HOSTLIST_MAX (1u << 20) /* nodes in one list */

/*
 * The first host of a list; the first of "r[1-2]n[01-04],m5" is "r1n01". The rest of the list is
 * not read.
 *
 * host_out   MR_HOSTLIST_HOST bytes. MR_ERR_INVALID says what is wrong with the list, and where.
 */
mr_status mr_hostlist_first(const char *list, char *host_out, mr_error *error);

/* The number of tasks of node `index`, from 0, and the sum of all counts. "2(x3),1" is 2, 2, 2, 1.
 */
mr_status mr_hostlist_tasks(const char *counts, uint32_t index, uint32_t *tasks_out,
                            uint64_t *sum_out, mr_error *error);

#endif
