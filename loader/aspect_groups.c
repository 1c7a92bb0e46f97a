/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the sizes that annotations state, and finds those of the other images. Threads read their
 * headers, because on a disk or over a network most of the time is waiting.
 */
#include "loader/aspect_groups.h"

#include "base/log.h"
#include "base/thread.h"
#include "dataset/catalog_format.h"
#include "dataset/dataset.h"
#include "loader/header_sizes.h"

#include <math.h>
#include <stdlib.h>

enum { N_THREADS = 16, RUN = 64, MAX_K = MR_GROUPS_MAX / 2 - 1 };

struct measuring {
    const mr_dataset *dataset;
    struct mr_header_sizes sizes;
    uint32_t k;
    double bins[2 * MAX_K + 1];
    int64_t n;
    uint8_t *ids;
    _Atomic int64_t next;
    _Atomic int64_t n_unknown;
    _Atomic bool has_failed;
    mr_error error; /* of the thread that set has_failed */
};

/* The bins are those of 2 ** numpy.linspace(-1, 1, 2 * k + 1). */
static void fill_bins(struct measuring *m)
{
    for (uint32_t i = 0; i < 2 * m->k; i++)
        m->bins[i] = exp2(i * (1.0 / m->k) - 1.0);
    m->bins[2 * m->k] = 2.0;
}

static uint8_t find_group(const struct measuring *m, double ratio)
{
    uint8_t group = 0;
    while (group < 2 * m->k + 1 && m->bins[group] <= ratio)
        group++;
    return group;
}

static uint8_t measure_sample(struct measuring *m, int64_t index)
{
    const struct mr_catalog_size *stated =
        mr_catalog_stated_size(mr_dataset_catalog(m->dataset), index);
    struct mr_catalog_size size;
    mr_error error = {0};
    if (stated) /* the reference takes the sizes of COCO's annotations as they are */
        size = *stated;
    else if (mr_header_sizes_find(&m->sizes, index, &size, &error) < 0 &&
             !atomic_exchange(&m->has_failed, true)) {
        m->error = error;
        m->next = m->n;
    }
    if (size.width == 0 || size.height == 0) {
        atomic_fetch_add_explicit(&m->n_unknown, 1, memory_order_relaxed);
        return find_group(m, 1.0);
    }
    return find_group(m, (double)size.width / size.height);
}

static void *measure_runs(void *measuring)
{
    struct measuring *m = measuring;
    int64_t first;
    while ((first = atomic_fetch_add_explicit(&m->next, RUN, memory_order_relaxed)) < m->n)
        for (int64_t i = first; i < first + RUN && i < m->n; i++)
            m->ids[i] = measure_sample(m, i);
    return NULL;
}

/* A thread that cannot start is not needed: the caller measures too. */
static void measure_all(struct measuring *m)
{
    struct mr_thread threads[N_THREADS] = {0};
    mr_error unused;
    for (int t = 0; t < N_THREADS && (int64_t)t * RUN < m->n; t++)
        mr_thread_run(&threads[t], "a thread that reads headers", measure_runs, m, &unused);
    measure_runs(m);
    for (int t = 0; t < N_THREADS; t++)
        mr_thread_join(&threads[t]);
    if (m->n_unknown > 0 && !m->has_failed)
        mr_log_line(MR_LOG_WARNING,
                    "aspect_ratio_groups: the headers of %lld of %lld images do not say a size; "
                    "these images count as squares",
                    (long long)m->n_unknown, (long long)m->n);
}

mr_status mr_aspect_groups_make(const mr_dataset *dataset, bool upright,
                                const mr_loader_options *options, struct mr_groups **groups_out,
                                mr_error *error)
{
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    struct measuring m = {
        .dataset = dataset, .k = options->aspect_ratio_groups, .n = mr_dataset_n_samples(dataset)};
    *groups_out = NULL;
    if (m.k == 0)
        return MR_OK;
    if ((!kind->picture && !kind->encoded) || !mr_dataset_catalog(dataset))
        return mr_error_set(error, MR_ERR_INVALID, "aspect_ratio_groups cannot be made: %s",
                            mr_dataset_catalog(dataset) ? "the samples are not images"
                                                        : "the samples come from callbacks");
    m.ids = malloc((size_t)m.n);
    if (!m.ids)
        return mr_error_memory(error, (size_t)m.n);
    fill_bins(&m);
    mr_header_sizes_load(&m.sizes, dataset, upright);
    measure_all(&m);
    mr_header_sizes_save(&m.sizes);
    mr_header_sizes_fini(&m.sizes);
    mr_status status =
        m.has_failed
            ? mr_error_set(error, MR_ERR_IO, "aspect_ratio_groups cannot be made: %s", m.error.text)
            : mr_groups_create(m.ids, (uint64_t)m.n, options->batch_size, groups_out, error);
    free(m.ids);
    return status;
}
