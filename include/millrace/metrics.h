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
 * Names may be added until the first reduction; from then on all ranks have the same, in the same order, which the
 * first reduction checks by a hash of them.
 */
MR_API mr_status mr_metrics_create(mr_group *group, mr_metrics **metrics_out, mr_error *error);
MR_API void mr_metrics_destroy(mr_metrics *metrics);

/** Declare a name without a value, for ranks that may have nothing. Adding to it declares it as well. */
MR_API mr_status mr_metrics_declare(mr_metrics *metrics, const char *name);
/** Add a sum over count samples: loss_sum over the batch's valid rows, correct answers, ... */
MR_API mr_status mr_metrics_add(mr_metrics *metrics, const char *name, double sum, double count);
/** Keep the smallest and the largest value. */
MR_API mr_status mr_metrics_min(mr_metrics *metrics, const char *name, double value);
MR_API mr_status mr_metrics_max(mr_metrics *metrics, const char *name, double value);

/** Reduce what was added since the last reduction, which begins anew. Collective. Blocks: as mr_all_reduce(). */
MR_API mr_status mr_metrics_reduce(mr_metrics *metrics);
/** The same in the background; the results are those of the reduction before until mr_metrics_sync() has returned. */
MR_API mr_status mr_metrics_reduce_async(mr_metrics *metrics);
MR_API mr_status mr_metrics_sync(mr_metrics *metrics);

/** Results of the last reduction that has ended: sum / count (NaN without samples), sum, count, min, max. NaN for a
 * name that there is not. */
MR_API double mr_metrics_mean(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_sum(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_count(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_minimum(const mr_metrics *metrics, const char *name);
MR_API double mr_metrics_maximum(const mr_metrics *metrics, const char *name);
MR_API const mr_error *mr_metrics_error(const mr_metrics *metrics);

#ifdef __cplusplus
}
#endif

#endif
