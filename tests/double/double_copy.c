/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies. From page-locked memory the source is read when the copy runs. Pageable bytes may be
 * taken at any time between the call and then, because CUDA promises no more: at the call (early),
 * when the copy runs (late), or as drawn.
 *
 * Invariant: a copy to pageable memory returns only when it has ended, whatever its name says.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    void *to;
    const void *from;
    size_t len;
    enum double_kind kind;
    const char *name;
    bool to_pageable;
    bool from_pageable;
};

/* What both kinds of payload begin with. */
struct copy_payload {
    size_t len;
    int value;
    uint8_t bytes[]; /* staged */
};

static void run_copy(void *payload, void *const *views)
{
    memmove(views[0], views[1], ((const struct copy_payload *)payload)->len);
}

static void run_set(void *payload, void *const *views)
{
    const struct copy_payload *set = payload;
    memset(views[0], set->value, set->len);
}

/* Find the direction; cudaErrorInvalidValue if the pointers do not agree with the kind. */
static cudaError_t find_way(struct copy *copy, enum cudaMemcpyKind kind)
{
    static const enum double_kind ways[2][2] = {{DOUBLE_OP_HOST, DOUBLE_OP_D2H},
                                                {DOUBLE_OP_H2D, DOUBLE_OP_D2D}};
    static const enum cudaMemcpyKind kinds[2][2] = {
        {cudaMemcpyHostToHost, cudaMemcpyDeviceToHost},
        {cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice}};
    bool to = double_memory_is_device(copy->to);
    bool from = double_memory_is_device(copy->from);
    copy->kind = ways[to][from];
    return kind == cudaMemcpyDefault || kind == kinds[to][from] ? cudaSuccess
                                                                : cudaErrorInvalidValue;
}

/* Touch a side on the host: judged if it is page-locked, else pageable. */
static cudaError_t touch_host(int device, const void *address, const struct copy *copy, bool write,
                              struct double_touch *touch_out, bool *pageable_out)
{
    struct double_region *region;
    cudaError_t error = double_memory_locked(device, address, copy->len, &region);
    *pageable_out = error == cudaSuccess && !region;
    *touch_out =
        (struct double_touch){.view = (uint8_t *)address, .len = copy->len, .write = write};
    if (error != cudaSuccess || !region)
        return error;
    return double_memory_touch(region->home, address, copy->len, write, copy->name, touch_out);
}

/*
 * Touch a side on a device: the stream's device, or any device if the other side is on the
 * stream's.
 */
static cudaError_t touch_device(int device, const void *address, const struct copy *copy,
                                bool write, struct double_touch *touch_out)
{
    struct double_region *region = double_memory_find(address);
    struct double_region *other = double_memory_find(write ? copy->from : copy->to);
    bool peer = copy->kind == DOUBLE_OP_D2D && region && other && other->device == device;
    return double_memory_touch(peer ? region->device : device, address, copy->len, write,
                               copy->name, touch_out);
}

static cudaError_t touch_side(int device, const void *address, struct copy *copy, bool write,
                              struct double_touch *touch_out)
{
    bool *pageable = write ? &copy->to_pageable : &copy->from_pageable;
    if (!double_memory_is_device(address))
        return touch_host(device, address, copy, write, touch_out, pageable);
    return touch_device(device, address, copy, write, touch_out);
}

static cudaError_t prepare(int device, struct copy *copy, struct double_work *work_out)
{
    *work_out =
        (struct double_work){.kind = copy->kind == DOUBLE_OP_HOST ? DOUBLE_OP_D2D : copy->kind,
                             .name = copy->name,
                             .run = run_copy,
                             .gate = DOUBLE_NO_GATE};
    cudaError_t error = touch_side(device, copy->to, copy, true, &work_out->touches[0]);
    if (error != cudaSuccess)
        return error;
    work_out->n_touches = 1;
    error = touch_side(device, copy->from, copy, false, &work_out->touches[1]);
    if (error == cudaSuccess)
        work_out->n_touches = 2;
    return error;
}

/*
 * True if the bytes are taken at the call. A captured copy takes none: it reads when the graph
 * runs.
 */
static bool takes_bytes_now(const struct copy *copy, bool captured)
{
    enum double_policy policy = double_machine()->options.policy;
    if (!copy->from_pageable || captured || policy == DOUBLE_LATE)
        return false;
    return policy == DOUBLE_EARLY || double_machine_random(2) == 0;
}

static void stage(const struct copy *copy, bool captured, struct double_work *work)
{
    bool staged = takes_bytes_now(copy, captured);
    work->payload_len = sizeof(struct copy_payload) + (staged ? copy->len : 0);
    struct copy_payload *payload = double_machine_alloc(work->payload_len);
    payload->len = copy->len;
    work->payload = payload;
    if (!staged)
        return;
    memcpy(payload->bytes, copy->from, copy->len);
    work->touches[1].view = payload->bytes;
}

static void count_host_side(const struct copy *copy, bool already_blocking)
{
    struct double_counts *counts = &double_machine_thread()->counts;
    counts->pageable += copy->to_pageable || copy->from_pageable;
    counts->blocking += copy->to_pageable && !already_blocking;
}

static cudaError_t issue_copy(struct double_stream *stream, struct copy *copy, bool blocks)
{
    if (copy->len == 0)
        return cudaSuccess;
    struct double_work work;
    cudaError_t error = prepare(stream->device, copy, &work);
    if (error != cudaSuccess) {
        double_queue_drop_work(&work);
        return error;
    }
    stage(copy, stream->capture != NULL, &work);
    count_host_side(copy, blocks);
    struct double_op *op;
    error = double_queue_issue(stream, &work, NULL, 0, &op);
    if (error != cudaSuccess || !op)
        return error;
    if (copy->to_pageable || (blocks && copy->kind != DOUBLE_OP_D2D))
        double_schedule_wait(op);
    double_queue_unref(op);
    return double_machine()->devices[stream->device].broken;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t len, enum cudaMemcpyKind kind,
                            cudaStream_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMemcpyAsync", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct copy copy = {.to = to, .from = from, .len = len, .name = "cudaMemcpyAsync"};
    struct double_stream *stream = double_queue_stream(handle);
    cudaError_t error = stream ? find_way(&copy, kind) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess)
        error = issue_copy(stream, &copy, false);
    return double_call_end(&call, error);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t len, enum cudaMemcpyKind kind)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMemcpy", NULL,
                           DOUBLE_CONTEXT | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    struct copy copy = {.to = to, .from = from, .len = len, .name = "cudaMemcpy"};
    cudaError_t error = find_way(&copy, kind);
    if (error == cudaSuccess)
        error = issue_copy(double_queue_stream(NULL), &copy, true);
    return double_call_end(&call, error);
}

static cudaError_t issue_set(struct double_stream *stream, void *memory, int value, size_t len,
                             const char *name)
{
    struct double_work work = {
        .kind = DOUBLE_OP_SET, .name = name, .run = run_set, .gate = DOUBLE_NO_GATE};
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (len == 0)
        return cudaSuccess;
    cudaError_t error =
        double_memory_touch(stream->device, memory, len, true, name, &work.touches[0]);
    if (error != cudaSuccess)
        return error;
    work.n_touches = 1;
    struct copy_payload *payload = double_machine_alloc(sizeof *payload);
    *payload = (struct copy_payload){.len = len, .value = value};
    work.payload = payload;
    work.payload_len = sizeof *payload;
    return double_queue_issue(stream, &work, NULL, 0, NULL);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t len, cudaStream_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMemsetAsync", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    cudaError_t error =
        issue_set(double_queue_stream(handle), memory, value, len, "cudaMemsetAsync");
    return double_call_end(&call, error);
}

cudaError_t cudaMemset(void *memory, int value, size_t len)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMemset", NULL, DOUBLE_CONTEXT | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call,
                           issue_set(double_queue_stream(NULL), memory, value, len, "cudaMemset"));
}
