/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank under mpirun: mpi_rank SCENARIO MODULE FOLDER. It opens the module as the library does,
 * without linking to it. If something is wrong, it prints a line on stderr and exits with 1. Rank
 * and size come from the environment, as a launcher's do, because the module compares them with
 * MPI's.
 */
#include "dist/group/engine_table.h"
#include "tests/dist/mpi/mpi_folder_store.h"
#include "tests/dist/mpi/mpi_oracle.h"
#include "tests/dist/mpi/mpi_sums.h"
#include "tests/support/processes.h"

#include "base/clock.h"
#include "base/error.h"

#include <dirent.h>
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND 1000000000ull

static const struct mr_engine_table *table;
static mr_mpi_bootstrap_function *bootstrap;
static const char *folder;
static uint32_t mpi_rank; /* from mpirun's environment */
static uint32_t mpi_size;

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u: line %d: %s does not hold\n", mpi_rank, __LINE__,            \
                    #condition);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The setup of a group whose keys start with prefix. */
static struct mr_engine_setup setup_of(struct folder_store *store, const char *prefix,
                                       uint32_t rank, uint32_t n)
{
    snprintf(store->path, sizeof store->path, "%s", folder);
    snprintf(store->prefix, sizeof store->prefix, "%s", prefix);
    return (struct mr_engine_setup){.abi = MR_ENGINE_ABI,
                                    .rank = rank,
                                    .world_size = n,
                                    .deadline_ns = mr_clock_now_ns() + 20 * SECOND,
                                    .timeout_ms = 20000,
                                    .store = folder_store_of(store),
                                    .fail = mr_error_set};
}

static struct oracle make_engine(struct mr_engine_setup setup)
{
    mr_error error = {0};
    struct oracle oracle = {.table = table, .rank = setup.rank, .n = setup.world_size};
    if (table->create(&setup, &oracle.engine, &error) != MR_OK) {
        fprintf(stderr, "rank %u: create: %s\n", mpi_rank, error.text);
        exit(1);
    }
    return oracle;
}

static struct oracle make_world(void)
{
    struct folder_store store;
    return make_engine(setup_of(&store, "world", mpi_rank, mpi_size));
}

/* The engine uses the store only while it is created, so the store may be removed afterwards. */
static void finish_well(struct oracle *oracle)
{
    must(oracle->n_wrong == 0);
    must(oracle->n_checked > 0);
    table->destroy(oracle->engine, true);
}

static void sum_ranks(struct oracle *oracle)
{
    mr_error error = {0};
    int64_t value = oracle->rank;
    must(oracle_run(oracle, MR_COLLECTIVE_ALL_REDUCE, &value, &value, 1, MR_I64, MR_SUM, 0,
                    &error) == MR_OK);
    must(value == (int64_t)oracle->n * (oracle->n - 1) / 2);
}

static void scenario_oracle(void)
{
    static const uint64_t counts[] = {1, 2, 3, 64, 1000, 20000};
    struct oracle oracle = make_world();
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        oracle_try(&oracle, counts[i]);
    finish_well(&oracle);
}

/* Counts around 97 elements, the size of a part, for each rank and for all ranks together. */
static void scenario_parts(void)
{
    static const uint64_t counts[] = {24, 25, 96, 97, 98, 400};
    struct oracle oracle = make_world();
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        oracle_try(&oracle, counts[i]);
    finish_well(&oracle);
}

/* The launcher's order is the reverse of MPI's. */
static void scenario_reordered(void)
{
    struct folder_store store;
    struct oracle oracle =
        make_engine(setup_of(&store, "world", mpi_size - 1 - mpi_rank, mpi_size));
    oracle_try(&oracle, 5);
    finish_well(&oracle);
}

static void scenario_rounding(void)
{
    struct oracle oracle = make_world();
    mpi_sums_try_rounding(&oracle);
    finish_well(&oracle);
}

static void scenario_overflow(void)
{
    struct oracle oracle = make_world();
    mpi_sums_try_overflow(&oracle);
    finish_well(&oracle);
}

static void scenario_unaligned(void)
{
    struct oracle oracle = make_world();
    mpi_sums_try_unaligned(&oracle);
    finish_well(&oracle);
}

/* Two halves in reverse order. The parent is destroyed first. */
static void scenario_split(void)
{
    mr_error error = {0};
    struct folder_store store;
    struct oracle whole = make_world();
    uint32_t color = mpi_rank % 2;
    uint32_t n = (mpi_size + 1 - color) / 2;
    struct mr_engine_setup setup =
        setup_of(&store, color ? "odd" : "even", n - 1 - mpi_rank / 2, n);
    struct oracle half = {.table = table, .rank = setup.rank, .n = n};
    must(table->split(whole.engine, color, 0, &setup, &half.engine, &error) == MR_OK);
    for (uint32_t i = 0; i < 20; i++) {
        sum_ranks(&half);
        sum_ranks(&whole);
    }
    void *none = &none;
    must(table->split(whole.engine, MR_NO_COLOR, 0, &setup, &none, &error) == MR_OK && !none);
    oracle_try(&whole, 3);
    finish_well(&whole);
    oracle_try(&half, 3);
    finish_well(&half);
}

static uint32_t n_open_files(void)
{
    uint32_t n = 0;
    DIR *open_files = opendir("/proc/self/fd");
    must(open_files);
    while (readdir(open_files))
        n++;
    closedir(open_files);
    return n;
}

static long resident_pages(void)
{
    long size = 0;
    long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    must(file && fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident;
}

static void scenario_cycles(void)
{
    uint32_t files = 0;
    long pages = 0;
    const char *wanted = getenv("MR_TEST_CYCLES");
    uint32_t n_cycles = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : 50;
    for (uint32_t i = 0; i < n_cycles; i++) {
        char prefix[32];
        struct folder_store store;
        snprintf(prefix, sizeof prefix, "cycle%u", i);
        struct oracle oracle = make_engine(setup_of(&store, prefix, mpi_rank, mpi_size));
        sum_ranks(&oracle);
        table->destroy(oracle.engine, true);
        if (i == n_cycles / 5) {
            files = n_open_files();
            pages = resident_pages();
        }
    }
    must(n_open_files() == files);
#ifndef MR_TEST_ASAN /* AddressSanitizer keeps freed memory */
    must(resident_pages() < pages + 512);
#endif
    if (wanted)
        fprintf(stderr, "rank %u: %ld pages, then %ld\n", mpi_rank, pages, resident_pages());
}

/* Runs after the module's exit handlers: registered first, so called last. */
static void mark_left(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/left-%u", folder, mpi_rank);
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

/*
 * mpirun ends all ranks when the first one exits without MPI_Finalize. The test is about how each
 * rank exits by itself.
 */
static void exit_without_mpirun(void)
{
    signal(SIGTERM, SIG_IGN);
    atexit(mark_left);
}

/* The last rank stays away. */
static void scenario_hang(void)
{
    mr_error error = {0};
    exit_without_mpirun();
    struct oracle oracle = make_world();
    sum_ranks(&oracle);
    if (mpi_rank == mpi_size - 1) {
        must(folder_store_meet(folder, "hung", mpi_rank, mpi_size));
        table->destroy(oracle.engine, false);
        return;
    }
    static const uint32_t stop = 0;
    static double buffer[1000];
    uint64_t start_ns = mr_clock_now_ns();
    const struct mr_collective collective = {.kind = MR_COLLECTIVE_ALL_REDUCE,
                                             .in = buffer,
                                             .out = buffer,
                                             .count = 1000,
                                             .dtype = MR_F64};
    must(table->run(oracle.engine, &collective, start_ns + SECOND / 2, &stop, &error) ==
         MR_ERR_TIMEOUT);
    uint64_t took_ns = mr_clock_now_ns() - start_ns;
    must(took_ns >= SECOND / 2 && took_ns < 20 * SECOND);
    must(strstr(error.text, "all_reduce of 1000 f64 did not end within"));
    must(table->run(oracle.engine, &collective, start_ns + 60 * SECOND, &stop, &error) ==
         MR_ERR_STATE);
    struct folder_store store;
    struct mr_engine_setup setup = setup_of(&store, "again", mpi_rank, mpi_size);
    void *engine = NULL;
    must(table->create(&setup, &engine, &error) == MR_ERR_STATE && !engine);
    must(folder_store_meet(folder, "hung", mpi_rank, mpi_size));
    table->destroy(oracle.engine, false);
}

static void *set_soon(void *stop)
{
    mr_clock_sleep_ms(200);
    __atomic_store_n((uint32_t *)stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A recv without a sender, until its stop flag is set. */
static void scenario_stop(void)
{
    mr_error error = {0};
    static uint32_t stop = 0;
    static float buffer[4];
    pthread_t thread;
    exit_without_mpirun();
    struct oracle oracle = make_world();
    const struct mr_collective collective = {.kind = MR_COLLECTIVE_RECV,
                                             .root = (mpi_rank + 1) % mpi_size,
                                             .in = buffer,
                                             .out = buffer,
                                             .count = 4,
                                             .dtype = MR_F32};
    uint64_t start_ns = mr_clock_now_ns();
    must(pthread_create(&thread, NULL, set_soon, &stop) == 0);
    must(table->run(oracle.engine, &collective, start_ns + 60 * SECOND, &stop, &error) ==
         MR_ERR_CANCELED);
    must(mr_clock_now_ns() - start_ns < 20 * SECOND);
    pthread_join(thread, NULL);
    must(folder_store_meet(folder, "stopped", mpi_rank, mpi_size));
    table->destroy(oracle.engine, false);
}

/* All ranks have destroyed their groups, but one does not exit. */
static void scenario_late_exit(void)
{
    struct folder_store store;
    exit_without_mpirun();
    struct mr_engine_setup setup = setup_of(&store, "world", mpi_rank, mpi_size);
    setup.timeout_ms = 500;
    struct oracle oracle = make_engine(setup);
    sum_ranks(&oracle);
    table->destroy(oracle.engine, true);
    if (mpi_rank == 0)
        mr_clock_sleep_ms(4000);
}

/* The sender sends less than expected. */
static void scenario_short_send(void)
{
    mr_error error = {0};
    double buffer[5] = {0};
    exit_without_mpirun();
    struct oracle oracle = make_world();
    if (mpi_rank == 0)
        must(oracle_run(&oracle, MR_COLLECTIVE_SEND, buffer, buffer, 3, MR_F64, 0, 1, &error) ==
             MR_OK);
    if (mpi_rank == 1) {
        must(oracle_run(&oracle, MR_COLLECTIVE_RECV, buffer, buffer, 5, MR_F64, 0, 0, &error) ==
             MR_ERR_PEER);
        must(strstr(error.text, "recv of 5 f64: rank 0 sent 3"));
    }
    must(folder_store_meet(folder, "short", mpi_rank, mpi_size));
    table->destroy(oracle.engine, mpi_rank != 1);
}

/* A launcher's world of two in an MPI world of four. */
static void scenario_wrong_size(void)
{
    mr_error error = {0};
    void *engine = &engine;
    struct folder_store store;
    struct mr_engine_setup setup =
        setup_of(&store, mpi_rank < 2 ? "first" : "second", mpi_rank % 2, 2);
    must(table->create(&setup, &engine, &error) == MR_ERR_PEER && !engine);
    must(strstr(error.text, "is one of 4 in MPI, but the group has 2"));
}

/* MPI was initialised without threads. */
static void scenario_single(void)
{
    mr_error error = {0};
    void *engine = NULL;
    struct folder_store store;
    must(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    struct mr_engine_setup setup = setup_of(&store, "world", mpi_rank, mpi_size);
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED) {
        must(table->create(&setup, &engine, &error) == MR_ERR_UNSUPPORTED);
        must(strstr(error.text, "MPI_THREAD_SINGLE") && strstr(error.text, "MPI_Init_thread"));
    }
    MPI_Finalize();
    must(table->create(&setup, &engine, &error) == MR_ERR_STATE && strstr(error.text, "finalised"));
}

/* The program's communicator, in another order. The program still owns it. */
static void scenario_adopt(void)
{
    int level = 0;
    int finalized = 0;
    int rank = 0;
    MPI_Comm turned = MPI_COMM_NULL;
    struct folder_store store;
    must(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    must(MPI_Comm_split(MPI_COMM_WORLD, 0, -(int)mpi_rank, &turned) == MPI_SUCCESS);
    MPI_Comm_rank(turned, &rank);
    struct mr_engine_setup setup = setup_of(&store, "world", (uint32_t)rank, mpi_size);
    setup.adopt = &turned;
    struct oracle oracle = make_engine(setup);
    oracle_try(&oracle, 7);
    finish_well(&oracle);
    must(MPI_Barrier(turned) == MPI_SUCCESS);
    must(MPI_Comm_free(&turned) == MPI_SUCCESS);
    must(MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized);
    must(MPI_Finalize() == MPI_SUCCESS);
}

static void scenario_adopt_too_early(void)
{
    mr_error error = {0};
    void *engine = NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    struct folder_store store;
    struct mr_engine_setup setup = setup_of(&store, "world", mpi_rank, mpi_size);
    setup.adopt = &comm;
    must(table->create(&setup, &engine, &error) == MR_ERR_INVALID);
    must(strstr(error.text, "not initialised"));
}

static void *sum_often(void *user)
{
    for (uint32_t i = 0; i < 200; i++)
        sum_ranks(user);
    return NULL;
}

/* Two groups at once, in two threads. */
static void use_two_at_once(void)
{
    mr_error error = {0};
    pthread_t thread;
    struct folder_store store;
    struct oracle first = make_world();
    struct oracle second = {.table = table, .rank = mpi_rank, .n = mpi_size};
    struct mr_engine_setup setup = setup_of(&store, "second", mpi_rank, mpi_size);
    must(pthread_create(&thread, NULL, sum_often, &first) == 0);
    must(table->split(first.engine, 0, 0, &setup, &second.engine, &error) == MR_OK);
    sum_often(&second);
    pthread_join(thread, NULL);
    table->destroy(second.engine, true);
    table->destroy(first.engine, true);
}

/* The program has initialised MPI so that threads take turns. */
static void scenario_serialized(void)
{
    int level = 0;
    must(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) == MPI_SUCCESS);
    use_two_at_once();
    must(MPI_Finalize() == MPI_SUCCESS);
}

/* All ranks get rank 0's bytes before a store exists. MPI is finalised if nothing else needs it. */
static void bootstrap_address(bool is_all)
{
    char bytes[273] = "";
    mr_error error = {0};
    int finalized = 0;
    struct folder_store store;
    struct mr_engine_setup setup = setup_of(&store, "world", mpi_rank, mpi_size);
    memset(bytes, mpi_rank == 0 ? 'a' : 'b', sizeof bytes - 1);
    must(bootstrap(&setup, is_all, bytes, sizeof bytes, &error) == MR_OK);
    must(strspn(bytes, "a") == sizeof bytes - 1);
    must(MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized == !is_all);
}

static void scenario_bootstrap(void)
{
    bootstrap_address(false);
    struct oracle oracle = make_world();
    sum_ranks(&oracle);
    table->destroy(oracle.engine, true);
}

static void scenario_bootstrap_all(void)
{
    bootstrap_address(true);
}

/* As if the mpirun of another MPI had started each rank. */
static void scenario_bootstrap_alone(void)
{
    char byte = 0;
    mr_error error = {0};
    struct folder_store store;
    struct mr_engine_setup setup = setup_of(&store, "world", 0, 2);
    must(bootstrap(&setup, true, &byte, 1, &error) == MR_ERR_PEER);
    must(strstr(error.text, "rank 0 of 2 is rank 0 of 1 in MPI"));
}

/*
 * A child that exits must not finalise MPI, and must not wait for a thread that it does not have.
 */
static void scenario_fork(void)
{
    struct oracle oracle = make_world();
    sum_ranks(&oracle);
    table->destroy(oracle.engine, true);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        alarm(5);
        exit(0);
    }
    int status = 0;
    must(waitpid(child, &status, 0) == child && status == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"oracle", scenario_oracle},
    {"parts", scenario_parts},
    {"reordered", scenario_reordered},
    {"rounding", scenario_rounding},
    {"overflow", scenario_overflow},
    {"unaligned", scenario_unaligned},
    {"split", scenario_split},
    {"cycles", scenario_cycles},
    {"hang", scenario_hang},
    {"stop", scenario_stop},
    {"late_exit", scenario_late_exit},
    {"short_send", scenario_short_send},
    {"wrong_size", scenario_wrong_size},
    {"single", scenario_single},
    {"adopt", scenario_adopt},
    {"adopt_too_early", scenario_adopt_too_early},
    {"multiple", use_two_at_once},
    {"serialized", scenario_serialized},
    {"fork", scenario_fork},
    {"bootstrap", scenario_bootstrap},
    {"bootstrap_all", scenario_bootstrap_all},
    {"bootstrap_alone", scenario_bootstrap_alone},
};

/* Read Open MPI's variable, or that of MPICH and its relatives. */
static uint32_t read_number(const char *name, const char *other, uint32_t otherwise)
{
    const char *text = getenv(name) ? getenv(name) : getenv(other);
    return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(100);
    folder = argv[3];
    mpi_rank = read_number("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0);
    mpi_size = read_number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
    void *module = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    table = dlsym(module, MR_ENGINE_SYMBOL);
    must(table && table->abi == MR_ENGINE_ABI && strcmp(table->name, "mpi") == 0 &&
         !table->on_device);
    bootstrap = (mr_mpi_bootstrap_function *)dlsym(module, MR_MPI_BOOTSTRAP_SYMBOL);
    must(bootstrap);
    dlclose(module); /* the module stays loaded */
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0) {
            scenarios[i].run();
            return 0;
        }
    return 2;
}
