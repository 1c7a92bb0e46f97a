/* SPDX-License-Identifier: Apache-2.0 */
/* The command line that all benchmarks share. */
#ifndef BENCH_ARGUMENTS_H
#define BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

struct mr_arguments {
    const char *data;
    const char *json;
    uint64_t max_photos;
    uint32_t n_repeats;
    uint32_t n_epochs; /* of one measured run, where runs have epochs */
    bool strict;
};

/* Fill in defaults and the command line. Exits with 2 and a message on what it cannot read. */
void mr_arguments_parse(int argc, char **argv, const char *doc, struct mr_arguments *arguments_out);

#endif
