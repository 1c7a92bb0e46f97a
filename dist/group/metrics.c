/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics. There are three buffers: one that the steps fill, one that may be under way in the
 * group, one with the results. They are swapped, and nothing is allocated after creation.
 *
 * Engines differ in the minimum of a NaN, and a rank may have kept no value. So each minimum and
 * maximum is sent with a state, and the numbers themselves are never NaN.
 */
#include <millrace/metrics.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "dist/group/collectives.h"
#include "dist/group/device_sums.h"

#define REDUCTION "a reduction of metrics"

enum { MAX_WORKS = 2, LIST_TEXT = 800 };

/*
 * State of a minimum or maximum. It is sent as its negative, so that MR_MIN takes the highest state
 * of all ranks.
 */
enum state { STATE_NONE = 0, STATE_KEPT = 1, STATE_NAN = 2 };

enum extreme { EXTREME_MIN, EXTREME_MAX, N_EXTREMES };

/* Every field is reduced by MR_MIN, so that one all_reduce is enough. */
struct extremes {
    double values[N_EXTREMES]; /* minimum, and negative maximum; infinite if there is none */
    double states[N_EXTREMES]; /* minus enum state */
};

struct mean {
    double sum;
    double count;
};

/* The input of a reduction; both arrays are reduced as plain doubles. */
struct load {
    struct mean means[MR_MAX_METRICS];
    struct extremes extremes[MR_MAX_METRICS];
};

struct mr_metrics {
    mr_group *group;
    uint32_t n;         /* names */
    uint32_t n_results; /* number of names in the results */
    uint32_t next;      /* index of the name to try first: steps add in the same order */
    bool is_agreed;     /* the first reduction has compared the names */
    bool has_extremes;  /* this rank keeps some; after the first reduction: any rank does */
    bool is_under_way;
    mr_group_work *works[MAX_WORKS];
    void *sums; /* sums on the group's device, laid out as means[]; NULL until the first one */
    struct load *filling;
    struct load *moving; /* under way, or unused */
    struct load *results;
    mr_error error;
    char names[MR_MAX_METRICS][MR_METRIC_NAME + 1];
    struct load loads[3];
};

static void clear_load(struct load *load)
{
    memset(load->means, 0, sizeof load->means);
    for (uint32_t i = 0; i < MR_MAX_METRICS; i++)
        load->extremes[i] = (struct extremes){.values = {INFINITY, INFINITY}};
}

static void swap_loads(struct load **a, struct load **b)
{
    struct load *before = *a;
    *a = *b;
    *b = before;
}

mr_status mr_metrics_create(mr_group *group, mr_metrics **metrics_out, mr_error *error)
{
    if (!metrics_out)
        return mr_error_set(error, MR_ERR_INVALID, "metrics_out is NULL");
    *metrics_out = NULL;
    mr_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return mr_error_memory(error, sizeof *metrics);
    metrics->group = group;
    metrics->filling = &metrics->loads[0];
    metrics->moving = &metrics->loads[1];
    metrics->results = &metrics->loads[2];
    clear_load(metrics->filling);
    *metrics_out = metrics;
    return MR_OK;
}

static void free_works(mr_metrics *metrics)
{
    for (int i = 0; i < MAX_WORKS; i++) {
        mr_group_work_destroy(metrics->works[i]);
        metrics->works[i] = NULL;
    }
}

void mr_metrics_destroy(mr_metrics *metrics)
{
    if (!metrics)
        return;
    if (metrics->group)
        free_works(metrics); /* waits: the engine may still write into moving */
    if (metrics->sums)
        mr_device_sums_destroy(metrics->group, metrics->sums);
    free(metrics);
}

/* The index of a name. The search begins at from. */
static bool find_name(const mr_metrics *metrics, uint32_t from, const char *name, uint32_t *at_out)
{
    for (uint32_t i = 0; i < metrics->n; i++) {
        uint32_t at = from + i < metrics->n ? from + i : from + i - metrics->n;
        if (strcmp(metrics->names[at], name) == 0) {
            *at_out = at;
            return true;
        }
    }
    return false;
}

static mr_status declare_name(mr_metrics *metrics, const char *name)
{
    size_t len = strlen(name);
    if (metrics->is_agreed)
        return mr_error_set(&metrics->error, MR_ERR_INVALID,
                            "metric '%.200s' is not among the %u of the first reduction", name,
                            metrics->n);
    if (len == 0 || len > MR_METRIC_NAME)
        return mr_error_set(&metrics->error, MR_ERR_INVALID,
                            "metric '%.200s' has a name of %zu bytes, not 1 to %d", name, len,
                            MR_METRIC_NAME);
    if (metrics->n == MR_MAX_METRICS)
        return mr_error_set(&metrics->error, MR_ERR_INVALID,
                            "metric '%s' is above the limit of %d names", name, MR_MAX_METRICS);
    memcpy(metrics->names[metrics->n++], name, len + 1);
    return MR_OK;
}

/* Find a name, or declare it. */
static mr_status locate_name(mr_metrics *metrics, const char *name, uint32_t *at_out)
{
    if (!metrics)
        return MR_ERR_INVALID;
    if (!name)
        return mr_error_set(&metrics->error, MR_ERR_INVALID, "the name of a metric is NULL");
    if (!find_name(metrics, metrics->next, name, at_out)) {
        mr_status status = declare_name(metrics, name);
        if (status != MR_OK)
            return status;
        *at_out = metrics->n - 1;
    }
    metrics->next = *at_out + 1 < metrics->n ? *at_out + 1 : 0;
    return MR_OK;
}

mr_status mr_metrics_declare(mr_metrics *metrics, const char *name)
{
    uint32_t at;
    return locate_name(metrics, name, &at);
}

mr_status mr_metrics_add(mr_metrics *metrics, const char *name, double sum, double count)
{
    uint32_t at;
    mr_status status = locate_name(metrics, name, &at);
    if (status != MR_OK)
        return status;
    if (count < 0)
        return mr_error_set(&metrics->error, MR_ERR_INVALID, "metric '%s': count %g is below 0",
                            name, count);
    metrics->filling->means[at].sum += sum;
    metrics->filling->means[at].count += count;
    return MR_OK;
}

static mr_status copy_group_error(mr_metrics *metrics, mr_status status, const char *what)
{
    const mr_error *error = mr_group_error(metrics->group);
    if (error && error->status == (int32_t)status)
        mr_error_copy(&metrics->error, error);
    else
        mr_error_set(&metrics->error, status, "%s ended with %s", what, mr_status_name(status));
    return status;
}

static bool is_number(mr_dtype dtype)
{
    return dtype == MR_F16 || dtype == MR_BF16 || dtype == MR_F32 || dtype == MR_F64 ||
           dtype == MR_I32 || dtype == MR_I64;
}

static mr_status check_device_sum(mr_metrics *metrics, const char *name, const void *sum,
                                  mr_dtype dtype, double count)
{
    mr_error *error = &metrics->error;
    if (!sum)
        return mr_error_set(error, MR_ERR_INVALID, "metric '%s': its sum is NULL", name);
    if (!is_number(dtype))
        return mr_error_set(error, MR_ERR_INVALID,
                            "metric '%s': dtype %s is not f16, bf16, f32, f64, i32 or i64", name,
                            mr_dtype_name(dtype));
    if (count < 0)
        return mr_error_set(error, MR_ERR_INVALID, "metric '%s': count %g is below 0", name, count);
    if (!mr_group_on_device(metrics->group))
        return mr_error_set(
            error, MR_ERR_UNSUPPORTED,
            "metric '%s': a sum on a device needs a group of backend nccl; this one's is %s", name,
            mr_group_backend(metrics->group));
    return MR_OK;
}

mr_status mr_metrics_add_device(mr_metrics *metrics, const char *name, const void *sum,
                                mr_dtype dtype, double count, void *stream)
{
    uint32_t at;
    mr_status status = locate_name(metrics, name, &at);
    if (status == MR_OK)
        status = check_device_sum(metrics, name, sum, dtype, count);
    if (status != MR_OK)
        return status;
    if (!metrics->sums)
        status = mr_device_sums_create(metrics->group, MR_MAX_METRICS * 2, &metrics->sums);
    if (status == MR_OK)
        status =
            mr_device_sums_add(metrics->group, metrics->sums, at * 2, sum, dtype, count, stream);
    return status == MR_OK ? MR_OK : copy_group_error(metrics, status, "an addition to metrics");
}

/* value: for a maximum, its negative. */
static mr_status keep_extreme(mr_metrics *metrics, const char *name, enum extreme which,
                              double value)
{
    uint32_t at;
    mr_status status = locate_name(metrics, name, &at);
    if (status != MR_OK)
        return status;
    if (metrics->is_agreed && !metrics->has_extremes)
        return mr_error_set(
            &metrics->error, MR_ERR_INVALID,
            "metric '%s': no rank kept a minimum or maximum before the first reduction", name);
    metrics->has_extremes = true;
    struct extremes *kept = &metrics->filling->extremes[at];
    if (!isnan(value) && value < kept->values[which])
        kept->values[which] = value;
    kept->states[which] = fmin(kept->states[which], isnan(value) ? -STATE_NAN : -STATE_KEPT);
    return MR_OK;
}

mr_status mr_metrics_min(mr_metrics *metrics, const char *name, double value)
{
    return keep_extreme(metrics, name, EXTREME_MIN, value);
}

mr_status mr_metrics_max(mr_metrics *metrics, const char *name, double value)
{
    return keep_extreme(metrics, name, EXTREME_MAX, -value);
}

static mr_status fail_difference(mr_metrics *metrics)
{
    char list[LIST_TEXT];
    size_t len = 0;
    list[0] = '\0';
    for (uint32_t i = 0; i < metrics->n && len < sizeof list; i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "",
                                metrics->names[i]);
    return mr_error_set(
        &metrics->error, MR_ERR_PEER, "ranks have different metrics; rank %u has %u: %s%s",
        mr_group_rank(metrics->group), metrics->n, list, len < sizeof list ? "" : "...");
}

/*
 * Do all ranks have the same names? Each half of the digest is sent with its negative, so that one
 * MR_MAX gives its maximum and its minimum.
 */
static mr_status agree_names(mr_metrics *metrics)
{
    struct mr_digest digest;
    mr_digest_init(&digest, metrics->n);
    for (uint32_t i = 0; i < metrics->n; i++)
        mr_digest_add_text(&digest, metrics->names[i]);
    uint64_t hash = mr_digest_end(&digest, 0);
    int64_t high = (int64_t)(hash >> 32), low = (int64_t)(hash & UINT32_MAX);
    int64_t words[] = {high, -high, low, -low, metrics->has_extremes};
    mr_status status = mr_collectives_all_reduce(metrics->group, words,
                                                 sizeof words / sizeof *words, MR_I64, MR_MAX);
    if (status != MR_OK)
        return copy_group_error(metrics, status, REDUCTION);
    if (words[0] != -words[1] || words[2] != -words[3])
        return fail_difference(metrics);
    metrics->has_extremes = words[4] != 0;
    return MR_OK;
}

static mr_status start_reduction(mr_metrics *metrics)
{
    struct load *load = metrics->moving;
    if (!metrics->group || metrics->n == 0)
        return MR_OK;
    /* On a device all sums are reduced, because they were created before all names were known. */
    uint64_t n = mr_group_on_device(metrics->group) ? MR_MAX_METRICS : metrics->n;
    mr_status status = mr_collectives_all_reduce_async(metrics->group, load->means, n * 2, MR_F64,
                                                       MR_SUM, metrics->sums, &metrics->works[0]);
    if (status == MR_OK && metrics->has_extremes)
        status = mr_collectives_all_reduce_async(metrics->group, load->extremes,
                                                 (uint64_t)metrics->n * 4, MR_F64, MR_MIN, NULL,
                                                 &metrics->works[1]);
    if (status != MR_OK) {
        copy_group_error(metrics, status, REDUCTION);
        free_works(metrics);
    }
    return status;
}

mr_status mr_metrics_reduce_async(mr_metrics *metrics)
{
    mr_status status = mr_metrics_sync(metrics);
    if (status == MR_OK && !metrics->is_agreed) {
        status = metrics->group ? agree_names(metrics) : MR_OK;
        metrics->is_agreed = status == MR_OK;
    }
    if (status != MR_OK)
        return status;
    swap_loads(&metrics->filling, &metrics->moving);
    clear_load(metrics->filling);
    status = start_reduction(metrics);
    metrics->is_under_way = status == MR_OK;
    return status;
}

mr_status mr_metrics_sync(mr_metrics *metrics)
{
    mr_status status = MR_OK;
    if (!metrics)
        return MR_ERR_INVALID;
    if (!metrics->is_under_way)
        return MR_OK;
    for (int i = 0; i < MAX_WORKS && status == MR_OK; i++)
        if (metrics->works[i])
            status = mr_group_work_sync(metrics->works[i], MR_FOREVER);
    if (status != MR_OK)
        copy_group_error(metrics, status, REDUCTION);
    if (metrics->group)
        free_works(metrics);
    metrics->is_under_way = false;
    if (status == MR_OK) {
        swap_loads(&metrics->moving, &metrics->results);
        metrics->n_results = metrics->n;
    }
    return status;
}

mr_status mr_metrics_reduce(mr_metrics *metrics)
{
    mr_status status = mr_metrics_reduce_async(metrics);
    return status == MR_OK ? mr_metrics_sync(metrics) : status;
}

/* NULL: there is no result with this name. */
static const struct mean *find_mean(const mr_metrics *metrics, const char *name)
{
    uint32_t at;
    if (!metrics || !name || !find_name(metrics, 0, name, &at) || at >= metrics->n_results)
        return NULL;
    return &metrics->results->means[at];
}

double mr_metrics_mean(const mr_metrics *metrics, const char *name)
{
    const struct mean *mean = find_mean(metrics, name);
    return mean && mean->count != 0 ? mean->sum / mean->count : (double)NAN;
}

double mr_metrics_sum(const mr_metrics *metrics, const char *name)
{
    const struct mean *mean = find_mean(metrics, name);
    return mean ? mean->sum : (double)NAN;
}

double mr_metrics_count(const mr_metrics *metrics, const char *name)
{
    const struct mean *mean = find_mean(metrics, name);
    return mean ? mean->count : (double)NAN;
}

static double get_extreme(const mr_metrics *metrics, const char *name, enum extreme which)
{
    uint32_t at;
    if (!metrics || !name || !find_name(metrics, 0, name, &at) || at >= metrics->n_results)
        return (double)NAN;
    const struct extremes *kept = &metrics->results->extremes[at];
    return kept->states[which] == -STATE_KEPT ? kept->values[which] : (double)NAN;
}

double mr_metrics_minimum(const mr_metrics *metrics, const char *name)
{
    return get_extreme(metrics, name, EXTREME_MIN);
}

double mr_metrics_maximum(const mr_metrics *metrics, const char *name)
{
    return -get_extreme(metrics, name, EXTREME_MAX);
}

const mr_error *mr_metrics_error(const mr_metrics *metrics)
{
    return metrics ? &metrics->error : mr_error_null_handle();
}
