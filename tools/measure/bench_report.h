/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports what `millrace bench` and `millrace tune` measured: the facts common to all rows, and the
 * table.
 */
#ifndef TOOLS_BENCH_REPORT_H
#define TOOLS_BENCH_REPORT_H

#include <stdbool.h>

#include "tools/measure/bench_row.h"

/* The facts common to all rows. */
struct mr_bench_meta {
    char *command; /* the command line */
    const char *data;
    const char *device;        /* as given */
    char *transform;           /* as given, or in its long form */
    mr_loader_options options; /* resolved by the loader; num_workers is not used */
    int64_t n_samples;
    double seconds;
    double step_ms; /* how long the consumer held each batch */
    char *cpu_model;
    uint32_t n_cpus; /* CPUs that this process may use */
    char *kernel;
    char date[32]; /* UTC, ISO 8601 */
};

/* Describe the machine and copy the command line. False after a message: no memory. */
bool mr_bench_report_meta(struct mr_bench_meta *meta, int argc, char **argv);
void mr_bench_report_free(struct mr_bench_meta *meta);

/*
 * Print the table's head, then each row when it is measured, on stdout with a flush. False after a
 * message.
 */
bool mr_bench_report_head(const struct mr_bench_meta *meta);
bool mr_bench_report_row(const struct mr_bench_row *row);

#endif
