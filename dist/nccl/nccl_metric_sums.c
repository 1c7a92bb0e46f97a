/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums on the device. Small kernels add to them in the stream that has the value, and a reduction
 * takes them.
 *
 * Invariant: the order. An add comes after the last add to the same number and after the last time
 * its accumulator was taken. A reduction comes after all adds. If there are more streams than
 * slots, a new stream waits for a slot's last add and takes the slot over. So the slot's event,
 * recorded again by the new stream, still comes after the old stream's adds. A stream also waits
 * for its own slot, because a new stream may have the handle of an old one.
 */
#include "dist/nccl/nccl_metric_sums.h"

#include "base/error.h"
#include "dist/nccl/nccl_call.h"
#include "dist/nccl/nccl_pool.h"
#include "dist/nccl/nccl_sums.h"
#include "pinned/cuda_call.h"

#include <stdlib.h>
#include <string.h>

static void free_sums(struct mr_nccl_metric_sums *sums)
{
    if (sums->accumulator[0])
        (void)cudaFree(sums->accumulator[0]);
    for (uint32_t i = 0; i < 2; i++)
        if (sums->taken[i])
            (void)cudaEventDestroy(sums->taken[i]);
    for (uint32_t i = 0; i < MR_NCCL_ADDERS; i++)
        if (sums->adders[i].last)
            (void)cudaEventDestroy(sums->adders[i].last);
    free(sums->last_slot);
    free(sums);
}

static int32_t make_event(const struct mr_nccl_engine *engine, cudaEvent_t *event_out,
                          mr_error *error)
{
    return mr_nccl_call_cuda(engine, cudaEventCreateWithFlags(event_out, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags", error);
}

static int32_t allocate_sums(const struct mr_nccl_engine *engine, struct mr_nccl_metric_sums *sums,
                             mr_error *error)
{
    void *memory = NULL;
    sums->last_slot = calloc(sums->size, sizeof *sums->last_slot);
    if (!sums->last_slot)
        return mr_error_memory(error, sums->size);
    int32_t status = mr_nccl_call_cuda(engine, cudaMalloc(&memory, 2 * sums->size * sizeof(double)),
                                       "cudaMalloc", error);
    if (status != MR_OK)
        return status;
    sums->accumulator[0] = memory;
    sums->accumulator[1] = sums->accumulator[0] + sums->size;
    for (uint32_t i = 0; i < 2 && status == MR_OK; i++)
        status = make_event(engine, &sums->taken[i], error);
    for (uint32_t i = 0; i < MR_NCCL_ADDERS && status == MR_OK; i++)
        status = make_event(engine, &sums->adders[i].last, error);
    return status;
}

/* Order the engine's stream after all adds so far. */
static int32_t follow_adders(const struct mr_nccl_engine *engine, struct mr_nccl_metric_sums *sums,
                             mr_error *error)
{
    int32_t status = MR_OK;
    for (uint32_t i = 0; i < MR_NCCL_ADDERS && status == MR_OK; i++) {
        if (sums->adders[i].is_used)
            status = mr_nccl_call_cuda(engine,
                                       cudaStreamWaitEvent(engine->stream, sums->adders[i].last, 0),
                                       "cudaStreamWaitEvent", error);
        sums->adders[i].is_used = false;
    }
    memset(sums->last_slot, 0, sums->size * sizeof *sums->last_slot);
    return status;
}

static int32_t clear_sums(const struct mr_nccl_engine *engine, struct mr_nccl_metric_sums *sums,
                          mr_error *error)
{
    int32_t status = follow_adders(engine, sums, error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine,
                                   cudaMemsetAsync(sums->accumulator[0], 0,
                                                   2 * sums->size * sizeof(double), engine->stream),
                                   "cudaMemsetAsync", error);
    for (uint32_t i = 0; i < 2 && status == MR_OK; i++)
        status = mr_nccl_call_cuda(engine, cudaEventRecord(sums->taken[i], engine->stream),
                                   "cudaEventRecord", error);
    return status;
}

static struct mr_nccl_metric_sums *find_free(const struct mr_nccl_engine *engine, uint32_t n)
{
    struct mr_nccl_metric_sums *sums = engine->metric_sums;
    while (sums && (sums->is_used || sums->size < n))
        sums = sums->next;
    return sums;
}

static int32_t make_sums(struct mr_nccl_engine *engine, uint32_t n,
                         struct mr_nccl_metric_sums **sums_out, mr_error *error)
{
    struct mr_nccl_metric_sums *sums = calloc(1, sizeof *sums);
    if (!sums)
        return mr_error_memory(error, sizeof *sums);
    sums->size = n;
    int32_t status = allocate_sums(engine, sums, error);
    if (status != MR_OK) {
        free_sums(sums);
        return status;
    }
    sums->next = engine->metric_sums;
    engine->metric_sums = sums;
    *sums_out = sums;
    return MR_OK;
}

int32_t mr_nccl_metric_sums_create(void *user, uint32_t n, void **sums_out, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    *sums_out = NULL;
    if (n == 0 || n % 2 != 0 || n > MR_NCCL_POOL_MAX / sizeof(double))
        return mr_error_set(error, MR_ERR_INVALID,
                            "%u sums on the device: an even number from 2 to %zu is needed", n,
                            MR_NCCL_POOL_MAX / sizeof(double));
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    struct mr_nccl_metric_sums *sums = find_free(engine, n);
    int32_t status = MR_OK;
    if (call.code == cudaSuccess && !sums)
        status = make_sums(engine, n, &sums, error);
    if (call.code == cudaSuccess && status == MR_OK)
        status = clear_sums(engine, sums, error);
    int32_t ended = mr_cuda_call_end(&call, engine->device, status == MR_OK ? error : NULL,
                                     "sums on the device");
    if (status != MR_OK || ended != MR_OK)
        return status != MR_OK ? status : ended;
    sums->n = n;
    sums->is_used = true;
    *sums_out = sums;
    return MR_OK;
}

/* Find the stream's slot, a free slot, or a slot to take over. */
static uint32_t find_slot(struct mr_nccl_metric_sums *sums, const void *stream)
{
    uint32_t unused = MR_NCCL_ADDERS;
    for (uint32_t i = 0; i < MR_NCCL_ADDERS; i++) {
        if (sums->adders[i].is_used && sums->adders[i].stream == stream)
            return i;
        if (!sums->adders[i].is_used && unused == MR_NCCL_ADDERS)
            unused = i;
    }
    return unused < MR_NCCL_ADDERS ? unused : sums->next_slot++ % MR_NCCL_ADDERS;
}

static int32_t wait_for(const struct mr_nccl_engine *engine, cudaStream_t stream, cudaEvent_t event,
                        mr_error *error)
{
    return mr_nccl_call_cuda(engine, cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent",
                             error);
}

/* Order the stream after everything that must precede the add. */
static int32_t order_stream(const struct mr_nccl_engine *engine,
                            const struct mr_nccl_metric_sums *sums, uint32_t slot, uint32_t at,
                            cudaStream_t stream, mr_error *error)
{
    uint32_t before = sums->last_slot[at];
    int32_t status = wait_for(engine, stream, sums->taken[sums->turn], error);
    if (status == MR_OK && sums->adders[slot].is_used)
        status = wait_for(engine, stream, sums->adders[slot].last, error);
    if (status == MR_OK && before > 0 && before - 1 != slot)
        status = wait_for(engine, stream, sums->adders[before - 1].last, error);
    return status;
}

static int32_t add_value(const struct mr_nccl_engine *engine, struct mr_nccl_metric_sums *sums,
                         uint32_t at, const void *value, uint32_t dtype, double count, void *stream,
                         mr_error *error)
{
    int32_t status = mr_nccl_call_capture(engine, stream, error);
    if (status != MR_OK)
        return status;
    uint32_t slot = find_slot(sums, stream);
    struct mr_nccl_adder *adder = &sums->adders[slot];
    status = order_stream(engine, sums, slot, at, stream, error);
    if (status == MR_OK)
        status = mr_nccl_call_stream(
            engine,
            mr_nccl_sums_add(sums->accumulator[sums->turn] + at, value, dtype, count, stream),
            "the kernel that adds a metric", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaEventRecord(adder->last, stream), "cudaEventRecord",
                                   error);
    if (status == MR_OK) {
        adder->stream = stream;
        adder->is_used = true;
        sums->last_slot[at] = (uint8_t)(slot + 1);
    }
    return status;
}

int32_t mr_nccl_metric_sums_add(void *user, void *handle, uint32_t at, const void *value,
                                uint32_t dtype, double count, void *stream, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    struct mr_nccl_metric_sums *sums = handle;
    if (at >= sums->n || sums->n - at < 2)
        return mr_error_set(error, MR_ERR_INVALID, "sum %u of %u on the device", at, sums->n);
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    int32_t status = MR_OK;
    if (call.code == cudaSuccess)
        status = add_value(engine, sums, at, value, dtype, count, stream, error);
    int32_t ended = mr_cuda_call_end(&call, engine->device, status == MR_OK ? error : NULL,
                                     "a sum on the device");
    return status != MR_OK ? status : ended;
}

int32_t mr_nccl_metric_sums_take(struct mr_nccl_engine *engine, struct mr_nccl_metric_sums *sums,
                                 double *to, mr_error *error)
{
    int32_t status = follow_adders(engine, sums, error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(
            engine, mr_nccl_sums_take(to, sums->accumulator[sums->turn], sums->n, engine->stream),
            "the kernel that takes the metrics", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaEventRecord(sums->taken[sums->turn], engine->stream),
                                   "cudaEventRecord", error);
    sums->turn = 1 - sums->turn;
    return status;
}

/* The memory is reused for later sums. Freeing it here may wait for all work on the device. */
void mr_nccl_metric_sums_destroy(void *user, void *handle)
{
    struct mr_nccl_metric_sums *sums = handle;
    (void)user;
    if (sums)
        sums->is_used = false;
}

void mr_nccl_metric_sums_follow(struct mr_nccl_engine *engine)
{
    for (struct mr_nccl_metric_sums *sums = engine->metric_sums; sums; sums = sums->next)
        (void)follow_adders(engine, sums, NULL);
}

void mr_nccl_metric_sums_free(struct mr_nccl_engine *engine)
{
    while (engine->metric_sums) {
        struct mr_nccl_metric_sums *sums = engine->metric_sums;
        engine->metric_sums = sums->next;
        free_sums(sums);
    }
}
