/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of a step or an epoch: named sums and counts, reduced over all ranks in one all_reduce of f64, so that
 * averages are exact with uneven last batches and with ranks that had nothing. Minima and maxima, if any, take a second
 * one.
 */
#ifndef MILLRACE_METRICS_H
#define MILLRACE_METRICS_H

#include <millrace/group.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_MAX_METRICS 256
#define MR_METRIC_NAME 63 /* bytes, without the zero */

typedef struct mr_metrics mr_metrics;

/**
 * An empty set. group NULL is a world of one; otherwise it must outlive the metrics.
 *
 * Names may be added until the first reduction; from then on all ranks have the same, in the same order, which the
 * first reduction checks by a hash of them.
 * Returns MR_OK; MR_ERR_INVALID, MR_ERR_NO_MEMORY: nothing is allocated after this.
 * Ownership: *metrics_out is the caller's, to be destroyed; NULL on failure.
 * Threads: one at a time, the group's.
 */
MR_API mr_status mr_metrics_create(mr_group *group, mr_metrics **metrics_out, mr_error *error);
/** NULL does nothing. Blocks: for a reduction that is under way. */
MR_API void mr_metrics_destroy(mr_metrics *metrics);

/**
 * Declare a name without a value, for ranks that may have nothing. Adding to it declares it as well.
 *
 * name  1 to MR_METRIC_NAME bytes; copied.
 * Return MR_OK; MR_ERR_INVALID for a name that cannot be, for one above MR_MAX_METRICS, or for one that was not there
 * at the first reduction. Block: never.
 */
MR_API mr_status mr_metrics_declare(mr_metrics *metrics, const char *name);
/**
 * Add a sum over count samples: loss_sum over the batch's valid rows, correct answers, ... count is 0 or more. NaN and
 * infinity go into the result as they are.
 */
MR_API mr_status mr_metrics_add(mr_metrics *metrics, const char *name, double sum, double count);
/**
 * The same for a sum that lies on the device of the group: one number of dtype (MR_F16, MR_BF16, MR_F32, MR_F64,
 * MR_I32, MR_I64), added in f64 by a small kernel on this stream (NULL: the default stream), after what the stream was
 * given so far and before what it is given later. Nothing is copied to the host before the reduction.
 *
 * Returns as mr_metrics_add(); MR_ERR_UNSUPPORTED where the group's backend is not nccl; MR_ERR_DEVICE. Blocks: never,
 * but for the first one, which allocates.
 */
MR_API mr_status mr_metrics_add_device(mr_metrics *metrics, const char *name, const void *sum, mr_dtype dtype,
                                       double count, void *stream);
/**
 * Keep the smallest and the largest value; a NaN stays NaN. Any name may have them beside its sum. They cost a second
 * all_reduce in each reduction, so some rank must have kept one, of any name, before the first; otherwise
 * MR_ERR_INVALID from then on.
 */
MR_API mr_status mr_metrics_min(mr_metrics *metrics, const char *name, double value);
MR_API mr_status mr_metrics_max(mr_metrics *metrics, const char *name, double value);

/**
 * Reduce what was added since the last reduction, which begins anew. Collective.
 *
 * Returns MR_OK; MR_ERR_PEER on all ranks when their names differ, with this rank's own in the error, and what was
 * added stays; otherwise as mr_all_reduce(). Blocks: as mr_all_reduce().
 */
MR_API mr_status mr_metrics_reduce(mr_metrics *metrics);
/**
 * The same in the background; the results are those of the reduction before until mr_metrics_sync() has returned. What
 * is added meanwhile belongs to the next one. One is under way at a time: a second one syncs the first.
 *
 * Blocks: the first time of all, to compare the names; later only for one that is still under way.
 */
MR_API mr_status mr_metrics_reduce_async(mr_metrics *metrics);
/** Wait for the reduction that is under way, if any. Returns as mr_metrics_reduce(). */
MR_API mr_status mr_metrics_sync(mr_metrics *metrics);

/**
 * Results of the last reduction that has ended, the same on all ranks: sum / count (NaN without samples), sum, count,
 * min, max (NaN without a value). NaN for a name that there is not, and before the first reduction.
 */
MR_API double mr_metrics_mean(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_sum(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_count(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_minimum(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_maximum(const mr_metrics *metrics, const char *name);
/** The error of the last of these calls that failed. Ownership: the metrics'. */
MR_API const mr_error *mr_metrics_error(const mr_metrics *metrics);

#ifdef __cplusplus
}
#endif

#endif
