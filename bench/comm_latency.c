/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the group adds to MPI: the time of one all_reduce of 2, 64 and 10^6 doubles by mr_all_reduce() over mpi, beside
 * MPI_Allreduce and MPI_Iallreduce with MPI_Wait in the same processes, and over gloo. The ways take turns, so that
 * whatever the machine does meanwhile meets all of them; rank 0 prints the medians over the rounds.
 *
 * Started by `mpirun -n N`, with MASTER_ADDR and MASTER_PORT set. Exits with 1 when a sum was wrong.
 *
 * Easy to get wrong: with more ranks than cores, all that is measured is who lets whom run.
 */
#include <millrace/group.h>

#include "base/clock.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N_ROUNDS 31
#define MAX_COUNT 1000000

enum way { OURS, BLOCKING, NONBLOCKING, GLOO, N_WAYS };

struct bench {
    mr_group *mpi;
    mr_group *gloo; /* NULL where it cannot be had */
    MPI_Comm comm;
    double *buffer;
    uint64_t n_wrong;
};

static void reduce(struct bench *bench, enum way way, int count)
{
    MPI_Request request;
    bool ok = true;
    switch (way) {
    case OURS: ok = mr_all_reduce(bench->mpi, bench->buffer, (uint64_t)count, MR_F64, MR_SUM) == MR_OK; break;
    case GLOO: ok = mr_all_reduce(bench->gloo, bench->buffer, (uint64_t)count, MR_F64, MR_SUM) == MR_OK; break;
    case BLOCKING: MPI_Allreduce(MPI_IN_PLACE, bench->buffer, count, MPI_DOUBLE, MPI_SUM, bench->comm); break;
    default:
        MPI_Iallreduce(MPI_IN_PLACE, bench->buffer, count, MPI_DOUBLE, MPI_SUM, bench->comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    bench->n_wrong += !ok;
}

/* Seconds of one call. Every call sums ones, after the first of a round what the one before left: powers of the size.
 */
static double measure(struct bench *bench, enum way way, int count, uint32_t n_calls)
{
    double n_ranks = mr_group_world_size(bench->mpi);
    for (int i = 0; i < count; i++)
        bench->buffer[i] = 1;
    reduce(bench, way, count);
    for (int i = 0; i < count; i++)
        bench->n_wrong += bench->buffer[i] != n_ranks;
    for (int i = 0; i < count; i++)
        bench->buffer[i] = 0;
    MPI_Barrier(bench->comm);
    uint64_t start_ns = mr_clock_now_ns();
    for (uint32_t i = 0; i < n_calls; i++)
        reduce(bench, way, count);
    return (double)(mr_clock_now_ns() - start_ns) / 1e9 / n_calls;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_count(struct bench *bench, int count)
{
    static double seconds[N_WAYS][N_ROUNDS];
    uint32_t n_calls = count < 1000 ? 1000 : 5;
    for (uint32_t round = 0; round < N_ROUNDS; round++)
        for (enum way way = OURS; way < N_WAYS; way++)
            seconds[way][round] = way == GLOO && !bench->gloo ? 0 : measure(bench, way, count, n_calls);
    for (enum way way = OURS; way < N_WAYS; way++)
        qsort(seconds[way], N_ROUNDS, sizeof seconds[way][0], compare);
    if (mr_group_rank(bench->mpi) != 0)
        return;
    double us[N_WAYS];
    for (enum way way = OURS; way < N_WAYS; way++)
        us[way] = seconds[way][N_ROUNDS / 2] * 1e6;
    printf("%8d %12.2f %14.2f %15.2f %12.2f %10.2f %9.1f %%\n", count, us[OURS], us[BLOCKING], us[NONBLOCKING],
           us[GLOO], us[OURS] - us[NONBLOCKING], (us[OURS] / us[NONBLOCKING] - 1) * 100);
}

static mr_group *join(const char *backend)
{
    mr_error error = {0};
    mr_group *group = NULL;
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    options.backend = backend;
    if (mr_group_create(&options, &group, &error) != MR_OK)
        fprintf(stderr, "no group over %s: %s\n", backend, error.text);
    return group;
}

static int run(struct bench *bench)
{
    static const int counts[] = {2, 64, MAX_COUNT};
    if (mr_group_rank(bench->mpi) == 0)
        printf("%u ranks, medians of %d rounds, us per call\n%8s %12s %14s %15s %12s %10s %11s\n",
               mr_group_world_size(bench->mpi), N_ROUNDS, "doubles", "group (mpi)", "MPI_Allreduce", "MPI_Iallreduce",
               "group (gloo)", "added", "to Iall.");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        measure_count(bench, counts[i]);
    if (bench->n_wrong > 0)
        fprintf(stderr, "rank %u: %llu results were wrong\n", mr_group_rank(bench->mpi),
                (unsigned long long)bench->n_wrong);
    return bench->n_wrong > 0;
}

int main(void)
{
    struct bench bench = {.mpi = join("mpi"), .buffer = malloc(MAX_COUNT * sizeof(double))};
    if (!bench.mpi || !bench.buffer || mr_group_world_size(bench.mpi) < 2) {
        fprintf(stderr, "to be started by mpirun, with two ranks or more\n");
        return 2;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &bench.comm);
    bench.gloo = getenv("MR_BENCH_NO_GLOO") ? NULL : join("gloo");
    int wrong = run(&bench);
    MPI_Comm_free(&bench.comm);
    mr_group_destroy(bench.gloo);
    mr_group_destroy(bench.mpi);
    free(bench.buffer);
    return wrong;
}
