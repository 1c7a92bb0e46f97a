/* SPDX-License-Identifier: Apache-2.0 */
/* One row of `millrace bench`: a loader of its own, measured for some seconds. */
#ifndef TOOLS_BENCH_ROW_H
#define TOOLS_BENCH_ROW_H

#include "tools/feed.h"
#include "tools/progress.h"

/*
 * Shares of the measured time, 0 to 1: how the decoding processes spent it (workers, or this
 * process if there are none), and the consumer. Time for which the kernel gives no reason counts as
 * reading.
 */
struct mr_bench_shares {
    double cpu;      /* working */
    double queue;    /* ready to work, without a CPU */
    double slot;     /* asleep: every slot was filled or lent */
    double read;     /* the rest: waiting for bytes */
    double consumer; /* the consumer, inside mr_loader_next() for a batch that was not ready */
};

/* How to measure. */
struct mr_bench_how {
    double seconds;
    double step_s; /* the consumer holds each batch for this time, as a training step would */
};

struct mr_bench_row {
    uint32_t workers; /* 0: this process decodes */
    uint32_t round;   /* of a sweep that is repeated */
    uint64_t n_images;
    uint64_t n_batches;
    double seconds; /* from the first batch to the last */
    double img_s;
    double ratio; /* to the first row */
    double cpu_s_per_1000;
    double host_cpu_s_per_1000; /* this process's part of it */
    double first_batch_s;       /* from before mr_loader_create() */
    double p50_gap_ms;
    double p99_gap_ms;
    double peak_pss_mb; /* 10^6 bytes, this process and the workers together */
    uint64_t n_failed;  /* samples skipped or zeroed, or batches that failed by a damaged sample */
    uint64_t n_deaths;
    double read_mb_s; /* 10^6 bytes that the samples were read from, a second */
    struct mr_bench_shares shares;
    double h2d_gb_s;    /* copies to devices; 0 where there are none */
    double ready_share; /* of the batches, those that were ready when they were asked for; on
                           devices only */
    char reader[16];
    char verdict[128];
    char failure[MR_ERROR_TEXT]; /* policy fail: the first failed sample, or "" */
};

/*
 * Make the loader, wait for one batch, then take batches as fast as they come, epoch after epoch,
 * for how->seconds and at least one batch. Returns an exit status; a sample that fails does not end
 * the row.
 */
int mr_bench_row_measure(struct mr_feed *feed, const mr_loader_options *options,
                         const struct mr_bench_how *how, struct mr_progress *progress,
                         struct mr_bench_row *row_out);

#endif
