/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of a step or an epoch: named sums and counts, reduced over all ranks in one all_reduce of
 * f64. Averages are therefore exact with uneven last batches and with ranks that had no samples.
 * Minima and maxima, if used, take a second all_reduce.
 */
#ifndef MILLRACE_METRICS_H
#define MILLRACE_METRICS_H

#include <millrace/group.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_MAX_METRICS 256
#define MR_METRIC_NAME 63 /* bytes, without the final NUL */

typedef struct mr_metrics mr_metrics;

/**
 * Make an empty set of metrics. group NULL is a world of one; otherwise the group must outlive the
 * metrics.
 *
 * Names may be added until the first reduction. All ranks must then have the same names in the same
 * order; the first reduction compares a hash of them. Later calls allocate no memory, except the
 * first mr_metrics_add_device().
 * Returns MR_OK; MR_ERR_INVALID; MR_ERR_NO_MEMORY.
 * Ownership: *metrics_out is the caller's, to be destroyed; NULL on failure.
 * Threads: one at a time, the thread that uses the group.
 */
MR_API mr_status mr_metrics_create(mr_group *group, mr_metrics **metrics_out, mr_error *error);
/** Free the metrics. NULL does nothing. Blocks: until a reduction in progress has ended. */
MR_API void mr_metrics_destroy(mr_metrics *metrics);

/**
 * Declare a name without a value, for ranks that may have no samples. Adding a value to a name also
 * declares it.
 *
 * name  1 to MR_METRIC_NAME bytes; it is copied
 * Returns MR_OK; MR_ERR_INVALID for a name of another length, for more than MR_MAX_METRICS names,
 * or for a name that is new after the first reduction. Blocks: never.
 */
MR_API mr_status mr_metrics_declare(mr_metrics *metrics, const char *name);
/**
 * Add a sum over count samples, for example of the loss over a batch's valid rows. count is 0 or
 * more. NaN and infinity are added as they are. Returns as mr_metrics_declare(). Blocks: never.
 */
MR_API mr_status mr_metrics_add(mr_metrics *metrics, const char *name, double sum, double count);
/**
 * Add a sum that is in the memory of the group's device: one number of dtype (MR_F16, MR_BF16,
 * MR_F32, MR_F64, MR_I32, MR_I64). A small kernel on this stream (NULL: the default stream) adds it
 * in f64, after all work that is in the stream now and before all later work. Nothing is copied to
 * the host before the reduction.
 *
 * Returns as mr_metrics_add(); MR_ERR_UNSUPPORTED if the group's backend is not nccl;
 * MR_ERR_DEVICE.
 * Blocks: only the first call, which allocates.
 */
MR_API mr_status mr_metrics_add_device(mr_metrics *metrics, const char *name, const void *sum,
                                       mr_dtype dtype, double count, void *stream);
/**
 * Track the smallest or the largest value of a name, beside its sum. A NaN stays NaN. Minima and
 * maxima take a second all_reduce in each reduction. If no rank has called one of these functions
 * before the first reduction, they return MR_ERR_INVALID from then on.
 */
MR_API mr_status mr_metrics_min(mr_metrics *metrics, const char *name, double value);
MR_API mr_status mr_metrics_max(mr_metrics *metrics, const char *name, double value);

/**
 * Reduce over all ranks what was added since the last reduction. Sums then start at zero again.
 * Collective.
 *
 * Returns MR_OK; MR_ERR_PEER on all ranks if their names differ: the error has this rank's names,
 * and the added values are kept; otherwise as mr_group_all_reduce(). Blocks: as
 * mr_group_all_reduce().
 */
MR_API mr_status mr_metrics_reduce(mr_metrics *metrics);
/**
 * Start a reduction in the background. Until mr_metrics_sync() has returned, the results are those
 * of the previous reduction. Values added in the meantime belong to the next reduction. Only one
 * reduction can be in progress: a second call first waits for the earlier one.
 *
 * Blocks: on the first call, to compare the names; later only while an earlier reduction is under
 * way.
 */
MR_API mr_status mr_metrics_reduce_async(mr_metrics *metrics);
/** Wait for the reduction in progress, if there is one. Returns as mr_metrics_reduce(). */
MR_API mr_status mr_metrics_sync(mr_metrics *metrics);

/**
 * Results of the last completed reduction, the same on all ranks. The mean is sum / count, NaN
 * without samples. Minimum and maximum are NaN without a value. All are NaN for an unknown name,
 * for NULL, and before the first reduction.
 */
MR_API double mr_metrics_mean(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_sum(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_count(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_minimum(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_maximum(const mr_metrics *metrics, const char *name);
/** The error of the last call on these metrics that failed. Ownership: the metrics'. */
MR_API const mr_error *mr_metrics_error(const mr_metrics *metrics);

#ifdef __cplusplus
}
#endif

#endif
