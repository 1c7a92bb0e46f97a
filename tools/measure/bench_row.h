/* SPDX-License-Identifier: Apache-2.0 */
/* Measures one row of `millrace bench`: creates a loader and measures it for some seconds. */
#ifndef TOOLS_BENCH_ROW_H
#define TOOLS_BENCH_ROW_H

#include "tools/feed.h"
#include "tools/progress.h"

/*
 * Shares of the measured time, 0 to 1. All but the last say how the decoding processes spent it
 * (workers, or this process if there are none). Time that has no known reason counts as reading.
 */
struct mr_bench_shares {
    double cpu;      /* on a CPU */
    double queue;    /* ready to run, waiting for a CPU */
    double slot;     /* waiting for a slot: all were filled or lent */
    double read;     /* the rest: waiting for bytes */
    double consumer; /* the consumer's time in mr_loader_next(), waiting for a batch */
};

/* How to measure. */
struct mr_bench_how {
    double seconds;
    double step_s; /* the consumer holds each batch for this time, as a training step would */
};

struct mr_bench_row {
    uint32_t workers; /* 0: this process decodes */
    uint32_t round;   /* number of the round, if rows are repeated */
    uint64_t n_images;
    uint64_t n_batches;
    double seconds; /* from the first batch to the last */
    double img_s;
    double ratio; /* to the first row */
    double cpu_s_per_1000;
    double host_cpu_s_per_1000; /* the part of this process */
    double first_batch_s;       /* from before mr_loader_create() */
    double p50_gap_ms;
    double p99_gap_ms;
    double peak_pss_mb; /* 10^6 bytes, this process and the workers together */
    uint64_t n_failed;  /* samples skipped or zeroed, or batches that failed because of a damaged
                           sample */
    uint64_t n_deaths;
    double read_mb_s; /* 10^6 bytes read per second */
    struct mr_bench_shares shares;
    double h2d_gb_s;    /* copies to devices; 0 if there are none */
    double ready_share; /* share of the batches that were ready when requested; devices only */
    char reader[16];
    char verdict[128];
    char failure[MR_ERROR_TEXT]; /* policy fail: the first failed sample, or "" */
};

/*
 * Create the loader and wait for one batch. Then take batches as fast as they come, epoch after
 * epoch, for how->seconds, but at least one. Returns an exit status; a failed sample does not end
 * the row.
 */
int mr_bench_row_measure(struct mr_feed *feed, const mr_loader_options *options,
                         const struct mr_bench_how *how, struct mr_progress *progress,
                         struct mr_bench_row *row_out);

#endif
