/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks with fake devices. A child must close its machine itself; otherwise its findings are not
 * reported.
 */
#include "tests/dist/nccl/nccl_world.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/folder.h"

#define CHILD_S 30
#define TIMEOUT_MS 20000

struct rank {
    const struct nccl_world *world;
    pthread_t thread;
    uint32_t rank;
    const char *init;
    ncclUniqueId id; /* of the communicator to adopt */
    mr_status status;
    mr_error *error; /* children share it with the test */
};

static atomic_uint n_failed;

void nccl_world_init(void)
{
    setenv("MR_MODULE_PATH", MR_TEST_NCCL_FOLDER, 1);
    unsetenv("MR_COMM_CHECK");
    unsetenv("MR_TOKEN");
}

uint64_t nccl_world_now_ms(void)
{
    return mr_clock_now_ns() / 1000000;
}

void nccl_world_rest_ms(uint32_t ms)
{
    mr_clock_sleep_ms(ms);
}

void nccl_world_check(bool holds, const mr_group *group, const char *file, int line,
                      const char *text)
{
    if (holds)
        return;
    atomic_fetch_add(&n_failed, 1);
    fprintf(stderr, "%s:%d: rank %u: %s does not hold (the group's error: %s)\n", file, line,
            mr_group_rank(group), text, group ? mr_group_error(group)->text : "");
}

void nccl_world_says(const mr_group *group, const char *words, const char *file, int line)
{
    if (!strstr(mr_group_error(group)->text, words))
        nccl_world_check(false, group, file, line, words);
}

float *nccl_world_floats(const mr_group *group, size_t n, float value)
{
    float *host = malloc(n * sizeof *host);
    void *device = NULL;
    for (size_t i = 0; host && i < n; i++)
        host[i] = value;
    NCCL_CHECK(group, host && cudaMalloc(&device, n * sizeof *host) == cudaSuccess);
    NCCL_CHECK(group,
               cudaMemcpy(device, host, n * sizeof *host, cudaMemcpyHostToDevice) == cudaSuccess);
    free(host);
    return device;
}

void nccl_world_expect(const mr_group *group, const float *device, size_t n, float value, int line)
{
    float *host = calloc(n, sizeof *host);
    NCCL_CHECK(group, host && cudaDeviceSynchronize() == cudaSuccess);
    NCCL_CHECK(group,
               cudaMemcpy(host, device, n * sizeof *host, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (size_t i = 0; host && i < n; i++) {
        if (host[i] == value)
            continue;
        fprintf(stderr, "line %d: element %zu is %g, not %g\n", line, i, (double)host[i],
                (double)value);
        NCCL_CHECK(group, host[i] == value);
        break;
    }
    free(host);
}

static mr_status create(struct rank *rank, void *adopt, mr_group **group_out)
{
    const struct nccl_world *world = rank->world;
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    char device[24];
    snprintf(device, sizeof device, "cuda:%u", world->same_device ? 0 : rank->rank);
    options.init = rank->init;
    options.backend = "nccl";
    options.device = world->no_device ? NULL : device;
    options.rank = rank->rank;
    options.world_size = world->n_ranks;
    options.timeout_ms = world->timeout_ms ? world->timeout_ms : TIMEOUT_MS;
    options.nccl_comm = adopt;
    return mr_group_create(&options, group_out, rank->error);
}

static void run_rank(struct rank *rank)
{
    const struct nccl_world *world = rank->world;
    mr_group *group = NULL;
    ncclComm_t comm = NULL;
    NCCL_CHECK(NULL, cudaSetDevice(world->same_device ? 0 : (int)rank->rank) == cudaSuccess);
    if (world->adopts)
        NCCL_CHECK(NULL, ncclCommInitRank(&comm, (int)world->n_ranks, rank->id, (int)rank->rank) ==
                             ncclSuccess);
    rank->status = create(rank, world->adopts ? &comm : NULL, &group);
    if (!rank->status)
        world->f(group, world->arg);
    else
        NCCL_CHECK(NULL, group == NULL);
    mr_group_destroy(group);
    if (comm)
        NCCL_CHECK(NULL, ncclCommDestroy(comm) == ncclSuccess);
}

static void *run_rank_thread(void *arg)
{
    run_rank(arg);
    return NULL;
}

static void open_machine(const struct nccl_world *world)
{
    struct double_options options = {
        .policy = world->policy, .seed = world->seed, .n_devices = world->n_ranks};
    double_open(&options);
    double_nccl_set(&world->nccl);
}

/* The child ends with the test program, and after CHILD_S. */
static int run_rank_child(struct rank *rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_S);
    open_machine(rank->world);
    run_rank(rank);
    int result = atomic_load(&n_failed) ? NCCL_WRONG : rank->status ? NCCL_NO_GROUP : NCCL_FINE;
    uint32_t n_comms = double_nccl_n_comms();
    bool found = double_close() > 0 || n_comms > 0;
    if (!found || rank->world->expects_reports)
        return result;
    fprintf(stderr, "rank %u: %u communicators are left; the double found:\n%s", rank->rank,
            n_comms, double_report());
    return result == NCCL_FINE ? NCCL_REPORTED : result;
}

enum { MEETING = 600 };

/* Make a file in a new folder, where the ranks meet. */
static char *make_meeting(char init_out[MEETING])
{
    char *folder = mr_test_folder_create();
    assert_true((size_t)snprintf(init_out, MEETING, "file://%s/store", folder) < MEETING);
    return folder;
}

static void fork_ranks(const struct nccl_world *world, const char *init, mr_error *errors,
                       int results_out[NCCL_RANKS])
{
    pid_t pids[NCCL_RANKS];
    ncclUniqueId id;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    fflush(NULL);
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        struct rank rank = {.world = world, .rank = r, .init = init, .id = id, .error = &errors[r]};
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0)
            _exit(run_rank_child(&rank));
    }
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        int how = 0;
        assert_int_equal(waitpid(pids[r], &how, 0), pids[r]);
        results_out[r] = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    }
}

void nccl_world_fork(const struct nccl_world *world, int results_out[NCCL_RANKS],
                     mr_error words_out[NCCL_RANKS])
{
    char init[MEETING];
    size_t len = NCCL_RANKS * sizeof(mr_error);
    mr_error *errors = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(errors, MAP_FAILED);
    char *folder = make_meeting(init);
    atomic_store(&n_failed, 0);
    fork_ranks(world, init, errors, results_out);
    mr_test_folder_remove(folder);
    for (uint32_t r = 0; r < world->n_ranks; r++)
        if (results_out[r] == NCCL_NO_GROUP && !words_out)
            print_error("rank %u: %s\n", r, errors[r].text);
    if (words_out)
        memcpy(words_out, errors, len);
    munmap(errors, len);
}

void nccl_world_run(const struct nccl_world *world)
{
    int results[NCCL_RANKS];
    nccl_world_fork(world, results, NULL);
    for (uint32_t r = 0; r < world->n_ranks; r++)
        assert_int_equal(results[r], NCCL_FINE);
}

void nccl_world_threads(const struct nccl_world *world)
{
    char init[MEETING];
    struct rank ranks[NCCL_RANKS];
    mr_error errors[NCCL_RANKS] = {0};
    ncclUniqueId id;
    char *folder = make_meeting(init);
    atomic_store(&n_failed, 0);
    open_machine(world);
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        ranks[r] =
            (struct rank){.world = world, .rank = r, .init = init, .id = id, .error = &errors[r]};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank_thread, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (ranks[r].status)
            print_error("rank %u: %s\n", r, errors[r].text);
    }
    mr_test_folder_remove(folder);
    for (uint32_t r = 0; r < world->n_ranks; r++)
        assert_int_equal(ranks[r].status, MR_OK);
    assert_int_equal(atomic_load(&n_failed), 0);
    assert_int_equal(double_nccl_n_comms(), 0);
    if (double_close() > 0 && !world->expects_reports)
        fail_msg("the double found:\n%s", double_report());
}
