/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the pause between epochs: the time from the last batch of an epoch to the first of the
 * next, with set_epoch between them, against the usual time from one batch to the next. The
 * consumer does nothing.
 */
#include "bench/end_to_end.h"

#include "base/clock.h"

#include <stdlib.h>

enum { EPOCHS = 5, MAX_GAPS = 1 << 16 };

struct gaps {
    uint64_t last_ns; /* when the last batch was returned; 0 before the first */
    bool border;      /* an epoch has ended since then */
    uint32_t n_inside;
    uint32_t n_borders;
    uint64_t inside[MAX_GAPS];
    uint64_t borders[EPOCHS];
};

static void note_gap(struct gaps *gaps)
{
    uint64_t now = mr_clock_now_ns();
    if (gaps->last_ns && gaps->border)
        gaps->borders[gaps->n_borders++] = now - gaps->last_ns;
    else if (gaps->last_ns && gaps->n_inside < MAX_GAPS)
        gaps->inside[gaps->n_inside++] = now - gaps->last_ns;
    gaps->last_ns = now;
    gaps->border = false;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double median_ns(uint64_t *values, uint32_t n)
{
    qsort(values, n, sizeof *values, compare_u64);
    return n ? (double)values[n / 2] : 0;
}

static mr_status take_epochs(mr_loader *loader, struct gaps *gaps, struct mr_run *run,
                             mr_error *error)
{
    mr_batch *batch;
    mr_status status = MR_END;
    for (uint64_t epoch = 0; epoch < EPOCHS && status == MR_END; epoch++) {
        status = mr_loader_set_epoch(loader, epoch);
        if (status == MR_OK)
            while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
                note_gap(gaps);
                run->n_items += mr_batch_size(batch);
                run->n_wrong += mr_batch_epoch(batch) != epoch;
                mr_batch_release(batch);
            }
        gaps->border = true;
    }
    if (status != MR_END)
        mr_error_copy(error, mr_loader_error(loader));
    return status == MR_END ? MR_OK : status;
}

static mr_status run_gaps(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_end_to_end *bench = user;
    mr_loader_options options = mr_end_to_end_options(2);
    options.batch_size = 16; /* enough gaps even with few photographs */
    mr_loader *loader;
    struct gaps *gaps = calloc(1, sizeof *gaps);
    if (!gaps)
        return mr_error_memory(error, sizeof *gaps);
    uint64_t start = mr_clock_now_ns();
    mr_status status = mr_loader_create(bench->photos.dataset, NULL, &options, &loader, error);
    if (status == MR_OK) {
        status = take_epochs(loader, gaps, run, error);
        mr_loader_destroy(loader);
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    run->n_wrong += run->n_items != bench->photos.n * EPOCHS;
    double usual = median_ns(gaps->inside, gaps->n_inside);
    run->value = usual > 0 ? median_ns(gaps->borders, gaps->n_borders) / usual : 0;
    free(gaps);
    return status;
}

void mr_e2e_gaps_add(struct mr_end_to_end *bench)
{
    mr_engine_add(bench->engine, "epochs one after the other", run_gaps, bench);
}

void mr_e2e_gaps_figures(struct mr_engine *engine)
{
    mr_engine_bound_value(engine, "gap between epochs / between batches",
                          "epochs one after the other", "", MR_AIM_BELOW, 2);
}
