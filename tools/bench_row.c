/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring one row. The clock runs from the return of the first batch to the return of the last, and the CPU seconds
 * are of the same time. Easy to get wrong: whatever the benchmark itself does between batches (progress, memory) is
 * measured too unless it is taken off or rare.
 */
#include "tools/bench_row.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/cpu_time.h"
#include "tools/memory_watch.h"
#include "tools/say.h"

struct gaps {
    double *ms;
    size_t n;
    size_t room;
};

struct run {
    struct mr_feed *feed;
    struct mr_progress *progress;
    struct mr_bench_row *row;
    struct gaps gaps;
    double begin_s; /* return of the first batch */
    double last_s;  /* return of the last one */
};

static bool add_gap(struct gaps *gaps, double ms)
{
    if (gaps->n == gaps->room) {
        size_t room = gaps->room > 0 ? 2 * gaps->room : 4096;
        double *grown = realloc(gaps->ms, room * sizeof *grown);
        if (grown == NULL) {
            mr_say_error("out of memory");
            return false;
        }
        gaps->ms = grown;
        gaps->room = room;
    }
    gaps->ms[gaps->n++] = ms;
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The smallest gap that at least a share p of all gaps does not exceed; the gaps are sorted. */
static double percentile(const struct gaps *gaps, double p)
{
    size_t rank = (size_t)ceil(p * (double)gaps->n);

    return gaps->n > 0 ? gaps->ms[rank > 0 ? rank - 1 : 0] : 0;
}

static void draw(void *user)
{
    struct run *run = user;
    const struct mr_bench_row *row = run->row;

    if (!mr_progress_due(run->progress))
        return;
    double seconds = mr_progress_now() - run->begin_s;
    if (row->first_batch_s == 0)
        mr_progress_draw(run->progress, "%" PRIu32 " workers: waiting for the first batch", row->workers);
    else
        mr_progress_draw(run->progress, "%" PRIu32 " workers: %.0f img/s, %" PRIu64 " batches, %.1f s", row->workers,
                         run->last_s > run->begin_s ? (double)row->n_images / (run->last_s - run->begin_s) : 0.0,
                         row->n_batches, seconds);
}

static void note_failure(struct mr_bench_row *row, const mr_error *error)
{
    if (row->n_failed++ == 0)
        snprintf(row->failure, sizeof row->failure, "%s", error->text);
}

/* The next batch of this epoch or, after its end, of the next one. Released at once; *n_out counts its samples. */
static int take_batch(struct run *run, uint32_t *n_out)
{
    mr_loader *loader = run->feed->loader;
    mr_batch *batch;
    mr_status status;

    *n_out = 0;
    for (;;) {
        status = mr_feed_next(run->feed, draw, run, &batch);
        if (status == MR_OK) {
            *n_out = mr_batch_size(batch);
            run->row->dtype = mr_batch_array_at(mr_batch_part(batch, 0), 0)->dtype;
            mr_batch_release(batch);
            return MR_EXIT_OK;
        }
        if (status == MR_ERR_DAMAGED) {
            note_failure(run->row, mr_loader_error(loader));
            return MR_EXIT_OK;
        }
        if (status == MR_END)
            status = mr_loader_set_epoch(loader, mr_loader_epoch(loader) + 1);
        if (status == MR_ERR_CANCELED) {
            mr_progress_clear(run->progress);
            mr_say_error("interrupted");
            return MR_EXIT_FAILED;
        }
        if (status < 0) {
            mr_progress_clear(run->progress);
            mr_say_status(status, mr_loader_error(loader));
            return MR_EXIT_FAILED;
        }
    }
}

/* Take batches until the time is over and at least one has come (good or failed). */
static int take_batches(struct run *run, double seconds)
{
    struct mr_bench_row *row = run->row;
    int exit_status = MR_EXIT_OK;
    uint32_t n;

    while (exit_status == MR_EXIT_OK && (run->gaps.n == 0 || run->last_s - run->begin_s < seconds)) {
        exit_status = take_batch(run, &n);
        double now = mr_progress_now();
        if (exit_status == MR_EXIT_OK && !add_gap(&run->gaps, (now - run->last_s) * 1e3))
            exit_status = MR_EXIT_FAILED;
        run->last_s = now;
        row->n_images += n;
        row->n_batches++;
        draw(run);
    }
    return exit_status;
}

static void summarize(struct run *run, struct mr_cpu_time before, struct mr_cpu_time after)
{
    mr_loader_stats stats = {.struct_size = sizeof stats};
    struct mr_bench_row *row = run->row;
    double per_1000 = row->n_images > 0 ? 1000.0 / (double)row->n_images : 0;

    row->seconds = run->last_s - run->begin_s;
    row->img_s = row->seconds > 0 ? (double)row->n_images / row->seconds : 0;
    row->host_cpu_s_per_1000 = (after.host_s - before.host_s) * per_1000;
    row->cpu_s_per_1000 = row->host_cpu_s_per_1000 + (after.workers_s - before.workers_s) * per_1000;
    qsort(run->gaps.ms, run->gaps.n, sizeof *run->gaps.ms, compare_doubles);
    row->p50_gap_ms = percentile(&run->gaps, 0.5);
    row->p99_gap_ms = percentile(&run->gaps, 0.99);
    if (mr_loader_get_stats(run->feed->loader, &stats) < 0)
        return;
    row->n_failed += stats.n_damaged;
    row->n_deaths = stats.n_deaths;
    row->h2d_gb_s = stats.h2d_ns > 0 ? (double)stats.h2d_bytes / (double)stats.h2d_ns : 0;
    row->ready_share = stats.ready_share;
    snprintf(row->reader, sizeof row->reader, "%s", stats.reader);
    snprintf(row->verdict, sizeof row->verdict, "%s", stats.verdict);
}

static int measure(struct run *run, double seconds, double created_s)
{
    struct mr_memory_watch watch;
    struct mr_cpu_time before, after;
    double watch_cpu_s;
    uint32_t n;

    if (mr_loader_n_batches(run->feed->loader) == 0) {
        mr_say_error("the epoch has no batch for this rank");
        return MR_EXIT_FAILED;
    }
    mr_memory_watch_start(&watch, run->feed->loader);
    int exit_status = take_batch(run, &n);
    run->begin_s = run->last_s = mr_progress_now();
    run->row->first_batch_s = run->begin_s - created_s;
    before = mr_cpu_time_read(run->feed->loader);
    watch_cpu_s = mr_memory_watch_cpu(&watch);
    if (exit_status == MR_EXIT_OK)
        exit_status = take_batches(run, seconds);
    after = mr_cpu_time_read(run->feed->loader);
    after.host_s -= mr_memory_watch_cpu(&watch) - watch_cpu_s;
    run->row->peak_pss_mb = (double)mr_memory_watch_stop(&watch) / 1e6;
    mr_progress_clear(run->progress);
    if (exit_status == MR_EXIT_OK)
        summarize(run, before, after);
    return exit_status;
}

int mr_bench_row_measure(struct mr_feed *feed, const mr_loader_options *options, double seconds,
                         struct mr_progress *progress, struct mr_bench_row *row_out)
{
    struct run run = {.feed = feed, .progress = progress, .row = row_out};
    double created_s = mr_progress_now();
    int exit_status = mr_feed_start(feed, options);

    *row_out = (struct mr_bench_row){.workers = options->num_workers == MR_NO_WORKERS ? 0 : options->num_workers};
    if (exit_status == MR_EXIT_OK)
        exit_status = measure(&run, seconds, created_s);
    free(run.gaps.ms);
    return exit_status;
}
