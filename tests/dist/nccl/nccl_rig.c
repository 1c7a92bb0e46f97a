/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/dist/nccl/nccl_rig.h"

#include "base/clock.h"
#include "base/error.h"
#include "dist/group/module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 64, VALUE = 1024, TIMEOUT_MS = 10000 };

struct store {
    pthread_mutex_t lock;
    uint32_t n_keys;
    bool is_broken;
    struct {
        char key[64];
        unsigned char value[VALUE];
        uint32_t len;
    } at[KEYS];
};

struct start {
    struct rig_rank rank;
    rig_main *f;
    pthread_t thread;
};

static atomic_uint n_wrong;

void rig_check(bool holds, const struct rig_rank *rank, const char *file, int line,
               const char *text)
{
    if (holds)
        return;
    atomic_fetch_add(&n_wrong, 1);
    fprintf(stderr, "%s:%d: rank %u: %s does not hold (%s)\n", file, line, rank->rank, text,
            rank->error.text);
}

uint64_t rig_now_ms(void)
{
    return mr_clock_now_ns() / 1000000u;
}

void rig_open(uint32_t n_devices, enum double_policy policy)
{
    atomic_store(&n_wrong, 0);
    double_open(&(struct double_options){.policy = policy, .seed = 7, .n_devices = n_devices});
    double_nccl_set(&(struct double_nccl_options){.seed = 5, .progress_us = 200, .delay_us = 300});
}

void rig_close(void)
{
    uint32_t n_reports = double_close();
    if (n_reports > 0)
        fail_msg("%s", double_report());
    assert_int_equal(atomic_load(&n_wrong), 0);
    assert_int_equal(double_nccl_n_comms(), 0);
}

static int32_t store_set(void *user, const char *key, const void *value, uint32_t len,
                         mr_error *error)
{
    struct store *store = user;
    int32_t status = MR_OK;
    pthread_mutex_lock(&store->lock);
    uint32_t i = store->n_keys;
    if (i == KEYS || len > VALUE || strlen(key) >= sizeof store->at[i].key)
        status = mr_error_set(error, MR_ERR_INVALID,
                              "the test's store has no room for %s of %u bytes", key, len);
    if (status == MR_OK) {
        strcpy(store->at[i].key, key);
        memcpy(store->at[i].value, value, len);
        store->at[i].len = len;
        store->n_keys++;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* MR_PENDING: not set yet. */
static int32_t find_value(struct store *store, const char *key, void *value_out, uint32_t size,
                          uint32_t *len_out, mr_error *error)
{
    int32_t status = MR_PENDING;
    pthread_mutex_lock(&store->lock);
    for (uint32_t i = 0; i < store->n_keys && status == MR_PENDING; i++)
        if (strcmp(store->at[i].key, key) == 0 && store->at[i].len <= size) {
            memcpy(value_out, store->at[i].value, store->at[i].len);
            *len_out = store->at[i].len;
            status = MR_OK;
        }
    if (status == MR_PENDING && store->is_broken)
        status = mr_error_set(error, MR_ERR_PEER, "rank 1 disconnected");
    pthread_mutex_unlock(&store->lock);
    return status;
}

static int32_t store_get(void *user, const char *key, void *value_out, uint32_t size,
                         uint32_t *len_out, uint64_t deadline_ns, mr_error *error)
{
    for (;;) {
        int32_t status = find_value(user, key, value_out, size, len_out, error);
        if (status != MR_PENDING)
            return status;
        if (mr_clock_now_ns() >= deadline_ns)
            return mr_error_set(error, MR_ERR_TIMEOUT, "key '%s' is not set", key);
        mr_clock_sleep_ms(1);
    }
}

static int32_t fail_by(mr_error *error, int32_t status, const char *format, ...) MR_PRINTF(3, 4);

static int32_t fail_by(mr_error *error, int32_t status, const char *format, ...)
{
    char text[MR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mr_error_set(error, (mr_status)status, "%s", text);
}

void rig_break(struct rig_rank *rank)
{
    struct store *store = rank->setup.store.user;
    pthread_mutex_lock(&store->lock);
    store->is_broken = true;
    pthread_mutex_unlock(&store->lock);
}

static void *run(void *arg)
{
    struct start *start = arg;
    start->f(&start->rank);
    return NULL;
}

static struct mr_engine_setup setup_of(uint32_t rank, uint32_t n, struct store *store)
{
    return (struct mr_engine_setup){.abi = MR_ENGINE_ABI,
                                    .rank = rank,
                                    .world_size = n,
                                    .local_rank = rank,
                                    .deadline_ns =
                                        mr_clock_now_ns() + TIMEOUT_MS * UINT64_C(1000000),
                                    .timeout_ms = TIMEOUT_MS,
                                    .store = {.user = store, .set = store_set, .get = store_get},
                                    .local_address = "127.0.0.1",
                                    .device = "cuda:local",
                                    .fail = fail_by};
}

void rig_threads(uint32_t n, rig_main *f, void *arg)
{
    struct start starts[RIG_RANKS];
    const struct mr_engine_table *table = NULL;
    mr_error error;
    struct store *store = calloc(1, sizeof *store);
    assert_non_null(store);
    pthread_mutex_init(&store->lock, NULL);
    setenv("MR_MODULE_PATH", MR_TEST_NCCL, 1);
    if (mr_module_open("nccl", &table, &error))
        fail_msg("%s", error.text);
    for (uint32_t i = 0; i < n; i++) {
        starts[i] = (struct start){.f = f,
                                   .rank = {.rank = i,
                                            .table = table,
                                            .calls = table->device,
                                            .setup = setup_of(i, n, store),
                                            .arg = arg}};
        assert_int_equal(pthread_create(&starts[i].thread, NULL, run, &starts[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(starts[i].thread, NULL);
    pthread_mutex_destroy(&store->lock);
    free(store);
    assert_int_equal(atomic_load(&n_wrong), 0);
}

int32_t rig_create(struct rig_rank *rank)
{
    return rank->table->create(&rank->setup, &rank->engine, &rank->error);
}

void rig_destroy(struct rig_rank *rank, bool healthy)
{
    rank->table->destroy(rank->engine, healthy);
    rank->engine = NULL;
}

struct inner {
    rig_main *f;
    void *arg;
};

static void run_with_engine(struct rig_rank *rank)
{
    const struct inner *inner = rank->arg;
    rank->arg = inner->arg;
    RIG_CHECK(rank, cudaSetDevice((int)rank->rank) == cudaSuccess);
    int32_t status = rig_create(rank);
    RIG_CHECK(rank, status == MR_OK);
    if (status != MR_OK)
        return;
    inner->f(rank);
    if (rank->engine)
        rig_destroy(rank, true);
}

void rig_engines(uint32_t n, rig_main *f, void *arg)
{
    struct inner inner = {f, arg};
    rig_threads(n, run_with_engine, &inner);
}

int32_t rig_issue(struct rig_rank *rank, struct mr_collective collective, void **ticket_out)
{
    volatile uint32_t stop = 0;
    collective.number = rank->n_issued++;
    return rank->calls->issue(rank->engine, &collective,
                              mr_clock_now_ns() + TIMEOUT_MS * UINT64_C(1000000), &stop, ticket_out,
                              &rank->error);
}

int32_t rig_poll(struct rig_rank *rank, void *ticket)
{
    uint64_t end_ms = rig_now_ms() + TIMEOUT_MS;
    int32_t status;
    while ((status = rank->calls->test(rank->engine, ticket, &rank->error)) == MR_PENDING &&
           rig_now_ms() < end_ms)
        mr_clock_sleep_ms(1);
    return status;
}

int32_t rig_call(struct rig_rank *rank, struct mr_collective collective)
{
    void *ticket = NULL;
    int32_t status = rig_issue(rank, collective, &ticket);
    if (status != MR_OK)
        return status;
    status = rig_poll(rank, ticket);
    rank->calls->drop(rank->engine, ticket);
    return status;
}

struct mr_collective rig_sum(double *values, uint32_t n)
{
    return (struct mr_collective){.kind = MR_COLLECTIVE_ALL_REDUCE,
                                  .in = values,
                                  .out = values,
                                  .count = n,
                                  .dtype = MR_F64,
                                  .op = MR_SUM,
                                  .on_host = true};
}
