/* SPDX-License-Identifier: Apache-2.0 */
/* The command line that the benchmarks share. */
#ifndef BENCH_ARGUMENTS_H
#define BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

struct mr_arguments {
    const char *data;
    const char *json;
    uint64_t max_photos;
    uint32_t n_repeats;
    uint32_t n_epochs; /* of one measured run, if runs have epochs */
    bool strict;
};

/*
 * Fill in defaults and the command line. If something cannot be parsed, prints a message and exits
 * with 2.
 */
void mr_arguments_parse(int argc, char **argv, const char *doc, struct mr_arguments *arguments_out);

#endif
