/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of bench or tune: one loader after the other on the same dataset, each a row of the
 * table.
 */
#ifndef TOOLS_BENCH_RUN_H
#define TOOLS_BENCH_RUN_H

#include "tools/measure/bench_args.h"
#include "tools/measure/bench_report.h"
#include "tools/feed.h"
#include "tools/outlet.h"

struct mr_bench_run {
    const struct mr_bench_args *args;
    struct mr_feed feed;
    struct mr_bench_meta meta;
    struct mr_progress progress;
    struct mr_outlet json;
    double first_img_s; /* img_s of the first row */
    bool head_printed;
    bool damage_reported;
    bool failed; /* a sample failed under policy fail */
};

/*
 * Check the options, describe the machine, and open the dataset. Functions that return int return
 * an exit status; unless it is MR_EXIT_OK, a message was printed. After a failure there is nothing
 * to close.
 */
int mr_bench_run_open(struct mr_bench_run *run, const struct mr_bench_args *args, int argc,
                      char **argv);
/* Measure and print one row. */
int mr_bench_run_row(struct mr_bench_run *run, uint32_t workers, uint32_t round,
                     struct mr_bench_row *row_out);
/* Returns exit_status, or MR_EXIT_FAILED if a sample failed. */
int mr_bench_run_close(struct mr_bench_run *run, int exit_status);

#endif
