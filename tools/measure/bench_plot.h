/* SPDX-License-Identifier: Apache-2.0 */
/* Draws throughput against the number of workers as a PNG, by gnuplot in a child process. */
#ifndef TOOLS_BENCH_PLOT_H
#define TOOLS_BENCH_PLOT_H

#include "tools/measure/bench_report.h"

/* True if gnuplot can be run; otherwise prints a message that names the package. */
bool mr_bench_plot_check(void);
/* Draw into a temporary file, then rename it. False after a message. */
bool mr_bench_plot_store(const char *path, const struct mr_bench_meta *meta,
                         const struct mr_bench_row *rows, size_t n);

#endif
