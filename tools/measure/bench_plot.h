/* SPDX-License-Identifier: Apache-2.0 */
/* Throughput against the number of workers as a PNG, drawn by gnuplot in a child process. */
#ifndef TOOLS_BENCH_PLOT_H
#define TOOLS_BENCH_PLOT_H

#include "tools/measure/bench_report.h"

/* Whether gnuplot is there; prints a message that names the package when not. */
bool mr_bench_plot_check(void);
/* Draw into a temporary file, then rename it. False after a message. */
bool mr_bench_plot_store(const char *path, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n);

#endif
