/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for distributed training loops: printing, rank 0 first, seeds, signals. group NULL is a
 * world of one.
 */
#ifndef MILLRACE_RUN_H
#define MILLRACE_RUN_H

#include <millrace/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Print to stdout: on rank 0 only, or on every rank with "[rank] " before each line. stdout is
 * flushed first. All lines are written by one write(), so in a pipe up to 4096 bytes are not mixed
 * with the output of other ranks.
 *
 * Threads: any.
 */
MR_API void mr_group_print0(const mr_group *group, const char *format, ...) MR_PRINTF(2, 3);
MR_API void mr_group_print_rank(const mr_group *group, const char *format, ...) MR_PRINTF(2, 3);

/**
 * Begin and end a section that rank 0 (local: rank 0 of each machine) runs before the others, for
 * example to download or prepare files. Call no collective of the group inside the section. Always
 * call end, even if the section failed: the others wait for it, at most the group's timeout.
 * Collective: one barrier, which the first rank enters in end and the others in begin.
 * Returns as mr_group_barrier().
 */
MR_API mr_status mr_group_rank0_first_begin(mr_group *group);
MR_API mr_status mr_group_rank0_first_end(mr_group *group);
MR_API mr_status mr_group_local_rank0_first_begin(mr_group *group);
MR_API mr_status mr_group_local_rank0_first_end(mr_group *group);

/**
 * Derive a seed as mr_seed() does, but a different one for each rank: the tag is rank + 1. group
 * NULL is rank 0.
 */
MR_API uint64_t mr_group_seed(const mr_group *group, uint64_t seed, const char *purpose);

/**
 * Check that all ranks give the same fingerprint. Collective.
 *
 * what  names the thing in the error, for example "the training set"
 * Returns MR_OK; MR_ERR_PEER on all ranks if one differs: mr_group_error() names the first rank
 * that differs from rank 0, and the group is at its end; MR_ERR_NO_MEMORY; otherwise as
 * mr_group_all_gather().
 */
MR_API mr_status mr_group_same(mr_group *group, uint64_t fingerprint, const char *what);

/**
 * Note SIGTERM and SIGUSR1 from now on, instead of ending the process. mr_signals_agree() reports
 * them, so all ranks can checkpoint at the same step. Handlers that were set before are called too.
 * Interrupted system calls continue (SA_RESTART). A second call in a process does nothing. A forked
 * child notes signals too.
 *
 * Returns MR_OK; MR_ERR_IO. Threads: call it before other threads handle signals.
 */
MR_API mr_status mr_signals_watch(mr_error *error);
/**
 * Report the signal that any rank has received since the last call, 0 if none. All ranks get the
 * same. If both are pending, SIGTERM is reported first, SIGUSR1 by the next call. Collective: one
 * small all_reduce.
 *
 * Returns as mr_group_all_reduce(). After a failure the next call reports the signal.
 */
MR_API mr_status mr_signals_agree(mr_group *group, int *signal_out);

#ifdef __cplusplus
}
#endif

#endif
