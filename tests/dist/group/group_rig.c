/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks as threads or children of a test. A hanging rank must neither block the test nor outlive
 * it.
 */
#include "tests/dist/group/group_rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "dist/group/group.h"
#include "tests/dist/group/device_engine_double.h"
#include "tests/support/folder.h"

#define CHILD_S 30
#define JOIN_MS 20000 /* on a loaded machine */

struct rank {
    pthread_t thread;
    uint32_t rank;
    uint32_t n_ranks;
    uint32_t timeout_ms; /* of each collective */
    uint32_t join_ms;    /* of the creation */
    const char *init;
    rig_main f;
    void *arg;
    mr_error error;
};

static atomic_uint n_failed;
static const char *the_backend = "gloo";
static const char *the_device;
static void *the_comm;

void rig_init(void)
{
    setenv("MR_MODULE_PATH", MR_TEST_DOUBLE, 1);
    unsetenv("MR_ENGINE_DOUBLE");
    unsetenv("MR_COMM_CHECK");
    unsetenv("MR_TOKEN");
}

void rig_tell(const char *order)
{
    if (order)
        setenv("MR_ENGINE_DOUBLE", order, 1);
    else
        unsetenv("MR_ENGINE_DOUBLE");
}

void rig_use(const char *backend, const char *device)
{
    the_backend = backend;
    the_device = device;
}

void rig_adopt(void *nccl_comm)
{
    the_comm = nccl_comm;
}

struct device_double *rig_use_device(void)
{
    struct device_double *(*get)(void) = NULL;
    void *module = dlopen(MR_TEST_DEVICE_DOUBLE "/libmillrace-nccl.so", RTLD_NOW | RTLD_LOCAL);
    if (!module)
        fail_msg("%s", dlerror());
    *(void **)&get = dlsym(module, DEVICE_DOUBLE_SYMBOL);
    assert_non_null(get);
    setenv("MR_MODULE_PATH", MR_TEST_DEVICE_DOUBLE, 1);
    rig_use("nccl", "cuda:local");
    memset((void *)get(), 0, sizeof *get());
    return get();
}

uint64_t rig_now_ms(void)
{
    return mr_clock_now_ns() / 1000000;
}

void rig_check(bool holds, const mr_group *group, const char *file, int line, const char *text)
{
    if (holds)
        return;
    atomic_fetch_add(&n_failed, 1);
    fprintf(stderr, "%s:%d: rank %u: %s does not hold (the group's error: %s)\n", file, line,
            mr_group_rank(group), text, group ? mr_group_error(group)->text : "");
}

void rig_says(const mr_group *group, const char *words, const char *file, int line)
{
    if (!strstr(mr_group_error(group)->text, words))
        rig_check(false, group, file, line, words);
}

static mr_status run_rank(struct rank *rank)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = NULL;
    options.init = rank->init;
    options.backend = the_backend;
    options.device = the_device;
    options.nccl_comm = the_comm;
    options.rank = rank->rank;
    options.world_size = rank->n_ranks;
    options.timeout_ms = rank->join_ms;
    rank->error = (mr_error){0};
    mr_status status = mr_group_create(&options, &group, &rank->error);
    if (!status) {
        group->timeout_ms = rank->timeout_ms;
        rank->f(group, rank->arg);
    } else {
        rig_check(group == NULL, NULL, __FILE__, __LINE__, "no group after a failure");
    }
    mr_group_destroy(group);
    return status;
}

static void *run_thread(void *arg)
{
    struct rank *rank = arg;
    rank->error.status = run_rank(rank);
    return NULL;
}

enum { MEETING = 600 };

/* A file in a new folder, by which the ranks meet. */
static char *make_address_file(char init_out[MEETING])
{
    char *folder = mr_test_folder_create();
    assert_true((size_t)snprintf(init_out, MEETING, "file://%s/store", folder) < MEETING);
    return folder;
}

static void run_threads(uint32_t n_ranks, uint32_t timeout_ms, uint32_t join_ms, rig_main f,
                        void *arg, mr_error results_out[RIG_RANKS])
{
    char init[MEETING];
    struct rank ranks[RIG_RANKS];
    char *folder = make_address_file(init);
    atomic_store(&n_failed, 0);
    for (uint32_t r = 0; r < n_ranks; r++) {
        ranks[r] = (struct rank){.rank = r,
                                 .n_ranks = n_ranks,
                                 .timeout_ms = timeout_ms,
                                 .join_ms = join_ms,
                                 .init = init,
                                 .f = f,
                                 .arg = arg};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_thread, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        pthread_join(ranks[r].thread, NULL);
        results_out[r] = ranks[r].error;
    }
    mr_test_folder_remove(folder);
    assert_int_equal(atomic_load(&n_failed), 0);
}

void rig_create(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg,
                mr_error results_out[RIG_RANKS])
{
    run_threads(n_ranks, timeout_ms, timeout_ms, f, arg, results_out);
}

void rig_run(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg)
{
    mr_error results[RIG_RANKS];
    run_threads(n_ranks, timeout_ms, JOIN_MS, f, arg, results);
    for (uint32_t r = 0; r < n_ranks; r++)
        if (results[r].status)
            fail_msg("rank %u: %s", r, results[r].text);
}

/* Dies with the test program; also ends after a time limit. */
static int run_child(struct rank *rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(CHILD_S);
    if (run_rank(rank)) {
        fprintf(stderr, "rank %u: %s\n", rank->rank, rank->error.text);
        return 2;
    }
    return atomic_load(&n_failed) ? 1 : 0;
}

void rig_fork(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg,
              int results_out[RIG_RANKS])
{
    char init[MEETING];
    pid_t pids[RIG_RANKS];
    char *folder = make_address_file(init);
    atomic_store(&n_failed, 0);
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct rank rank = {.rank = r,
                            .n_ranks = n_ranks,
                            .timeout_ms = timeout_ms,
                            .join_ms = timeout_ms,
                            .init = init,
                            .f = f,
                            .arg = arg};
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0)
            _exit(run_child(&rank));
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        int how = 0;
        assert_int_equal(waitpid(pids[r], &how, 0), pids[r]);
        results_out[r] = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    }
    mr_test_folder_remove(folder);
}
