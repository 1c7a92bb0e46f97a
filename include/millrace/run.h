/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every distributed training loop writes for itself otherwise. group NULL is a world of one. */
#ifndef MILLRACE_RUN_H
#define MILLRACE_RUN_H

#include <millrace/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Print on rank 0 only; print on every rank, each line with "[rank] " before it. To stdout, after what stdio still held
 * for it, in one write() of all lines: in a pipe up to 4096 bytes stay together whatever other ranks print.
 *
 * Threads: any.
 */
MR_API void mr_print0(const mr_group *group, const char *format, ...) MR_PRINTF(2, 3);
MR_API void mr_print_rank(const mr_group *group, const char *format, ...) MR_PRINTF(2, 3);

/**
 * A section that rank 0 (local: rank 0 of each machine) goes through before the others: preparing files, downloads.
 * Between begin and end no collective of the group may be called, and end must be called whatever came of the section:
 * the others wait for it, at most the group's timeout. Collective: one barrier, which who goes first meets in end and
 * who comes later in begin. Return as mr_barrier().
 */
MR_API mr_status mr_rank0_first_begin(mr_group *group);
MR_API mr_status mr_rank0_first_end(mr_group *group);
MR_API mr_status mr_local_rank0_first_begin(mr_group *group);
MR_API mr_status mr_local_rank0_first_end(mr_group *group);

/**
 * As mr_seed(), but a seed of its own for each rank: tag is rank + 1. group NULL is rank 0.
 */
MR_API uint64_t mr_seed_of_rank(uint64_t seed, const char *purpose, const mr_group *group);

/**
 * Is it the same on all ranks? Collective.
 *
 * what  names it in the error: "the training set".
 * Returns MR_OK; MR_ERR_PEER on all ranks otherwise, with the first rank that differs from rank 0 in mr_group_error(),
 * and the group is at its end; MR_ERR_NO_MEMORY; otherwise as mr_all_gather().
 */
MR_API mr_status mr_group_same(mr_group *group, uint64_t fingerprint, const char *what);

/**
 * Remember SIGTERM and SIGUSR1 from now on instead of ending by them: a flag that ranks agree on, so that they
 * checkpoint at the same step. The handlers that were there are called too. System calls that the signal finds waiting
 * go on (SA_RESTART). Once per process; again does nothing. A forked child watches too.
 *
 * Returns MR_OK; MR_ERR_IO. Threads: before other threads take signals.
 */
MR_API mr_status mr_signals_watch(mr_error *error);
/**
 * The signal that any rank has got since the last call, 0 if none; the same on all ranks. Of two SIGTERM is told first
 * and SIGUSR1 by the next call. Collective: one small all_reduce.
 *
 * Returns as mr_all_reduce(); a signal that could not be told is kept.
 */
MR_API mr_status mr_signals_agree(mr_group *group, int *signal_out);

#ifdef __cplusplus
}
#endif

#endif
