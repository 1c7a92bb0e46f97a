/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the group over MPI against MPI itself: the blocking call, and the nonblocking one with a
 * loop of MPI_Test, which a call with a deadline needs. Started by `mpirun -n N`.
 */
#include "bench/comm_latency.h"

#include <millrace/group.h>

#include <mpi.h>
#include <stdio.h>

static bool by_group(void *group, double *buffer, int count)
{
    return mr_group_all_reduce(group, buffer, (uint64_t)count, MR_F64, MR_SUM) == MR_OK;
}

static bool by_blocking(void *comm, double *buffer, int count)
{
    return MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_DOUBLE, MPI_SUM, *(MPI_Comm *)comm) ==
           MPI_SUCCESS;
}

static bool by_nonblocking(void *comm, double *buffer, int count)
{
    MPI_Request request;
    int is_done = 0;
    int code = MPI_Iallreduce(MPI_IN_PLACE, buffer, count, MPI_DOUBLE, MPI_SUM, *(MPI_Comm *)comm,
                              &request);
    while (code == MPI_SUCCESS && !is_done)
        code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    return code == MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    struct mr_latency latency = {.engine = "mpi", .n_ways = 3};
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = NULL;
    mr_error error = {0};
    MPI_Comm comm;
    mr_latency_parse(argc, argv,
                     "The group over MPI beside MPI's own all_reduce; start it with mpirun.",
                     &latency);
    options.backend = "mpi";
    if (mr_group_create(&options, &group, &error) != MR_OK || mr_group_world_size(group) < 2) {
        fprintf(stderr, "no group of two ranks or more over mpi: %s\n", error.text);
        mr_group_destroy(group);
        return 2;
    }
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int len = 0;
    MPI_Get_library_version(version, &len);
    for (int i = 0; i < len; i++) /* its first part */
        if (version[i] == ',' || version[i] == '\n' || version[i] == '"')
            version[i] = '\0';
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    latency.version = version;
    latency.rank = mr_group_rank(group);
    latency.world_size = mr_group_world_size(group);
    latency.ways[0] = (struct mr_latency_way){"mr_group_all_reduce", by_group, group};
    latency.ways[1] = (struct mr_latency_way){"MPI_Allreduce", by_blocking, &comm};
    latency.ways[2] = (struct mr_latency_way){"MPI_Iallreduce, MPI_Test", by_nonblocking, &comm};
    int result = mr_latency_run(&latency);
    MPI_Comm_free(&comm);
    mr_group_destroy(group);
    return result;
}
