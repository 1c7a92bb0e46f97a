/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every distributed training loop writes for itself otherwise. group NULL is a world of one. */
#ifndef MILLRACE_RUN_H
#define MILLRACE_RUN_H

#include <millrace/group.h>
#include <millrace/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Print on rank 0 only; print on every rank, each line with "[rank] " before it, in one write. To stdout. */
MR_API void mr_print0(const mr_group *group, const char *format, ...) MR_PRINTF(2, 3);
MR_API void mr_print_rank(const mr_group *group, const char *format, ...) MR_PRINTF(2, 3);

/**
 * A section that rank 0 (local: rank 0 of each machine) goes through before the others: preparing files, downloads.
 * Between begin and end no collective of the group may be called. Collective. Return as mr_barrier().
 */
MR_API mr_status mr_rank0_first_begin(mr_group *group);
MR_API mr_status mr_rank0_first_end(mr_group *group);
MR_API mr_status mr_local_rank0_first_begin(mr_group *group);
MR_API mr_status mr_local_rank0_first_end(mr_group *group);

/**
 * A seed for a purpose ("sampler", "init", ...) from the one seed of a run: the same on all ranks, or one for each.
 * Counter-based (Philox), so that no two purposes or ranks share a stream.
 */
MR_API uint64_t mr_seed(uint64_t seed, const char *purpose);
MR_API uint64_t mr_seed_of_rank(uint64_t seed, const char *purpose, const mr_group *group);

/** Seconds since the process began, by the monotonic clock. */
MR_API double mr_elapsed(void);

/**
 * A hash of what this loader feeds: the dataset's names, sizes and labels, the transform, and the options that must be
 * the same on all ranks (not rank, workers or devices).
 */
MR_API uint64_t mr_loader_fingerprint(mr_loader *loader);
/**
 * Is it the same on all ranks? MR_ERR_PEER names the first rank that differs from rank 0. Collective.
 */
MR_API mr_status mr_group_same(mr_group *group, uint64_t fingerprint, const char *what);

/**
 * Remember SIGTERM and SIGUSR1 from now on instead of ending by them: a flag that ranks agree on, so that they
 * checkpoint at the same step. The handlers that were there are called too. Once per process.
 */
MR_API mr_status mr_signals_watch(mr_error *error);
/** The signal that any rank has got since the last call, 0 if none; the same on all ranks. Collective: one small
 * all_reduce. */
MR_API mr_status mr_signals_agree(mr_group *group, int *signal_out);

#ifdef __cplusplus
}
#endif

#endif
