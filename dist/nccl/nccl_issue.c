/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives in the engine's stream: it waits for the work that the caller's stream has so far,
 * runs the collective, and records the ticket's event.
 *
 * Collectives run one after the other in one stream. So if two ranks both send to each other and
 * then receive, they wait for each other forever once the message does not fit into NCCL's buffers:
 * one of them has to receive first.
 *
 * Invariant: no event is recorded in a stream that is being captured, because that would break the
 * capture.
 */
#include "dist/nccl/nccl_issue.h"

#include "base/error.h"
#include "dist/nccl/nccl_call.h"
#include "dist/nccl/nccl_comm.h"
#include "dist/nccl/nccl_metric_sums.h"
#include "dist/nccl/nccl_pool.h"
#include "pinned/cuda_call.h"

#include <string.h>

#define STAGE_ALIGN 256 /* bytes; alignment of the result, which follows the input */

/* What a collective of host memory copies. */
struct staged {
    size_t in_len;  /* bytes of the whole input; copied only if reads */
    size_t out_len; /* bytes of the whole output; copied only if writes */
    bool reads;     /* this rank has input */
    bool writes;    /* this rank gets a result */
    size_t out_at;
    size_t size;
};

/* Order the engine's stream after the work that this stream has so far. */
static int32_t follow_stream(const struct mr_nccl_engine *engine, void *stream, mr_error *error)
{
    int32_t status = mr_nccl_call_capture(engine, stream, error);
    if (status == MR_OK)
        status = mr_nccl_call_stream(engine, cudaEventRecord(engine->ready, stream),
                                     "cudaEventRecord", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaStreamWaitEvent(engine->stream, engine->ready, 0),
                                   "cudaStreamWaitEvent", error);
    return status;
}

static int32_t plan_stage(const struct mr_nccl_engine *engine, const struct mr_collective *c,
                          struct staged *staged_out, mr_error *error)
{
    size_t size = mr_dtype_size((mr_dtype)c->dtype);
    if (size == 0 || c->count > MR_NCCL_POOL_MAX / size / engine->n_ranks)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%llu %s of host memory: nccl's limit is 1 MiB for all ranks together",
                            (unsigned long long)c->count, mr_dtype_name((mr_dtype)c->dtype));
    size_t one = (size_t)c->count * size;
    bool is_root = c->root == engine->rank;
    struct staged staged = {.in_len = one, .out_len = one, .reads = true, .writes = true};
    switch (c->kind) {
    case MR_COLLECTIVE_REDUCE: staged.writes = is_root; break;
    case MR_COLLECTIVE_BROADCAST:
        staged.reads = is_root;
        staged.writes = !is_root;
        break;
    case MR_COLLECTIVE_ALL_GATHER: staged.out_len = one * engine->n_ranks; break;
    case MR_COLLECTIVE_REDUCE_SCATTER: staged.in_len = one * engine->n_ranks; break;
    case MR_COLLECTIVE_SEND: staged.writes = false; break;
    case MR_COLLECTIVE_RECV: staged.reads = false; break;
    default: break;
    }
    staged.out_at = (staged.in_len + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
    staged.size = staged.out_at + staged.out_len;
    *staged_out = staged;
    return MR_OK;
}

static int32_t check_sums(const struct mr_collective *c, mr_error *error)
{
    const struct mr_nccl_metric_sums *sums = c->sums;
    if (!sums || (c->kind == MR_COLLECTIVE_ALL_REDUCE && c->op == MR_SUM && c->dtype == MR_F64 &&
                  sums->n <= c->count))
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID,
                        "sums on the device need an all_reduce of as many f64 sums");
}

/* Copy from the host to the stage, and add the sums on the device. */
static int32_t put_input(struct mr_nccl_engine *engine, const struct mr_collective *c,
                         const struct staged *staged, struct mr_nccl_stage *stage, mr_error *error)
{
    int32_t status = MR_OK;
    if (staged->reads && staged->in_len > 0) {
        memcpy(stage->host, c->in, staged->in_len);
        status = mr_nccl_call_cuda(engine,
                                   cudaMemcpyAsync(stage->device, stage->host, staged->in_len,
                                                   cudaMemcpyHostToDevice, engine->stream),
                                   "cudaMemcpyAsync", error);
    }
    if (status == MR_OK && c->sums)
        status = mr_nccl_metric_sums_take(engine, c->sums, (double *)(void *)stage->device, error);
    return status;
}

static int32_t put_output(const struct mr_nccl_engine *engine, const struct mr_collective *c,
                          const struct staged *staged, struct mr_nccl_ticket *ticket,
                          mr_error *error)
{
    if (!staged->writes || staged->out_len == 0)
        return MR_OK;
    ticket->out = c->out;
    ticket->out_at = staged->out_at;
    ticket->out_len = staged->out_len;
    return mr_nccl_call_cuda(engine,
                             cudaMemcpyAsync(ticket->stage->host + staged->out_at,
                                             ticket->stage->device + staged->out_at,
                                             staged->out_len, cudaMemcpyDeviceToHost,
                                             engine->stream),
                             "cudaMemcpyAsync", error);
}

static int32_t put_staged(struct mr_nccl_engine *engine, const struct mr_collective *c,
                          const struct staged *staged, struct mr_nccl_ticket *ticket,
                          uint64_t deadline_ns, const volatile uint32_t *stop, mr_error *error)
{
    struct mr_collective on_device = *c;
    on_device.in = ticket->stage->device;
    on_device.out = ticket->stage->device + staged->out_at;
    int32_t status = put_input(engine, c, staged, ticket->stage, error);
    if (status == MR_OK)
        status = mr_nccl_comm_put(engine, &on_device, deadline_ns, stop, error);
    if (status == MR_OK)
        status = put_output(engine, c, staged, ticket, error);
    return status;
}

static int32_t put_collective(struct mr_nccl_engine *engine, const struct mr_collective *c,
                              struct mr_nccl_ticket **ticket_out, uint64_t deadline_ns,
                              const volatile uint32_t *stop, mr_error *error)
{
    bool is_staged = c->on_host && c->kind != MR_COLLECTIVE_BARRIER;
    struct staged staged = {0};
    int32_t status = check_sums(c, error);
    if (status == MR_OK && is_staged)
        status = plan_stage(engine, c, &staged, error);
    if (status == MR_OK)
        status = mr_nccl_pool_take(engine, is_staged ? staged.size + 1 : 0, ticket_out, error);
    if (status == MR_OK && !c->on_host)
        status = follow_stream(engine, c->stream, error);
    if (status == MR_OK)
        status = is_staged ? put_staged(engine, c, &staged, *ticket_out, deadline_ns, stop, error)
                           : mr_nccl_comm_put(engine, c, deadline_ns, stop, error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaEventRecord((*ticket_out)->ended, engine->stream),
                                   "cudaEventRecord", error);
    return status;
}

int32_t mr_nccl_issue(void *user, const struct mr_collective *collective, uint64_t deadline_ns,
                      const volatile uint32_t *stop, void **ticket_out, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    struct mr_nccl_ticket *ticket = NULL;
    *ticket_out = NULL;
    atomic_store(&engine->caller, (unsigned long)pthread_self());
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    int32_t status = MR_OK;
    if (call.code == cudaSuccess)
        status = put_collective(engine, collective, &ticket, deadline_ns, stop, error);
    int32_t ended =
        mr_cuda_call_end(&call, engine->device, status == MR_OK ? error : NULL, "a collective");
    if (status == MR_OK)
        status = ended;
    if (status == MR_OK)
        *ticket_out = ticket;
    else
        mr_nccl_pool_drop(engine, ticket);
    return status;
}

/* Copies the result once, even if two threads test the ticket. */
static void take_result(struct mr_nccl_engine *engine, struct mr_nccl_ticket *ticket)
{
    pthread_mutex_lock(&engine->pool_lock);
    if (ticket->out)
        memcpy(ticket->out, ticket->stage->host + ticket->out_at, ticket->out_len);
    ticket->out = NULL;
    pthread_mutex_unlock(&engine->pool_lock);
}

/*
 * The watch's thread never chose a device. Setting it back to device 0 would make a context there
 * for every rank of the machine, so it keeps the engine's device. Until the watch's thread is
 * known, only the caller's thread may test.
 */
static bool enter_thread(const struct mr_nccl_engine *engine)
{
    unsigned long self = (unsigned long)pthread_self();
    unsigned long watch = atomic_load(&engine->watch);
    if (self == watch)
        (void)cudaSetDevice(engine->device);
    return watch != 0 || self == atomic_load(&engine->caller);
}

int32_t mr_nccl_issue_test(void *user, void *handle, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    struct mr_nccl_ticket *ticket = handle;
    if (!enter_thread(engine))
        return MR_PENDING;
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    if (call.code == cudaSuccess)
        call.code = cudaEventQuery(ticket->ended);
    bool is_pending = !call.failed && call.code == cudaErrorNotReady;
    if (is_pending)
        call.code = cudaSuccess;
    int32_t status = mr_cuda_call_end(&call, engine->device, error, "cudaEventQuery");
    if (status != MR_OK)
        return status;
    if (atomic_load(&engine->is_aborted)) /* an abort ends all collectives */
        return mr_nccl_call_aborted(error);
    if (is_pending)
        return MR_PENDING;
    take_result(engine, ticket);
    return MR_OK;
}

int32_t mr_nccl_issue_wait(void *user, void *handle, void *stream, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    const struct mr_nccl_ticket *ticket = handle;
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    int32_t status = MR_OK;
    if (call.code == cudaSuccess)
        status = mr_nccl_call_capture(engine, stream, error);
    if (call.code == cudaSuccess && status == MR_OK)
        status = mr_nccl_call_stream(engine, cudaStreamWaitEvent(stream, ticket->ended, 0),
                                     "cudaStreamWaitEvent", error);
    int32_t ended = mr_cuda_call_end(&call, engine->device, status == MR_OK ? error : NULL,
                                     "ordering a stream");
    return status != MR_OK ? status : ended;
}
