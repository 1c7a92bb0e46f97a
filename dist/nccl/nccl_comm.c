/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator. It is nonblocking: a call that has to wait for other ranks returns
 * ncclInProgress. Until polling shows that it has ended, only ncclCommAbort() may be called on the
 * communicator.
 *
 * ncclCommGetAsyncError() completes what was in progress, so it too is called by one thread at a
 * time. If a rank is lost, the communicator can only be aborted. Another thread does that, normally
 * while no thread is inside a call. But a call blocks if the device's queue is full of work that
 * waits for the lost rank. Then the abort runs during the call, and ends it.
 *
 * Invariant: after each call of NCCL, is_aborted is checked before the communicator is touched
 * again.
 */
#include "dist/nccl/nccl_comm.h"

#include "base/clock.h"
#include "base/error.h"
#include "dist/nccl/nccl_call.h"
#include "dist/nccl/nccl_detached.h"

#include <sched.h>
#include <time.h>

#define MS 1000000ull           /* ns */
#define FINALIZE_NS (3000 * MS) /* then it is aborted */
/* then abort() returns while NCCL's abort still runs; shorter than the group's own limit */
#define ABORT_MS 2500
#define LOCK_NS (500 * MS) /* how long an abort waits for a call to return */
#define ASK_NS (200 * MS)  /* between two checks of the store, while connecting */
#define N_YIELDS 64        /* before the first sleep */
#define PAUSE_MIN_NS 20000
#define PAUSE_MAX_NS 1000000

/* When to stop waiting. */
struct limits {
    uint64_t deadline_ns;
    const volatile uint32_t *stop; /* may be NULL */
    /* while connecting: the store, to ask for lost ranks; else NULL */
    const struct mr_engine_setup *setup;
    uint64_t asked_ns;
};

static void pause_briefly(uint32_t i)
{
    if (i < N_YIELDS) {
        sched_yield();
        return;
    }
    uint64_t ns = PAUSE_MIN_NS * (uint64_t)(i - N_YIELDS + 1);
    struct timespec pause = {.tv_nsec = ns < PAUSE_MAX_NS ? (long)ns : PAUSE_MAX_NS};
    nanosleep(&pause, NULL); /* a signal may end it early */
}

/* Ask for a key that no rank sets: the answer is only whether a rank has disconnected. */
static int32_t ask_store(struct limits *limits, uint64_t now_ns, mr_error *error)
{
    uint32_t len;
    unsigned char byte;
    if (!limits->setup || now_ns - limits->asked_ns < ASK_NS)
        return MR_OK;
    limits->asked_ns = now_ns;
    const struct mr_engine_store *store = &limits->setup->store;
    int32_t status =
        store->get(store->user, "nccl/nothing", &byte, sizeof byte, &len, now_ns, error);
    return status == MR_ERR_PEER ? status : MR_OK;
}

static int32_t check_limits(const struct mr_nccl_engine *engine, struct limits *limits,
                            const char *name, mr_error *error)
{
    uint64_t now_ns = mr_clock_now_ns();
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    if (limits->stop && __atomic_load_n(limits->stop, __ATOMIC_ACQUIRE))
        return mr_error_set(error, MR_ERR_CANCELED, "%s was stopped", name);
    if (now_ns >= limits->deadline_ns)
        return mr_error_set(error, MR_ERR_TIMEOUT,
                            "%s: NCCL is still connecting to the other ranks", name);
    return ask_store(limits, now_ns, error);
}

/*
 * Under the lock. Read the communicator's state into *result. MR_OK also while a call is in
 * progress.
 */
static int32_t poll_comm(const struct mr_nccl_engine *engine, const char *name,
                         ncclResult_t *result, mr_error *error)
{
    if (!engine->comm || atomic_load(&engine->is_ended))
        return mr_nccl_call_aborted(error);
    ncclResult_t code = ncclCommGetAsyncError(engine->comm, result);
    if (code != ncclSuccess)
        *result = code;
    return *result == ncclInProgress ? MR_OK
                                     : mr_nccl_call_nccl(engine->comm, *result, name, error);
}

/*
 * False: the communicator is aborted. The aborting thread holds the lock while NCCL waits for the
 * device.
 */
static bool lock_comm(struct mr_nccl_engine *engine)
{
    for (uint32_t i = 0; pthread_mutex_trylock(&engine->comm_lock) != 0; i++) {
        if (atomic_load(&engine->is_aborted))
            return false;
        pause_briefly(i);
    }
    return true;
}

/* Wait until the communicator can be called again. */
static int32_t settle_comm(struct mr_nccl_engine *engine, const char *name, struct limits *limits,
                           mr_error *error)
{
    for (uint32_t i = 0;; i++) {
        ncclResult_t result = ncclInProgress;
        if (!lock_comm(engine))
            return mr_nccl_call_aborted(error);
        int32_t status = poll_comm(engine, name, &result, error);
        pthread_mutex_unlock(&engine->comm_lock);
        if (status == MR_OK && result == ncclInProgress)
            status = check_limits(engine, limits, name, error);
        else
            return status;
        if (status != MR_OK)
            return status;
        pause_briefly(i);
    }
}

static int32_t adopt_comm(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                          mr_error *error)
{
    int rank = -1;
    int n_ranks = -1;
    int device = -1;
    struct limits limits = {.deadline_ns = setup->deadline_ns, .setup = setup};
    if (!engine->comm)
        return mr_error_set(error, MR_ERR_INVALID, "nccl_comm points to no communicator");
    int32_t status = settle_comm(engine, "nccl_comm", &limits, error);
    if (status == MR_OK)
        status = mr_nccl_call_nccl(engine->comm, ncclCommUserRank(engine->comm, &rank),
                                   "ncclCommUserRank", error);
    if (status == MR_OK)
        status = mr_nccl_call_nccl(engine->comm, ncclCommCount(engine->comm, &n_ranks),
                                   "ncclCommCount", error);
    if (status == MR_OK)
        status = mr_nccl_call_nccl(engine->comm, ncclCommCuDevice(engine->comm, &device),
                                   "ncclCommCuDevice", error);
    if (status != MR_OK)
        return status;
    if (rank < 0 || (uint32_t)rank != engine->rank || n_ranks < 0 ||
        (uint32_t)n_ranks != engine->n_ranks)
        return mr_error_set(error, MR_ERR_INVALID,
                            "nccl_comm has rank %d of %d, the group has rank %u of %u", rank,
                            n_ranks, engine->rank, engine->n_ranks);
    if (engine->device >= 0 && device != engine->device)
        return mr_error_set(error, MR_ERR_INVALID, "nccl_comm is on cuda:%d, the group on cuda:%d",
                            device, (int)engine->device);
    engine->device = device;
    return MR_OK;
}

int32_t mr_nccl_comm_adopt(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                           mr_error *error)
{
    engine->is_adopted = true;
    engine->comm = *(ncclComm_t *)setup->adopt;
    return adopt_comm(engine, setup, error);
}

int32_t mr_nccl_comm_open(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                          const ncclUniqueId *id, mr_error *error)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    struct limits limits = {
        .deadline_ns = setup->deadline_ns, .setup = setup, .asked_ns = mr_clock_now_ns()};
    pthread_mutex_lock(&engine->comm_lock);
    ncclResult_t result = ncclCommInitRankConfig(&engine->comm, (int)engine->n_ranks, *id,
                                                 (int)engine->rank, &config);
    int32_t status = MR_OK;
    if (result != ncclInProgress)
        status = mr_nccl_call_nccl(engine->comm, result, "ncclCommInitRankConfig", error);
    pthread_mutex_unlock(&engine->comm_lock);
    return status == MR_OK ? settle_comm(engine, "ncclCommInitRankConfig", &limits, error) : status;
}

static bool find_type(uint32_t dtype, ncclDataType_t *type_out)
{
    switch (dtype) {
    case MR_F16: *type_out = ncclFloat16; return true;
    case MR_BF16: *type_out = ncclBfloat16; return true;
    case MR_F32: *type_out = ncclFloat32; return true;
    case MR_F64: *type_out = ncclFloat64; return true;
    case MR_I32: *type_out = ncclInt32; return true;
    case MR_I64: *type_out = ncclInt64; return true;
    default: return false;
    }
}

static bool find_op(uint32_t op, ncclRedOp_t *op_out)
{
    static const ncclRedOp_t ops[] = {
        [MR_SUM] = ncclSum, [MR_MEAN] = ncclAvg, [MR_MIN] = ncclMin, [MR_MAX] = ncclMax};
    if (op >= sizeof ops / sizeof ops[0])
        return false;
    *op_out = ops[op];
    return true;
}

/* Make one call; *name_out is the function's name. */
static ncclResult_t call_nccl(const struct mr_nccl_engine *engine, const struct mr_collective *c,
                              ncclDataType_t type, ncclRedOp_t op, const char **name_out)
{
    ncclComm_t comm = engine->comm;
    cudaStream_t stream = engine->stream;
    size_t count = (size_t)c->count;
    int root = (int)c->root;
    switch (c->kind) {
    case MR_COLLECTIVE_ALL_REDUCE:
        *name_out = "ncclAllReduce";
        return ncclAllReduce(c->in, c->out, count, type, op, comm, stream);
    case MR_COLLECTIVE_REDUCE:
        *name_out = "ncclReduce";
        return ncclReduce(c->in, c->out, count, type, op, root, comm, stream);
    case MR_COLLECTIVE_BROADCAST:
        *name_out = "ncclBroadcast";
        return ncclBroadcast(c->in, c->out, count, type, root, comm, stream);
    case MR_COLLECTIVE_ALL_GATHER:
        *name_out = "ncclAllGather";
        return ncclAllGather(c->in, c->out, count, type, comm, stream);
    case MR_COLLECTIVE_REDUCE_SCATTER:
        *name_out = "ncclReduceScatter";
        return ncclReduceScatter(c->in, c->out, count, type, op, comm, stream);
    case MR_COLLECTIVE_SEND:
        *name_out = "ncclSend";
        return ncclSend(c->in, count, type, root, comm, stream);
    default: *name_out = "ncclRecv"; return ncclRecv(c->out, count, type, root, comm, stream);
    }
}

/* A barrier is a sum of zeros. */
static struct mr_collective replace_barrier(const struct mr_nccl_engine *engine,
                                            const struct mr_collective *c)
{
    if (c->kind != MR_COLLECTIVE_BARRIER)
        return *c;
    return (struct mr_collective){.kind = MR_COLLECTIVE_ALL_REDUCE,
                                  .in = engine->cell,
                                  .out = engine->cell,
                                  .count = 1,
                                  .dtype = MR_I32,
                                  .op = MR_SUM};
}

int32_t mr_nccl_comm_put(struct mr_nccl_engine *engine, const struct mr_collective *collective,
                         uint64_t deadline_ns, const volatile uint32_t *stop, mr_error *error)
{
    struct mr_collective c = replace_barrier(engine, collective);
    struct limits limits = {.deadline_ns = deadline_ns, .stop = stop};
    ncclDataType_t type;
    ncclRedOp_t op;
    const char *name = "";
    if (c.kind > MR_COLLECTIVE_RECV || !find_type(c.dtype, &type) || !find_op(c.op, &op))
        return mr_error_set(error, MR_ERR_INVALID,
                            "nccl: collective %u of %s with reduction %u does not exist", c.kind,
                            mr_dtype_name((mr_dtype)c.dtype), c.op);
    if (c.count == 0)
        return MR_OK;
    if (!lock_comm(engine))
        return mr_nccl_call_aborted(error);
    if (!engine->comm || atomic_load(&engine->is_aborted)) {
        pthread_mutex_unlock(&engine->comm_lock);
        return mr_nccl_call_aborted(error);
    }
    ncclResult_t result = call_nccl(engine, &c, type, op, &name);
    int32_t status = MR_OK;
    if (atomic_load(&engine->is_aborted)) { /* aborted during the call: comm may be freed */
        status = mr_nccl_call_aborted(error);
        result = ncclSuccess;
    } else if (result != ncclInProgress) {
        status = mr_nccl_call_nccl(engine->comm, result, name, error);
    }
    pthread_mutex_unlock(&engine->comm_lock);
    return result == ncclInProgress ? settle_comm(engine, name, &limits, error) : status;
}

int32_t mr_nccl_comm_health(void *user, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    unsigned long self = (unsigned long)pthread_self();
    ncclResult_t result = ncclSuccess;
    if (self != atomic_load(&engine->caller))
        atomic_store(&engine->watch, self);
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    if (pthread_mutex_trylock(&engine->comm_lock) != 0)
        return MR_OK; /* a call is running, and reports failures itself */
    int32_t status = poll_comm(engine, "NCCL", &result, error);
    pthread_mutex_unlock(&engine->comm_lock);
    return status;
}

static bool lock_soon(struct mr_nccl_engine *engine)
{
    uint64_t until_ns = mr_clock_now_ns() + LOCK_NS;
    bool is_locked = pthread_mutex_trylock(&engine->comm_lock) == 0;
    for (uint32_t i = 0; !is_locked && mr_clock_now_ns() < until_ns; i++) {
        pause_briefly(i);
        is_locked = pthread_mutex_trylock(&engine->comm_lock) == 0;
    }
    return is_locked;
}

/*
 * If the lock was not taken, the engine is not touched after the abort: the call that held the lock
 * may have returned, and the engine may be freed.
 */
static void abort_comm(void *arg)
{
    struct mr_nccl_engine *engine = arg;
    (void)mr_nccl_detached_enter(engine, NULL);
    bool is_locked = lock_soon(engine);
    if (engine->comm && !atomic_exchange(&engine->is_ended, true))
        (void)ncclCommAbort(engine->comm);
    if (!is_locked)
        return;
    engine->comm = NULL;
    pthread_mutex_unlock(&engine->comm_lock);
}

void mr_nccl_comm_abort(void *user)
{
    struct mr_nccl_engine *engine = user;
    if (!atomic_exchange(&engine->is_aborted, true) && !engine->is_adopted)
        (void)mr_nccl_detached_do(abort_comm, engine, ABORT_MS);
}

static bool finalize_comm(ncclComm_t comm)
{
    uint64_t deadline_ns = mr_clock_now_ns() + FINALIZE_NS;
    ncclResult_t result = ncclCommFinalize(comm);
    for (uint32_t i = 0; result == ncclInProgress && mr_clock_now_ns() < deadline_ns; i++) {
        pause_briefly(i);
        ncclResult_t code = ncclCommGetAsyncError(comm, &result);
        if (code != ncclSuccess)
            result = code;
    }
    return result == ncclSuccess;
}

void mr_nccl_comm_close(struct mr_nccl_engine *engine, bool healthy)
{
    pthread_mutex_lock(&engine->comm_lock);
    if (engine->comm && !engine->is_adopted && !atomic_exchange(&engine->is_ended, true)) {
        if (healthy && finalize_comm(engine->comm))
            (void)ncclCommDestroy(engine->comm);
        else
            (void)ncclCommAbort(engine->comm);
    }
    engine->comm = NULL;
    pthread_mutex_unlock(&engine->comm_lock);
}
