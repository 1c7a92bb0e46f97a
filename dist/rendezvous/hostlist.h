/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's short forms: node lists "n[01-03,7],m5" and task counts "2(x3),1". */
#ifndef DIST_RENDEZVOUS_HOSTLIST_H
#define DIST_RENDEZVOUS_HOSTLIST_H

#include "base/error.h"

#define MR_HOSTLIST_HOST 256       /* bytes of a host name, with its zero */
#define MR_HOSTLIST_MAX (1u << 20) /* hosts or nodes in one list */

/*
 * The index-th host of a list; "r[1-2]n[01-04]" has eight, the last bracket counts fastest. The whole list is checked.
 *
 * host_out   MR_HOSTLIST_HOST bytes.
 * count_out  how many hosts the list has; may be NULL.
 * MR_ERR_INVALID says what is wrong with the list, or that it is too short.
 */
mr_status mr_hostlist_at(const char *list, uint32_t index, char *host_out, uint32_t *count_out, mr_error *error);

/* The index-th of the counts "2(x3),1", which are 2, 2, 2, 1, and their sum. */
mr_status mr_hostlist_tasks(const char *counts, uint32_t index, uint32_t *tasks_out, uint64_t *sum_out,
                            mr_error *error);

#endif
