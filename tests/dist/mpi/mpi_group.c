/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank under mpirun, by the public interface only: mpi_group SCENARIO MODULE FOLDER.
 * MR_MODULE_PATH leads to the module. MASTER_ADDR and MASTER_PORT are set if the scenario names the
 * backend.
 */
#include "tests/dist/group/contract_collectives.h"
#include "tests/dist/group/driver_double.h"
#include "tests/dist/mpi/mpi_folder_store.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define N_RANKS 4u

static const char *folder;
static uint32_t own_rank; /* for mark_left(), which runs after the group is destroyed */

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition);                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static mr_group *join_group(uint32_t timeout_ms)
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
    own_rank = mr_group_rank(group);
    return group;
}

static void check_contract(mr_group *group)
{
    char words[CONTRACT_WORDS] = "";
    if (contract_group_run(group, NULL, words) > 0) {
        fprintf(stderr, "rank %u: %s\n", mr_group_rank(group), words);
        exit(1);
    }
}

static void scenario_contract(void)
{
    mr_group *group = join_group(60000);
    check_contract(group);
    mr_group_destroy(group);
}

/* Two halves, of which only one works; then the whole group again. */
static void scenario_split(void)
{
    mr_group *half = NULL;
    mr_group *group = join_group(60000);
    uint32_t rank = mr_group_rank(group);
    must(mr_group_split(group, rank % 2, 100 - rank, &half) == MR_OK);
    must(mr_group_world_size(half) == 2 && mr_group_rank(half) == (rank < 2));
    double sum = rank;
    must(mr_group_all_reduce(half, &sum, 1, MR_F64, MR_SUM) == MR_OK);
    must(sum == (rank % 2 ? 4 : 2));
    mr_group_destroy(half);
    must(mr_group_split(group, rank == 2 ? 7 : MR_NO_COLOR, 0, &half) == MR_OK);
    must((half == NULL) == (rank != 2));
    mr_group_destroy(half);
    sum = rank;
    must(mr_group_all_reduce(group, &sum, 1, MR_F64, MR_MEAN) == MR_OK);
    must(sum == 1.5);
    mr_group_destroy(group);
}

/* Device memory is refused by name before MPI sees it, and the group still works. */
static void scenario_pointers(void)
{
    static const char words[] =
        "buffer is memory of cuda:1; mpi needs host memory: copy it, or use backend nccl";
    static float on_device[16];
    static float managed[16];
    mr_group_work *work = NULL;
    driver_double_say(on_device, sizeof on_device, true, false, 1);
    driver_double_say(managed, sizeof managed, false, true, 0);
    mr_group *group = join_group(60000);
    float own[4] = {1, 1, 1, 1};
    must(mr_group_all_reduce(group, on_device, 4, MR_F32, MR_SUM) == MR_ERR_INVALID);
    must(strcmp(mr_group_error(group)->text, words) == 0);
    must(mr_group_broadcast_async(group, on_device + 3, 1, MR_F32, 0, NULL, &work) ==
             MR_ERR_INVALID &&
         !work);
    must(mr_group_reduce_scatter(group, own, on_device, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    must(strncmp(mr_group_error(group)->text, "out is memory of cuda:1", 23) == 0);
    must(mr_group_send(group, on_device, 4, MR_F32, (mr_group_rank(group) + 1) % 4) ==
         MR_ERR_INVALID);
    for (uint32_t i = 0; i < 4; i++)
        must(own[i] == 1 && on_device[i] == 0);
    managed[0] = 1;
    must(mr_group_all_reduce(group, managed, 1, MR_F32, MR_SUM) == MR_OK && managed[0] == 4);
    mr_group_destroy(group);
}

static uint32_t count_left(void)
{
    uint32_t n_left = 0;
    for (uint32_t rank = 0; rank < N_RANKS; rank++) {
        char path[300];
        snprintf(path, sizeof path, "%s/left-%u", folder, rank);
        n_left += access(path, F_OK) == 0;
    }
    return n_left;
}

/*
 * The last call of the process. mpirun ends all ranks when one has exited without MPI_Finalize, so
 * each waits here for all others but rank 2.
 */
static void mark_left(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/left-%u", folder, own_rank);
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
    for (uint32_t i = 0; i < 100 && count_left() < N_RANKS - 1; i++)
        mr_clock_sleep_ms(100);
}

/* Rank 2 stays away from the second one. */
static void scenario_hang(void)
{
    signal(SIGTERM, SIG_IGN); /* from mpirun, when the first rank leaves */
    atexit(mark_left);
    mr_group *group = join_group(8000);
    uint32_t rank = mr_group_rank(group);
    float values[100] = {0};
    must(mr_group_all_reduce(group, values, 100, MR_F32, MR_SUM) == MR_OK);
    if (rank != 2) {
        uint64_t start_ns = mr_clock_now_ns();
        must(mr_group_all_reduce(group, values, 100, MR_F32, MR_SUM) == MR_ERR_TIMEOUT);
        must(mr_clock_now_ns() - start_ns < 16000000000u);
        must(mr_group_barrier(group) == MR_ERR_TIMEOUT);
    }
    must(folder_store_meet(folder, "hung", rank, mr_group_world_size(group)));
    mr_group_destroy(group);
}

/* Put a file that is not a module where the library looks first. */
static void hide_module(void)
{
    char path[300];
    char folders[1000];
    snprintf(path, sizeof path, "%s/libmillrace-mpi.so", folder);
    FILE *file = fopen(path, "w");
    must(file);
    fclose(file);
    snprintf(folders, sizeof folders, "%s:%s", folder, getenv("MR_MODULE_PATH"));
    setenv("MR_MODULE_PATH", folders, 1);
}

/* The rank from mpirun's environment, before the group exists. */
static uint32_t find_rank(void)
{
    const char *rank =
        getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    must(rank);
    return (uint32_t)strtoul(rank, NULL, 10);
}

static uint32_t n_lines;

static void count_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    (void)level;
    n_lines += strncmp(line, "gloo instead of mpi: cannot open backend mpi: ", 46) == 0;
}

/* Join without naming a backend or an address. */
static void join_by_default(const char *backend)
{
    mr_error error = {0};
    mr_group *group = NULL;
    mr_log_set(count_line, NULL);
    if (mr_group_create(NULL, &group, &error) != MR_OK) {
        fprintf(stderr, "mr_group_create: %s\n", error.text);
        exit(1);
    }
    must(strcmp(mr_group_backend(group), backend) == 0);
    must(n_lines == (mr_group_rank(group) == 0 && strcmp(backend, "gloo") == 0));
    double sum = mr_group_rank(group);
    must(mr_group_all_reduce(group, &sum, 1, MR_F64, MR_SUM) == MR_OK && sum == 6);
    mr_group_destroy(group);
}

static void scenario_auto(void)
{
    join_by_default("mpi");
}

static void scenario_hidden(void)
{
    hide_module();
    join_by_default("gloo");
}

/* Only rank 2 cannot open the module. The other ranks must not wait in MPI_Init. */
static void scenario_mixed(void)
{
    mr_error error = {0};
    mr_group *group = NULL;
    mr_log_set(count_line, NULL);
    uint32_t rank = find_rank();
    if (rank == 2)
        hide_module();
    must(mr_group_create(NULL, &group, &error) == MR_ERR_PEER && !group);
    must(strcmp(error.text,
                "rank 2 wants backend gloo (it cannot open the module of mpi), rank 0 mpi") == 0);
    must(n_lines == (rank == 2));
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"auto", scenario_auto},         {"hidden", scenario_hidden}, {"mixed", scenario_mixed},
    {"contract", scenario_contract}, {"split", scenario_split},   {"hang", scenario_hang},
    {"pointers", scenario_pointers},
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
