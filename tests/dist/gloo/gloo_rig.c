/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gloo module under test, with a store that threads and processes share. A rank may be killed
 * while it holds the store's mutex. So the mutex is robust, and the store is consistent after each
 * step.
 */
#include "tests/dist/gloo/gloo_rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define KEYS 256
#define KEY 128
#define VALUE 4096
#define WAIT_MS 60000 /* for a process; a loaded machine may delay it */

struct rig_store {
    pthread_mutex_t mutex;
    uint32_t n_keys;
    uint32_t broken;
    struct {
        char key[KEY];
        uint32_t len;
        uint8_t value[VALUE];
    } at[KEYS];
};

const struct mr_engine_table *rig_table(void)
{
    void *module = dlopen(MR_TEST_GLOO_MODULE, RTLD_NOW | RTLD_LOCAL);
    const struct mr_engine_table *table = module ? dlsym(module, MR_ENGINE_SYMBOL) : NULL;
    if (!table) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return table;
}

struct rig_store *rig_store_create(void)
{
    struct rig_store *store =
        mmap(NULL, sizeof *store, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;
    if (store == MAP_FAILED || pthread_mutexattr_init(&attr) != 0)
        abort();
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&store->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return store;
}

void rig_store_destroy(struct rig_store *store)
{
    pthread_mutex_destroy(&store->mutex);
    munmap(store, sizeof *store);
}

static void lock_store(struct rig_store *store)
{
    if (pthread_mutex_lock(&store->mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&store->mutex);
}

void rig_store_break(struct rig_store *store)
{
    lock_store(store);
    store->broken = 1;
    pthread_mutex_unlock(&store->mutex);
}

static int32_t store_set(void *user, const char *key, const void *value, uint32_t len,
                         mr_error *error)
{
    struct rig_store *store = user;
    lock_store(store);
    uint32_t i = store->n_keys;
    if (i == KEYS || len > VALUE || strlen(key) >= KEY) {
        pthread_mutex_unlock(&store->mutex);
        return mr_error_set(error, MR_ERR_INVALID, "the test's store cannot hold %s of %u bytes",
                            key, len);
    }
    strcpy(store->at[i].key, key);
    memcpy(store->at[i].value, value, len);
    store->at[i].len = len;
    store->n_keys = i + 1;
    pthread_mutex_unlock(&store->mutex);
    return MR_OK;
}

void rig_store_say(struct rig_store *store, const char *word)
{
    mr_error error;
    if (store_set(store, word, "", 0, &error) != MR_OK)
        abort();
}

void rig_store_await(struct rig_store *store, const char *word, uint32_t n)
{
    uint64_t end_ns = rig_now_ns() + WAIT_MS * RIG_MS;
    for (uint32_t n_said = 0; n_said < n;) {
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        n_said = 0;
        lock_store(store);
        for (uint32_t i = 0; i < store->n_keys; i++)
            n_said += strcmp(store->at[i].key, word) == 0;
        pthread_mutex_unlock(&store->mutex);
        if (n_said < n && rig_now_ns() >= end_ns) {
            fprintf(stderr, "%u of %u ranks said '%s'\n", n_said, n, word);
            abort();
        }
    }
}

/* 1: found, 0: not found, -1: a rank disconnected. */
static int find_value(struct rig_store *store, const char *key, void *value_out, uint32_t size,
                      uint32_t *len_out)
{
    int found = 0;
    lock_store(store);
    for (uint32_t i = 0; i < store->n_keys && !found; i++) {
        if (strcmp(store->at[i].key, key) != 0 || store->at[i].len > size)
            continue;
        memcpy(value_out, store->at[i].value, store->at[i].len);
        *len_out = store->at[i].len;
        found = 1;
    }
    if (!found && store->broken)
        found = -1;
    pthread_mutex_unlock(&store->mutex);
    return found;
}

static int32_t store_get(void *user, const char *key, void *value_out, uint32_t size,
                         uint32_t *len_out, uint64_t deadline_ns, mr_error *error)
{
    for (;;) {
        int found = find_value(user, key, value_out, size, len_out);
        if (found > 0)
            return MR_OK;
        if (found < 0)
            return mr_error_set(error, MR_ERR_PEER,
                                "the test's store says that rank 1 disconnected");
        if (rig_now_ns() >= deadline_ns)
            return mr_error_set(error, MR_ERR_TIMEOUT, "key '%s' is not set", key);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

static int32_t fail(mr_error *error, int32_t status, const char *format, ...)
{
    char text[MR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mr_error_set(error, (mr_status)status, "%s", text);
}

struct rig_rank rig_rank_of(struct rig_store *store, uint32_t rank, uint32_t world_size,
                            uint32_t timeout_ms)
{
    return (struct rig_rank){
        .table = rig_table(),
        .setup =
            {
                .abi = MR_ENGINE_ABI,
                .rank = rank,
                .world_size = world_size,
                .local_rank = rank,
                .deadline_ns = rig_now_ns() + timeout_ms * RIG_MS,
                .timeout_ms = timeout_ms,
                .store = {.user = store, .set = store_set, .get = store_get},
                .local_address = "127.0.0.1",
                .fail = fail,
            },
    };
}

struct start {
    struct rig_rank rank;
    int (*main)(struct rig_rank *rank);
    int result;
};

static void *thread_main(void *arg)
{
    struct start *start = arg;
    start->result = start->main(&start->rank);
    return NULL;
}

uint32_t rig_threads(uint32_t n, int (*main)(struct rig_rank *rank), void *user)
{
    struct rig_store *store = rig_store_create();
    struct start starts[RIG_RANKS];
    pthread_t threads[RIG_RANKS];
    uint32_t n_wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        starts[i] = (struct start){rig_rank_of(store, i, n, 20000), main, -1};
        starts[i].rank.user = user;
        if (pthread_create(&threads[i], NULL, thread_main, &starts[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        n_wrong += starts[i].result != 0;
    }
    rig_store_destroy(store);
    return n_wrong;
}

pid_t rig_child(struct rig_rank *rank, int (*main)(struct rig_rank *rank))
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
        int result = main(rank);
        fflush(NULL);
        _exit(result);
    }
    return child;
}

int rig_wait(pid_t child)
{
    uint64_t end_ns = rig_now_ns() + WAIT_MS * RIG_MS;
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (rig_now_ns() >= end_ns) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 200;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

uint64_t rig_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int32_t rig_run(const struct mr_engine_table *table, void *engine,
                const struct mr_collective *collective, uint32_t timeout_ms,
                const volatile uint32_t *stop, mr_error *error)
{
    return table->run(engine, collective, rig_now_ns() + timeout_ms * RIG_MS, stop, error);
}
