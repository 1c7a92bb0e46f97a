/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One nonblocking MPI call. It is started, then tested until it has ended, its deadline has passed
 * or it is stopped.
 *
 * Invariant: a call that was given up cannot be cancelled. Any later MPI call could write into its
 * buffers, which belong to the caller again after run() returns. So this process makes no MPI call
 * after that, neither for other groups nor at exit. The program's own MPI calls are not affected.
 */
#include "dist/mpi/mpi_call.h"

#include "base/clock.h"
#include "dist/mpi/mpi_process.h"

#include <sched.h>
#include <time.h>

#define N_SPINS 256         /* tests before the first look at the clock */
#define QUIET_NS 20000000u  /* after that sched_yield() for this long, before the first sleep */
#define NS_PER_BYTE 10u     /* and this much longer per byte, for slow networks */
#define PAUSE_MIN_NS 50000u /* sleeps grow from this */
#define PAUSE_MAX_NS 500000u

static const char *const kind_names[] = {
    [MR_COLLECTIVE_BARRIER] = "barrier",
    [MR_COLLECTIVE_ALL_REDUCE] = "all_reduce",
    [MR_COLLECTIVE_REDUCE] = "reduce",
    [MR_COLLECTIVE_BROADCAST] = "broadcast",
    [MR_COLLECTIVE_ALL_GATHER] = "all_gather",
    [MR_COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [MR_COLLECTIVE_SEND] = "send",
    [MR_COLLECTIVE_RECV] = "recv",
};

const char *mr_mpi_call_name(uint32_t kind)
{
    return kind <= MR_COLLECTIVE_RECV ? kind_names[kind] : "?";
}

static int begin_reduce(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                        MPI_Request *request)
{
    bool is_root = engine->rank == part->root;
    const void *in = is_root && part->in == part->out ? MPI_IN_PLACE : part->in;
    return MPI_Ireduce(in, is_root ? part->out : NULL, part->count, part->type, part->op,
                       (int)part->root, engine->comm, request);
}

static int begin_all_gather(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                            MPI_Request *request)
{
    const struct mr_collective *collective = part->collective;
    size_t own = engine->rank * collective->count * mr_mpi_reduce_size(collective->dtype);
    const void *in =
        collective->in == (const char *)collective->out + own ? MPI_IN_PLACE : part->in;
    if (part->block == MPI_DATATYPE_NULL)
        return MPI_Iallgather(in, part->count, part->type, part->out, part->count, part->type,
                              engine->comm, request);
    return MPI_Iallgather(in, part->count, part->type, part->out, 1, part->block, engine->comm,
                          request);
}

static int begin_all_reduce(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                            MPI_Request *request)
{
    if (part->is_gathered)
        return MPI_Iallgather(part->in, part->count, part->type, part->out, part->count, part->type,
                              engine->comm, request);
    return MPI_Iallreduce(part->in == part->out ? MPI_IN_PLACE : part->in, part->out, part->count,
                          part->type, part->op, engine->comm, request);
}

/* All ranks' parts in one call, or one rank's part. */
static int begin_reduce_scatter(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                                MPI_Request *request)
{
    if (part->is_for_root)
        return begin_reduce(engine, part, request);
    return MPI_Ireduce_scatter_block(part->in, part->out, part->count, part->type, part->op,
                                     engine->comm, request);
}

static int begin_call(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                      MPI_Request *request)
{
    int root = (int)part->root;
    switch (part->collective->kind) {
    case MR_COLLECTIVE_BARRIER: return MPI_Ibarrier(engine->comm, request);
    case MR_COLLECTIVE_ALL_REDUCE: return begin_all_reduce(engine, part, request);
    case MR_COLLECTIVE_REDUCE: return begin_reduce(engine, part, request);
    case MR_COLLECTIVE_BROADCAST:
        return MPI_Ibcast(part->out, part->count, part->type, root, engine->comm, request);
    case MR_COLLECTIVE_ALL_GATHER: return begin_all_gather(engine, part, request);
    case MR_COLLECTIVE_REDUCE_SCATTER: return begin_reduce_scatter(engine, part, request);
    case MR_COLLECTIVE_SEND:
        return MPI_Isend(part->in, part->count, part->type, root, MR_MPI_TAG, engine->comm,
                         request);
    case MR_COLLECTIVE_RECV:
        return MPI_Irecv(part->out, part->count, part->type, root, MR_MPI_TAG, engine->comm,
                         request);
    default: return MPI_ERR_OTHER;
    }
}

int32_t mr_mpi_call_fail(const struct mr_mpi_engine *engine, const struct mr_collective *collective,
                         int code, mr_error *error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (MPI_Error_string(code, text, &len) != MPI_SUCCESS)
        return engine->fail(error, MR_ERR_PEER, "%s: MPI error %d", kind_names[collective->kind],
                            code);
    return engine->fail(error, MR_ERR_PEER, "%s of %llu %s: %s", kind_names[collective->kind],
                        (unsigned long long)collective->count,
                        mr_mpi_reduce_name(collective->dtype), text);
}

/* Leave the CPU to late ranks and to the program's other threads. */
static void pause_briefly(uint64_t waited_ns, uint64_t quiet_ns)
{
    if (waited_ns < quiet_ns) {
        sched_yield();
        return;
    }
    uint64_t pause_ns = PAUSE_MIN_NS + (waited_ns - quiet_ns) / 64;
    struct timespec pause = {.tv_nsec = (long)(pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS)};
    nanosleep(&pause, NULL); /* a signal may end it early */
}

int32_t mr_mpi_call_give_up(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                            const struct mr_mpi_limits *limits, mr_error *error)
{
    const struct mr_collective *collective = part->collective;
    mr_mpi_process_give_up();
    if (__atomic_load_n(limits->stop, __ATOMIC_ACQUIRE))
        return engine->fail(error, MR_ERR_CANCELED, "%s was stopped", kind_names[collective->kind]);
    return engine->fail(error, MR_ERR_TIMEOUT, "%s of %llu %s did not end within %llu ms",
                        kind_names[collective->kind], (unsigned long long)collective->count,
                        collective->kind == MR_COLLECTIVE_BARRIER
                            ? "elements"
                            : mr_mpi_reduce_name(collective->dtype),
                        (unsigned long long)(mr_clock_now_ns() - limits->start_ns) / 1000000u);
}

/* Test the request, unless another thread is inside MPI. Sets *is_done and returns MPI's code. */
static int test_request(MPI_Request *request, MPI_Status *result, int *is_done)
{
    *is_done = 0;
    if (!mr_mpi_process_try())
        return MPI_SUCCESS;
    int code = MPI_Test(request, is_done, result);
    mr_mpi_process_unlock();
    return code;
}

static int32_t wait_for(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                        MPI_Request *request, const struct mr_mpi_limits *limits,
                        MPI_Status *result, mr_error *error)
{
    uint64_t quiet_ns = QUIET_NS + (uint64_t)part->count *
                                       mr_mpi_reduce_size(part->collective->dtype) * NS_PER_BYTE;
    for (uint32_t i = 0;; i++) {
        int is_done = 0;
        int code = test_request(request, result, &is_done);
        if (code != MPI_SUCCESS)
            return mr_mpi_call_fail(engine, part->collective, code, error);
        if (is_done)
            return MR_OK;
        if (i < N_SPINS)
            continue;
        uint64_t now_ns = mr_clock_now_ns();
        if (now_ns >= limits->deadline_ns || __atomic_load_n(limits->stop, __ATOMIC_ACQUIRE))
            return mr_mpi_call_give_up(engine, part, limits, error);
        pause_briefly(now_ns - limits->start_ns, quiet_ns);
    }
}

/* To MPI it is no error if the sender sent less than expected. */
static int32_t check_received(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                              const struct mr_mpi_limits *limits, const MPI_Status *result,
                              mr_error *error)
{
    int count = 0;
    if (!mr_mpi_process_lock(limits->deadline_ns))
        return mr_mpi_call_give_up(engine, part, limits, error);
    int code = MPI_Get_count(result, part->type, &count);
    mr_mpi_process_unlock();
    if (code != MPI_SUCCESS)
        return mr_mpi_call_fail(engine, part->collective, code, error);
    if (count != part->count)
        return engine->fail(error, MR_ERR_PEER, "recv of %d %s: rank %u sent %d", part->count,
                            mr_mpi_reduce_name(part->collective->dtype), part->root, count);
    return MR_OK;
}

int32_t mr_mpi_call_do(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                       const struct mr_mpi_limits *limits, mr_error *error)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status result = {0};
    if (!mr_mpi_process_lock(limits->deadline_ns))
        return mr_mpi_call_give_up(engine, part, limits, error);
    int code = begin_call(engine, part, &request);
    mr_mpi_process_unlock();
    if (code != MPI_SUCCESS)
        return mr_mpi_call_fail(engine, part->collective, code, error);
    int32_t status = wait_for(engine, part, &request, limits, &result, error);
    if (status == MR_OK && part->collective->kind == MR_COLLECTIVE_RECV)
        status = check_received(engine, part, limits, &result, error);
    return status;
}
