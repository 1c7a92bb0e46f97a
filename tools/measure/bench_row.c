/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one row. Time and CPU seconds are measured from the return of the first batch to the
 * return of the last.
 * Invariant: the cost of the benchmark itself (progress, watching the memory) must not show in the
 * figures, so it is rare or subtracted.
 */
#include "tools/measure/bench_row.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/command.h"
#include "tools/measure/cpu_time.h"
#include "tools/interrupt.h"
#include "tools/measure/memory_watch.h"
#include "tools/measure/numbers.h"
#include "tools/say.h"

struct gaps {
    double *ms;
    size_t n;
    size_t room;
};

struct run {
    struct mr_feed *feed;
    const struct mr_bench_how *how;
    struct mr_progress *progress;
    struct mr_bench_row *row;
    struct gaps gaps;
    double begin_s; /* return of the first batch */
    double last_s;  /* return of the last one */
};

/* The counters, read at the start and the end of the measured time. */
struct reading {
    struct mr_cpu_time cpu;
    mr_loader_stats stats;
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

static void draw_progress(void *user)
{
    struct run *run = user;
    const struct mr_bench_row *row = run->row;

    if (!mr_progress_due(run->progress))
        return;
    double seconds = mr_progress_now() - run->begin_s;
    if (row->first_batch_s == 0)
        mr_progress_draw(run->progress, "%" PRIu32 " workers: waiting for the first batch",
                         row->workers);
    else
        mr_progress_draw(
            run->progress, "%" PRIu32 " workers: %.0f img/s, %" PRIu64 " batches, %.1f s",
            row->workers,
            run->last_s > run->begin_s ? (double)row->n_images / (run->last_s - run->begin_s) : 0.0,
            row->n_batches, seconds);
}

static void note_failure(struct mr_bench_row *row, const mr_error *error)
{
    if (row->n_failed++ == 0)
        snprintf(row->failure, sizeof row->failure, "%s", error->text);
}

/* Simulate a training step: the consumer holds its batch that long. */
static void hold_batch(const struct run *run)
{
    double until_s = mr_progress_now() + run->how->step_s;

    for (double left_s = run->how->step_s; left_s > 0 && !mr_interrupt_came();
         left_s = until_s - mr_progress_now())
        nanosleep(
            &(struct timespec){.tv_sec = (time_t)left_s, .tv_nsec = (long)(fmod(left_s, 1) * 1e9)},
            NULL);
}

/*
 * Take the next batch of this epoch or, after its end, of the next one, and release it after the
 * step. *n_out: its samples.
 */
static int take_batch(struct run *run, uint32_t *n_out)
{
    mr_loader *loader = run->feed->loader;
    mr_batch *batch;
    mr_status status;

    *n_out = 0;
    for (;;) {
        status = mr_feed_next(run->feed, draw_progress, run, &batch);
        if (status == MR_OK) {
            *n_out = mr_batch_size(batch);
            if (run->row->first_batch_s > 0)
                hold_batch(run);
            mr_batch_release(batch);
            return MR_EXIT_OK;
        }
        if (status == MR_ERR_DAMAGED) {
            note_failure(run->row, mr_loader_error(loader));
            return MR_EXIT_OK;
        }
        if (status == MR_END)
            status = mr_loader_set_epoch(loader, mr_loader_epoch(loader) + 1);
        if (status < 0) {
            mr_progress_clear(run->progress);
            return mr_feed_say_status(run->feed, status);
        }
    }
}

/* Take batches until the time is over, but at least one (good or failed). */
static int take_batches(struct run *run, double seconds)
{
    struct mr_bench_row *row = run->row;
    int exit_status = MR_EXIT_OK;
    uint32_t n;

    while (exit_status == MR_EXIT_OK &&
           (run->gaps.n == 0 || run->last_s - run->begin_s < seconds)) {
        exit_status = take_batch(run, &n);
        double now = mr_progress_now();
        if (exit_status == MR_EXIT_OK && !add_gap(&run->gaps, (now - run->last_s) * 1e3))
            exit_status = MR_EXIT_FAILED;
        run->last_s = now;
        row->n_images += n;
        row->n_batches++;
        draw_progress(run);
    }
    return exit_status;
}

static double clamp_share(double share)
{
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/*
 * Compute the shares. If workers are threads, their CPU time cannot be separated from the
 * consumer's, which is small and is counted as theirs.
 */
static struct mr_bench_shares divide_time(const struct run *run, const struct reading *before,
                                          const struct reading *after)
{
    const struct mr_bench_row *row = run->row;
    bool own = row->workers == 0 || mr_loader_resolved(run->feed->loader)->start == MR_START_THREAD;
    double all_s = row->seconds * (row->workers > 0 ? row->workers : 1);
    double cpu_s =
        own ? after->cpu.host_s - before->cpu.host_s : after->cpu.workers_s - before->cpu.workers_s;
    double queue_s = own ? after->cpu.host_queue_s - before->cpu.host_queue_s
                         : after->cpu.workers_queue_s - before->cpu.workers_queue_s;
    double slot_s = (double)(after->stats.wait_ns - before->stats.wait_ns) * 1e-9;
    double consumer_s =
        (double)(after->stats.consumer_wait_ns - before->stats.consumer_wait_ns) * 1e-9;

    if (all_s <= 0)
        return (struct mr_bench_shares){0};
    if (row->workers == 0) /* nothing is decoded while the consumer holds its batch */
        slot_s = row->seconds - consumer_s;
    struct mr_bench_shares shares = {.cpu = clamp_share(cpu_s / all_s),
                                     .queue = clamp_share(queue_s / all_s),
                                     .slot = clamp_share(slot_s / all_s),
                                     .consumer = clamp_share(consumer_s / row->seconds)};
    shares.read = clamp_share(1 - shares.cpu - shares.queue - shares.slot);
    return shares;
}

static void fill_row(struct run *run, const struct reading *before, const struct reading *after)
{
    const mr_loader_stats *stats = &after->stats;
    struct mr_bench_row *row = run->row;
    double per_1000 = row->n_images > 0 ? 1000.0 / (double)row->n_images : 0;

    row->seconds = run->last_s - run->begin_s;
    row->img_s = row->seconds > 0 ? (double)row->n_images / row->seconds : 0;
    row->host_cpu_s_per_1000 = (after->cpu.host_s - before->cpu.host_s) * per_1000;
    row->cpu_s_per_1000 =
        row->host_cpu_s_per_1000 + (after->cpu.workers_s - before->cpu.workers_s) * per_1000;
    mr_numbers_sort(run->gaps.ms, run->gaps.n);
    row->p50_gap_ms = mr_numbers_percentile(run->gaps.ms, run->gaps.n, 0.5);
    row->p99_gap_ms = mr_numbers_percentile(run->gaps.ms, run->gaps.n, 0.99);
    row->shares = divide_time(run, before, after);
    row->read_mb_s = row->seconds > 0 ? (double)(stats->bytes_read - before->stats.bytes_read) /
                                            row->seconds * 1e-6
                                      : 0;
    if (row->failure[0] == '\0') /* otherwise n_failed counts the failed batches */
        row->n_failed += stats->n_damaged;
    row->n_deaths = stats->n_deaths;
    row->h2d_gb_s = stats->h2d_ns > 0 ? (double)stats->h2d_bytes / (double)stats->h2d_ns : 0;
    row->ready_share = stats->ready_share;
    snprintf(row->reader, sizeof row->reader, "%s", stats->reader);
}

/* If the statistics are not available, they stay zero. */
static struct reading take_reading(mr_loader *loader)
{
    struct reading reading = {.stats = {.struct_size = sizeof reading.stats}};

    if (mr_loader_get_stats(loader, &reading.stats) < 0)
        reading.stats = (mr_loader_stats){0};
    reading.cpu = mr_cpu_time_read(loader);
    return reading;
}

static int measure_row(struct run *run, double created_s)
{
    mr_loader *loader = run->feed->loader;
    struct mr_memory_watch watch;
    struct reading before, after;
    uint32_t n;

    mr_memory_watch_start(&watch, loader);
    int exit_status = take_batch(run, &n);
    run->begin_s = run->last_s = mr_progress_now();
    run->row->first_batch_s = run->begin_s - created_s;
    before = take_reading(loader);
    before.cpu.host_s -= mr_memory_watch_cpu(&watch);
    if (exit_status == MR_EXIT_OK)
        exit_status = take_batches(run, run->how->seconds);
    after = take_reading(loader);
    mr_loader_verdict(loader, run->row->verdict, sizeof run->row->verdict);
    after.cpu.host_s -= mr_memory_watch_cpu(&watch);
    run->row->peak_pss_mb = (double)mr_memory_watch_stop(&watch) / 1e6;
    mr_progress_clear(run->progress);
    if (exit_status == MR_EXIT_OK)
        fill_row(run, &before, &after);
    return exit_status;
}

int mr_bench_row_measure(struct mr_feed *feed, const mr_loader_options *options,
                         const struct mr_bench_how *how, struct mr_progress *progress,
                         struct mr_bench_row *row_out)
{
    struct run run = {.feed = feed, .how = how, .progress = progress, .row = row_out};
    double created_s = mr_progress_now();
    int exit_status = mr_feed_start(feed, options);

    *row_out = (struct mr_bench_row){
        .workers = options->num_workers == MR_NO_WORKERS ? 0 : options->num_workers};
    if (exit_status == MR_EXIT_OK)
        exit_status = measure_row(&run, created_s);
    free(run.gaps.ms);
    return exit_status;
}
