/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: two kernels in a stream. The first reads the input and passes it to the
 * communicator's thread. The second waits for the result and writes it, and counts as a reader of
 * the input as well, because NCCL reads until the end. With one rank NCCL uses no kernels: it
 * copies at the call, even within a group, or does nothing if there is nothing to copy. Then
 * nothing is in progress, nothing hangs, and an abort has nothing to end.
 *
 * Invariant: a kernel may run long after the communicator has ended, or never. So it holds the
 * operation, and the operation holds the communicator.
 */
#include "tests/double/double_nccl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPED = 64 };

struct kernel {
    struct double_nccl_op *op;
};

/* Operations between ncclGroupStart and ncclGroupEnd, each with a reference. */
static _Thread_local struct {
    uint32_t depth;
    uint32_t n;
    struct double_nccl_op *ops[GROUPED];
    ncclResult_t error; /* the first error */
} group;

void double_nccl_op_unref(struct double_nccl_op *op)
{
    if (atomic_fetch_sub(&op->refs, 1) > 1)
        return;
    double_nccl_comm_unref(op->comm);
    free(op->sent);
    free(op->result);
    free(op->arrived);
    free(op);
}

void double_nccl_op_open(struct double_nccl_op *op, bool valid)
{
    pthread_mutex_lock(&op->comm->lock);
    op->valid = valid;
    pthread_mutex_unlock(&op->comm->lock);
    double_machine_lock();
    op->open = true;
    double_schedule_pump();
    double_machine_wake();
    double_machine_unlock();
}

/* ---- kernels: under the double of CUDA's lock ---- */

static void post(struct double_nccl_op *op)
{
    struct double_nccl_comm *comm = op->comm;
    pthread_mutex_lock(&comm->lock);
    if (!comm->stopped && !op->hangs) {
        struct double_nccl_op **end = &comm->posts;
        while (*end)
            end = &(*end)->post;
        *end = op;
        atomic_fetch_add(&op->refs, 1);
        double_nccl_poke(comm->wake_fd);
    }
    pthread_mutex_unlock(&comm->lock);
}

static void run_in(void *payload, void *const *views)
{
    struct double_nccl_op *op = ((struct kernel *)payload)->op;
    if (op->n_in > 0) {
        op->sent = double_machine_alloc(op->n_in);
        memcpy(op->sent, views[0], op->n_in);
    }
    post(op);
}

static void run_out(void *payload, void *const *views)
{
    struct double_nccl_op *op = ((struct kernel *)payload)->op;
    pthread_mutex_lock(&op->comm->lock);
    if (op->valid && op->result)
        memcpy(views[0], op->result, op->n_out);
    pthread_mutex_unlock(&op->comm->lock);
}

static void drop_in(void *payload)
{
    double_nccl_op_unref(((struct kernel *)payload)->op);
}

/* It has ended, whether it has run or not. */
static void drop_out(void *payload)
{
    struct double_nccl_op *op = ((struct kernel *)payload)->op;
    pthread_mutex_lock(&op->comm->lock);
    op->ended = true;
    op->end = NULL;
    double_nccl_poke(op->comm->wake_fd);
    pthread_mutex_unlock(&op->comm->lock);
    double_nccl_op_unref(op);
}

static cudaError_t touch(struct double_work *work, int device, const void *memory, size_t len,
                         bool write)
{
    if (len == 0)
        return cudaSuccess;
    cudaError_t error = double_memory_touch(device, memory, len, write, work->name,
                                            &work->touches[work->n_touches]);
    work->n_touches += error == cudaSuccess;
    return error;
}

/*
 * The stream of the operation, if it is on the communicator's device and not captured; else NULL,
 * and reported.
 */
static struct double_stream *find_stream(const struct double_nccl_op *op)
{
    struct double_stream *stream = double_queue_stream(op->stream);
    const char *name = double_nccl_kind_name(op->kind);
    if (stream && stream->capture) {
        double_report_add(DOUBLE_MISUSE, "misuse: %s in %s, which captures", name, stream->name);
        return NULL;
    }
    if (stream && stream->device != op->comm->device) {
        double_report_add(DOUBLE_MISUSE,
                          "misuse: %s of a communicator of device %d in %s of device %d", name,
                          op->comm->device, stream->name, stream->device);
        return NULL;
    }
    return stream;
}

/* Launch one of the two kernels. */
static ncclResult_t launch(struct double_nccl_op *op, bool out)
{
    struct double_call call;
    if (!double_call_begin(&call, "nccl", op->stream, DOUBLE_CONTEXT | DOUBLE_OF_TEST)) {
        (void)double_call_end(&call, call.error);
        return ncclUnhandledCudaError;
    }
    struct double_stream *stream = find_stream(op);
    if (!stream) {
        (void)double_call_end(&call, cudaSuccess);
        return ncclInvalidArgument;
    }
    struct double_work work = {.kind = DOUBLE_OP_KERNEL,
                               .name = double_nccl_kind_name(op->kind),
                               .run = out ? run_out : run_in,
                               .drop = out ? drop_out : drop_in,
                               .when = out ? &op->open : NULL,
                               .gate = DOUBLE_NO_GATE};
    struct kernel *kernel = double_machine_alloc(sizeof *kernel);
    kernel->op = op;
    work.payload = kernel;
    work.payload_len = sizeof *kernel;
    atomic_fetch_add(&op->refs, 1);
    int device = op->comm->device;
    cudaError_t error = out ? touch(&work, device, op->out, op->n_out, true) : cudaSuccess;
    if (error == cudaSuccess)
        error = touch(&work, device, op->in, op->n_in, false);
    if (error != cudaSuccess) {
        double_queue_drop_work(&work);
        (void)double_call_end(&call, cudaSuccess);
        return ncclInvalidArgument;
    }
    op->end = out ? stream : op->end;
    error = double_queue_issue(stream, &work, NULL, 0, NULL);
    (void)double_call_end(&call, error);
    return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* The operation will not be in its stream, or has ended there: nothing needs to wait for it. */
static void note_issued(struct double_nccl_op *op, ncclResult_t result)
{
    pthread_mutex_lock(&op->comm->lock);
    op->issued_ns = double_nccl_now_ns();
    op->ended = op->ended || result != ncclSuccess;
    double_nccl_poke(op->comm->wake_fd);
    pthread_mutex_unlock(&op->comm->lock);
}

ncclResult_t double_nccl_issue(struct double_nccl_op *op)
{
    ncclResult_t result = launch(op, false);
    if (result == ncclSuccess)
        result = launch(op, true);
    note_issued(op, result);
    return result;
}

/* ---- calls ---- */

static void set_sizes(struct double_nccl_op *op)
{
    const struct double_nccl_comm *comm = op->comm;
    size_t n = op->count * double_nccl_type_size(op->dtype), all = n * comm->n_ranks;
    bool root = op->root == comm->rank;
    switch (op->kind) {
    case DOUBLE_NCCL_ALL_REDUCE: op->n_in = op->n_out = n; break;
    case DOUBLE_NCCL_REDUCE: op->n_in = n, op->n_out = root ? n : 0; break;
    case DOUBLE_NCCL_BROADCAST:
        op->n_in = root ? n : 0, op->n_out = root && op->in == op->out ? 0 : n;
        break;
    case DOUBLE_NCCL_ALL_GATHER: op->n_in = n, op->n_out = all; break;
    case DOUBLE_NCCL_REDUCE_SCATTER: op->n_in = all, op->n_out = n; break;
    case DOUBLE_NCCL_SEND: op->n_in = n; break;
    default: op->n_out = n;
    }
}

/* Apply the options to this operation. The lock is held. True: the communicator gets an error. */
static bool apply_faults(struct double_nccl_comm *comm, struct double_nccl_op *op)
{
    const struct double_nccl_options *o = &comm->options;
    bool here = o->only_rank == 0 || (int)comm->rank + 1 == o->only_rank;
    comm->n_of_kind[op->kind]++;
    comm->n_ops++;
    bool hangs = here && o->hang && strcmp(o->hang, double_nccl_kind_name(op->kind)) == 0 &&
                 comm->n_of_kind[op->kind] == o->hang_at;
    bool fails = here && o->async_after > 0 && comm->n_ops > o->async_after;
    op->hangs = hangs || fails;
    return fails && comm->n_ops == o->async_after + 1u;
}

/*
 * NULL: the communicator was aborted meanwhile. Has one reference for the list and one for the
 * caller.
 */
static struct double_nccl_op *add(struct double_nccl_comm *comm, const struct double_nccl_op *what)
{
    struct double_nccl_op *op = double_machine_alloc(sizeof *op);
    *op = *what;
    op->comm = comm;
    atomic_init(&op->refs, 2);
    double_nccl_comm_ref(comm);
    set_sizes(op);
    pthread_mutex_lock(&comm->lock);
    bool fails = !comm->stopped && apply_faults(comm, op);
    op->seq = comm->n_ops;
    struct double_nccl_op **end = &comm->ops;
    while (*end)
        end = &(*end)->next;
    if (!comm->stopped)
        *end = op;
    bool stopped = comm->stopped;
    pthread_mutex_unlock(&comm->lock);
    if (fails) {
        double_nccl_comm_fail(comm, comm->options.async,
                              "an error that was ordered, after %u operations",
                              comm->options.async_after);
        double_nccl_count_failed();
    }
    if (!stopped)
        return op;
    double_nccl_op_unref(op);
    double_nccl_op_unref(op);
    return NULL;
}

/* The communicator's thread issues it later. Takes the caller's reference. */
static ncclResult_t leave_in_progress(struct double_nccl_op *op)
{
    struct double_nccl_comm *comm = op->comm;
    double_release(op);
    pthread_mutex_lock(&comm->lock);
    comm->pending = op;
    comm->progress_ns =
        double_nccl_now_ns() +
        double_nccl_random(&comm->random, comm->options.progress_us * UINT64_C(1000));
    double_nccl_poke(comm->wake_fd);
    pthread_mutex_unlock(&comm->lock);
    return ncclInProgress;
}

/* Like ncclLaunchOneRank(): a mean of floats needs a kernel, which is a copy here too. */
static ncclResult_t run_alone(struct double_nccl_comm *comm, const struct double_nccl_op *what)
{
    struct double_nccl_op op = *what;
    size_t len = op.count * double_nccl_type_size(op.dtype);
    op.comm = comm;
    double_machine_lock();
    bool fits = find_stream(&op) != NULL;
    double_machine_unlock();
    if (!fits)
        return ncclInvalidArgument;
    if (op.in == op.out && !(op.op == ncclAvg && op.dtype >= ncclFloat16))
        return ncclSuccess;
    cudaError_t error = cudaMemcpyAsync(op.out, op.in, len, cudaMemcpyDeviceToDevice, op.stream);
    return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t run_call(struct double_nccl_comm *comm, const struct double_nccl_op *what)
{
    if (comm->n_ranks == 1 && what->kind < DOUBLE_NCCL_SEND)
        return run_alone(comm, what);
    struct double_nccl_op *op = add(comm, what);
    if (!op)
        return ncclInvalidUsage;
    if (group.depth > 0) {
        group.ops[group.n++] = op;
        return ncclSuccess;
    }
    if (!comm->blocking && comm->options.progress_us > 0)
        return leave_in_progress(op);
    ncclResult_t result = double_nccl_issue(op);
    double_nccl_op_unref(op);
    return result;
}

static ncclResult_t check(const struct double_nccl_comm *comm, const struct double_nccl_op *what)
{
    if (double_nccl_type_size(what->dtype) == 0 || what->op > ncclAvg ||
        what->root >= comm->n_ranks)
        return ncclInvalidArgument;
    return group.depth > 0 && group.n == GROUPED ? ncclInvalidUsage : ncclSuccess;
}

static ncclResult_t call(ncclComm_t handle, const char *function, const struct double_nccl_op *what)
{
    struct double_nccl_comm *comm;
    ncclResult_t result = double_nccl_enter(handle, function, &comm);
    if (result == ncclSuccess) {
        result = check(comm, what);
        if (result == ncclSuccess && what->count > 0)
            result = run_call(comm, what);
        double_nccl_exit(comm);
    }
    if (group.depth > 0 && group.error == ncclSuccess)
        group.error = result;
    return result;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, "ncclAllReduce",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_ALL_REDUCE,
                                         .in = in,
                                         .out = out,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .op = (uint32_t)op,
                                         .stream = stream});
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, "ncclReduce",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_REDUCE,
                                         .in = in,
                                         .out = out,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .op = (uint32_t)op,
                                         .root = (uint32_t)root,
                                         .stream = stream});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, "ncclBroadcast",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_BROADCAST,
                                         .in = in,
                                         .out = out,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .root = (uint32_t)root,
                                         .stream = stream});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, "ncclAllGather",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_ALL_GATHER,
                                         .in = in,
                                         .out = out,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .stream = stream});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return call(comm, "ncclReduceScatter",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_REDUCE_SCATTER,
                                         .in = in,
                                         .out = out,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .op = (uint32_t)op,
                                         .stream = stream});
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(comm, "ncclSend",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_SEND,
                                         .in = in,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .root = (uint32_t)peer,
                                         .stream = stream});
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return call(comm, "ncclRecv",
                &(struct double_nccl_op){.kind = DOUBLE_NCCL_RECV,
                                         .out = out,
                                         .count = count,
                                         .dtype = (uint32_t)type,
                                         .root = (uint32_t)peer,
                                         .stream = stream});
}

ncclResult_t ncclGroupStart(void)
{
    if (group.depth++ == 0) {
        group.n = 0;
        group.error = ncclSuccess;
    }
    return double_nccl_call_error("ncclGroupStart", INT_MIN);
}

/*
 * All operations read before one waits, so that two ranks may send to each other. Nothing is in
 * progress afterwards.
 */
static ncclResult_t issue_group(void)
{
    ncclResult_t results[GROUPED];
    ncclResult_t error = group.error;
    for (uint32_t i = 0; i < group.n; i++)
        results[i] = error == ncclSuccess ? launch(group.ops[i], false) : error;
    for (uint32_t i = 0; i < group.n; i++) {
        if (results[i] == ncclSuccess)
            results[i] = launch(group.ops[i], true);
        note_issued(group.ops[i], results[i]);
        error = error == ncclSuccess ? results[i] : error;
        double_nccl_op_unref(group.ops[i]);
    }
    group.n = 0;
    return error;
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = double_nccl_call_error("ncclGroupEnd", INT_MIN);
    if (group.depth == 0)
        return ncclInvalidUsage;
    if (--group.depth > 0)
        return result;
    ncclResult_t error = issue_group();
    return result != ncclSuccess ? result : error;
}
