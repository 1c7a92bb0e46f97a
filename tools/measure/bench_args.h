/* SPDX-License-Identifier: Apache-2.0 */
/* The options that bench and tune share: those of the loader, and how to measure it. */
#ifndef TOOLS_BENCH_ARGS_H
#define TOOLS_BENCH_ARGS_H

#include "tools/measure/bench_row.h"
#include "tools/loader_args.h"

struct mr_bench_args {
    struct mr_loader_args common;
    struct mr_bench_how how;
    const char *json;
    const char *device;                  /* as given; NULL: the default */
    char *device_names;                  /* a copy of device, cut at the commas */
    const char *devices[MR_MAX_DEVICES]; /* into device_names */
};

void mr_bench_args_init(struct mr_bench_args *args, double seconds);
void mr_bench_args_free(struct mr_bench_args *args);
/* For struct argp_child; its input is a struct mr_bench_args. */
const struct argp *mr_bench_args_argp(void);

#endif
