/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what the group adds to its engine's library: the time of mr_group_all_reduce() against
 * the library's own all_reduce, in the same processes, in turns. METHOD.md defines every column of
 * the output.
 */
#ifndef BENCH_COMM_LATENCY_H
#define BENCH_COMM_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define MR_LATENCY_WAYS 4

/*
 * One way to add up count doubles over all ranks, in place. The first way is the group's; the
 * others are compared with it.
 */
struct mr_latency_way {
    const char *name; /* "MPI_Allreduce" */
    bool (*reduce)(void *user, double *buffer, int count);
    void *user;
};

struct mr_latency {
    const char *engine; /* "gloo" */
    const char *version;
    uint32_t rank;
    uint32_t world_size;
    uint32_t n_rounds; /* 0: the default */
    const char *json;  /* rank 0 writes the figures to it; NULL: no file */
    bool strict;
    uint32_t n_ways;
    struct mr_latency_way ways[MR_LATENCY_WAYS];
};

/*
 * Parse the command line's options into n_rounds, json and strict. Exits with 2 if something cannot
 * be parsed, and with 0 for --help.
 */
void mr_latency_parse(int argc, char **argv, const char *doc, struct mr_latency *latency);

/*
 * Measure; rank 0 prints rows of a Markdown table. Returns the program's exit status: 1 if a sum
 * was wrong or an aim was missed.
 */
int mr_latency_run(const struct mr_latency *latency);

#endif
