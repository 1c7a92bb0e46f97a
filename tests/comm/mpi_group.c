/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a program that knows only the public interface: mpi_group SCENARIO MODULE FOLDER, under mpirun, with
 * MASTER_ADDR and MASTER_PORT set and MR_MODULE_PATH leading to the module.
 */
#include "tests/comm/contract_collectives.h"
#include "tests/comm/mpi_folder_store.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *folder;

#define must(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition);                                      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static mr_group *joined(uint32_t timeout_ms)
{
    mr_error error = {0};
    mr_group *group = NULL;
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    options.backend = "mpi";
    options.timeout_ms = timeout_ms;
    if (mr_group_create(&options, &group, &error) != MR_OK) {
        fprintf(stderr, "mr_group_create: %s\n", error.text);
        exit(1);
    }
    must(strcmp(mr_group_backend(group), "mpi") == 0);
    return group;
}

static void meets_contract(mr_group *group)
{
    char words[CONTRACT_WORDS] = "";
    if (contract_group_run(group, NULL, words) > 0) {
        fprintf(stderr, "rank %u: %s\n", mr_group_rank(group), words);
        exit(1);
    }
}

static void scenario_contract(void)
{
    mr_group *group = joined(60000);
    meets_contract(group);
    mr_group_destroy(group);
}

/* Two halves, one of which works while the other does not; then the whole again. */
static void scenario_split(void)
{
    mr_group *half = NULL;
    mr_group *group = joined(60000);
    uint32_t rank = mr_group_rank(group);
    must(mr_group_split(group, rank % 2, 100 - rank, &half) == MR_OK);
    must(mr_group_world_size(half) == 2 && mr_group_rank(half) == (rank < 2));
    double sum = rank;
    must(mr_all_reduce(half, &sum, 1, MR_F64, MR_SUM) == MR_OK);
    must(sum == (rank % 2 ? 4 : 2));
    mr_group_destroy(half);
    must(mr_group_split(group, rank == 2 ? 7 : MR_NO_COLOR, 0, &half) == MR_OK);
    must((half == NULL) == (rank != 2));
    mr_group_destroy(half);
    sum = rank;
    must(mr_all_reduce(group, &sum, 1, MR_F64, MR_MEAN) == MR_OK);
    must(sum == 1.5);
    mr_group_destroy(group);
}

static void mark_left(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/left-%s", folder, getenv("OMPI_COMM_WORLD_RANK"));
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

/* Rank 2 does not come to the second one. */
static void scenario_hang(void)
{
    signal(SIGTERM, SIG_IGN); /* of mpirun, when the first one leaves */
    atexit(mark_left);
    mr_group *group = joined(5000);
    uint32_t rank = mr_group_rank(group);
    float values[100] = {0};
    must(mr_all_reduce(group, values, 100, MR_F32, MR_SUM) == MR_OK);
    if (rank != 2) {
        uint64_t start_ns = mr_clock_now_ns();
        must(mr_all_reduce(group, values, 100, MR_F32, MR_SUM) == MR_ERR_TIMEOUT);
        must(mr_clock_now_ns() - start_ns < 10000000000u);
        must(mr_barrier(group) == MR_ERR_TIMEOUT);
    }
    must(folder_store_meet(folder, "hung", rank, mr_group_world_size(group)));
    mr_group_destroy(group);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"contract", scenario_contract},
    {"split", scenario_split},
    {"hang", scenario_hang},
};

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(100);
    folder = argv[3];
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0) {
            scenarios[i].run();
            return 0;
        }
    return 2;
}
