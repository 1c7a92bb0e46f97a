/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine over NCCL: the table, and how an engine begins and ends. NCCL's functions wait for the
 * work on the device, and cudaFree() may. That work may wait for a rank that hangs. So a separate
 * thread ends the engine. If the thread hangs, it is abandoned together with the engine.
 */
#include "dist/nccl/nccl_state.h"

#include "base/clock.h"
#include "base/error.h"
#include "dist/nccl/nccl_call.h"
#include "dist/nccl/nccl_comm.h"
#include "dist/nccl/nccl_detached.h"
#include "dist/nccl/nccl_issue.h"
#include "dist/nccl/nccl_metric_sums.h"
#include "dist/nccl/nccl_pool.h"
#include "dist/nccl/nccl_ranks.h"
#include "dist/nccl/nccl_sums.h"
#include "pinned/cuda_find.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DESTROY_MS 3500
#define OPEN_LATE_MS 1000 /* beyond the deadline: normally NCCL has returned by then */

static bool parse_number(const char *text, uint32_t *number_out)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    *number_out = (uint32_t)number;
    return isdigit((unsigned char)text[0]) && !*end && number <= INT32_MAX;
}

static int32_t parse_device(const struct mr_engine_setup *setup, uint32_t *ordinal_out,
                            mr_error *error)
{
    const char *device = setup->device;
    if (!device || !device[0])
        return mr_error_set(
            error, MR_ERR_INVALID,
            "nccl needs a device: \"cuda:local\" (chosen by the local rank) or \"cuda:N\"");
    *ordinal_out = setup->local_rank;
    if (strcmp(device, "cuda:local") == 0)
        return MR_OK;
    if (strncmp(device, "cuda:", 5) != 0 || !parse_number(device + 5, ordinal_out))
        return mr_error_set(error, MR_ERR_INVALID,
                            "device '%.60s' is neither \"cuda:local\" nor \"cuda:N\"", device);
    return MR_OK;
}

static int32_t find_device(const struct mr_engine_setup *setup, int32_t *device_out,
                           mr_error *error)
{
    uint32_t ordinal = 0;
    uint32_t n = 0;
    /* the communicator knows its device */
    bool is_known = setup->adopt && (!setup->device || !setup->device[0]);
    int32_t status = is_known ? MR_OK : parse_device(setup, &ordinal, error);
    if (status == MR_OK)
        status = mr_cuda_find_count(&n, error);
    if (status == MR_OK && is_known)
        *device_out = -1;
    if (status != MR_OK || is_known)
        return status;
    bool is_local = strcmp(setup->device, "cuda:local") == 0;
    /*
     * A launcher may show each rank only its own GPU. If two ranks see the same one, they are
     * refused later.
     */
    if (is_local && n == 1)
        ordinal = 0;
    if (ordinal >= n && is_local)
        return mr_error_set(error, MR_ERR_NO_DEVICE,
                            "cuda:local: the local rank is %u, but only %u GPUs are visible",
                            ordinal, n);
    if (ordinal >= n)
        return mr_error_set(error, MR_ERR_NO_DEVICE, "cuda:%u does not exist: %u GPUs are visible",
                            ordinal, n);
    *device_out = (int32_t)ordinal;
    return MR_OK;
}

/* The NCCL that was loaded may be older than the one that the module was built with. */
static int32_t check_version(mr_error *error)
{
    int version = 0;
    char text[MR_NCCL_VERSION_TEXT];
    int32_t status = mr_nccl_call_nccl(NULL, ncclGetVersion(&version), "ncclGetVersion", error);
    if (status != MR_OK || version >= NCCL_VERSION(2, 18, 0))
        return status;
    mr_nccl_call_version(version, text);
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "libnccl.so.2 is NCCL %s, 2.18 or later is needed", text);
}

/* The engine's device is the current one. */
static int32_t make_parts(struct mr_nccl_engine *engine, mr_error *error)
{
    struct mr_nccl_ticket *ticket = NULL;
    int32_t status =
        mr_nccl_call_cuda(engine, cudaStreamCreateWithFlags(&engine->stream, cudaStreamNonBlocking),
                          "cudaStreamCreateWithFlags", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine,
                                   cudaEventCreateWithFlags(&engine->ready, cudaEventDisableTiming),
                                   "cudaEventCreateWithFlags", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaMalloc(&engine->cell, sizeof(int64_t)), "cudaMalloc",
                                   error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(
            engine, cudaMemsetAsync(engine->cell, 0, sizeof(int64_t), engine->stream),
            "cudaMemsetAsync", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, mr_nccl_sums_load(),
                                   "loading the kernels of the metrics", error);
    if (status == MR_OK) /* the first ticket is made now */
        status = mr_nccl_pool_take(engine, 1, &ticket, error);
    mr_nccl_pool_drop(engine, ticket);
    return status;
}

/* Owned by the caller, or by the thread after the caller has timed out. */
struct opening {
    struct mr_nccl_engine *engine;
    struct mr_engine_setup setup;
    ncclUniqueId id;
    int32_t status;
    mr_error error;
};

static void open_parts(void *arg)
{
    struct opening *opening = arg;
    struct mr_nccl_engine *engine = opening->engine;
    opening->status = mr_nccl_detached_enter(engine, &opening->error);
    if (opening->status == MR_OK)
        opening->status = make_parts(engine, &opening->error);
    if (opening->status == MR_OK && !engine->is_adopted)
        opening->status = mr_nccl_comm_open(engine, &opening->setup, &opening->id, &opening->error);
}

/* *is_left: the caller timed out, and the thread owns the engine. */
static int32_t open_detached(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                             const ncclUniqueId *id, bool *is_left, mr_error *error)
{
    uint64_t now_ns = mr_clock_now_ns();
    uint64_t left_ms = setup->deadline_ns > now_ns ? (setup->deadline_ns - now_ns) / 1000000u : 0;
    struct opening *opening = calloc(1, sizeof *opening);
    if (!opening)
        return mr_error_memory(error, sizeof *opening);
    opening->engine = engine;
    opening->setup = *setup;
    opening->id = *id;
    *is_left = !mr_nccl_detached_do(open_parts, opening, left_ms + OPEN_LATE_MS);
    if (*is_left)
        return mr_error_set(error, MR_ERR_TIMEOUT,
                            "ncclCommInitRankConfig did not return by the deadline");
    int32_t status = opening->status;
    if (status != MR_OK)
        mr_error_copy(error, &opening->error);
    free(opening);
    return status;
}

static int32_t open_engine(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                           bool *is_left, mr_error *error)
{
    ncclUniqueId id;
    int32_t status = setup->adopt ? mr_nccl_comm_adopt(engine, setup, error) : MR_OK;
    if (status == MR_OK)
        status = mr_nccl_ranks_agree(engine, setup, &id, error);
    return status == MR_OK ? open_detached(engine, setup, &id, is_left, error) : status;
}

struct end {
    struct mr_nccl_engine *engine;
    bool healthy;
};

/* Failures here cannot be reported any more. */
static void end_engine(void *arg)
{
    struct end *end = arg;
    struct mr_nccl_engine *engine = end->engine;
    if (engine->device >= 0)
        (void)mr_nccl_detached_enter(engine, NULL);
    mr_nccl_comm_close(engine, end->healthy);
    if (engine->stream) { /* freeing memory does not wait for the work that uses it */
        mr_nccl_metric_sums_follow(engine);
        (void)cudaStreamSynchronize(engine->stream);
    }
    mr_nccl_metric_sums_free(engine);
    mr_nccl_pool_free(engine);
    if (engine->cell)
        (void)cudaFree(engine->cell);
    if (engine->ready)
        (void)cudaEventDestroy(engine->ready);
    if (engine->stream)
        (void)cudaStreamDestroy(engine->stream);
    pthread_mutex_destroy(&engine->comm_lock);
    pthread_mutex_destroy(&engine->pool_lock);
    free(engine);
    free(end);
}

static void destroy_engine(void *user, bool healthy)
{
    struct mr_nccl_engine *engine = user;
    if (!engine)
        return;
    struct end *end = calloc(1, sizeof *end);
    if (!end)
        return; /* out of memory: the engine is leaked, as if NCCL hung */
    *end = (struct end){.engine = engine, .healthy = healthy && !atomic_load(&engine->is_aborted)};
    (void)mr_nccl_detached_do(end_engine, end, DESTROY_MS);
}

static int32_t create_engine(const struct mr_engine_setup *setup, void **engine_out,
                             mr_error *error)
{
    int32_t device = -1;
    bool is_left = false;
    *engine_out = NULL;
    if (setup->abi != MR_ENGINE_ABI)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "the module has interface %u, the library %u",
                           MR_ENGINE_ABI, setup->abi);
    int32_t status = check_version(error);
    if (status == MR_OK)
        status = find_device(setup, &device, error);
    if (status != MR_OK)
        return status;
    struct mr_nccl_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return mr_error_memory(error, sizeof *engine);
    engine->rank = setup->rank;
    engine->n_ranks = setup->world_size;
    engine->device = device;
    atomic_store(&engine->caller, (unsigned long)pthread_self());
    pthread_mutex_init(&engine->comm_lock, NULL);
    pthread_mutex_init(&engine->pool_lock, NULL);
    status = open_engine(engine, setup, &is_left, error);
    if (status == MR_OK)
        *engine_out = engine;
    else if (!is_left)
        destroy_engine(engine, false);
    return status;
}

static int32_t get_ordinal(const void *user)
{
    const struct mr_nccl_engine *engine = user;
    return engine->device;
}

static const struct mr_engine_device device_table = {
    .issue = mr_nccl_issue,
    .test = mr_nccl_issue_test,
    .wait = mr_nccl_issue_wait,
    .drop = mr_nccl_pool_drop,
    .health = mr_nccl_comm_health,
    .abort = mr_nccl_comm_abort,
    .sums_create = mr_nccl_metric_sums_create,
    .sums_add = mr_nccl_metric_sums_add,
    .sums_destroy = mr_nccl_metric_sums_destroy,
    .ordinal = get_ordinal,
};

#define WORDS(a, b, c) WORDS_(a, b, c)
#define WORDS_(a, b, c) "NCCL " #a "." #b "." #c

/*
 * No split: create() is enough. No check: the library itself asks the driver whose memory a pointer
 * is.
 */
MR_API extern const struct mr_engine_table mr_engine_table;
const struct mr_engine_table mr_engine_table = {
    .abi = MR_ENGINE_ABI,
    .name = "nccl",
    .version = WORDS(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),
    .on_device = true,
    .create = create_engine,
    .destroy = destroy_engine,
    .device = &device_table,
};
