/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums that lie on the device: small kernels add to them in whatever stream has the value, and a reduction takes them.
 *
 * Easy to get wrong: the order. An add comes after the last add to the same number and after the last time its
 * accumulator was taken; a reduction comes after all adds. With more streams than slots, a further stream takes over a
 * slot by waiting for it, so that its own last add stands for both. A stream also waits for its own slot, because a new
 * stream may have the handle of an old one.
 */
#include "dist/nccl/nccl_engine.h"

#include "base/error.h"
#include "dist/nccl/nccl_sums.h"
#include "pinned/cuda_call.h"

#include <stdlib.h>
#include <string.h>

static void free_adds(struct mr_nccl_adds *adds)
{
    if (adds->accumulator[0])
        (void)cudaFree(adds->accumulator[0]);
    for (uint32_t i = 0; i < 2; i++)
        if (adds->taken[i])
            (void)cudaEventDestroy(adds->taken[i]);
    for (uint32_t i = 0; i < MR_NCCL_ADDERS; i++)
        if (adds->adders[i].last)
            (void)cudaEventDestroy(adds->adders[i].last);
    free(adds->last_slot);
    free(adds);
}

static int32_t make_event(const struct mr_nccl_engine *engine, cudaEvent_t *event_out, mr_error *error)
{
    return mr_nccl_call_cuda(engine, cudaEventCreateWithFlags(event_out, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags", error);
}

static int32_t allocate(const struct mr_nccl_engine *engine, struct mr_nccl_adds *adds, mr_error *error)
{
    void *memory = NULL;
    adds->last_slot = calloc(adds->size, sizeof *adds->last_slot);
    if (!adds->last_slot)
        return mr_error_memory(error, adds->size);
    int32_t status =
        mr_nccl_call_cuda(engine, cudaMalloc(&memory, 2 * adds->size * sizeof(double)), "cudaMalloc", error);
    if (status != MR_OK)
        return status;
    adds->accumulator[0] = memory;
    adds->accumulator[1] = adds->accumulator[0] + adds->size;
    for (uint32_t i = 0; i < 2 && status == MR_OK; i++)
        status = make_event(engine, &adds->taken[i], error);
    for (uint32_t i = 0; i < MR_NCCL_ADDERS && status == MR_OK; i++)
        status = make_event(engine, &adds->adders[i].last, error);
    return status;
}

/* In the engine's stream: after all adds so far. */
static int32_t follow_adders(const struct mr_nccl_engine *engine, struct mr_nccl_adds *adds, mr_error *error)
{
    int32_t status = MR_OK;
    for (uint32_t i = 0; i < MR_NCCL_ADDERS && status == MR_OK; i++) {
        if (adds->adders[i].is_used)
            status = mr_nccl_call_cuda(engine, cudaStreamWaitEvent(engine->stream, adds->adders[i].last, 0),
                                       "cudaStreamWaitEvent", error);
        adds->adders[i].is_used = false;
    }
    memset(adds->last_slot, 0, adds->size * sizeof *adds->last_slot);
    return status;
}

static int32_t clear(const struct mr_nccl_engine *engine, struct mr_nccl_adds *adds, mr_error *error)
{
    int32_t status = follow_adders(engine, adds, error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(
            engine, cudaMemsetAsync(adds->accumulator[0], 0, 2 * adds->size * sizeof(double), engine->stream),
            "cudaMemsetAsync", error);
    for (uint32_t i = 0; i < 2 && status == MR_OK; i++)
        status = mr_nccl_call_cuda(engine, cudaEventRecord(adds->taken[i], engine->stream), "cudaEventRecord", error);
    return status;
}

static struct mr_nccl_adds *find_free(const struct mr_nccl_engine *engine, uint32_t n)
{
    struct mr_nccl_adds *adds = engine->adds;
    while (adds && (adds->is_used || adds->size < n))
        adds = adds->next;
    return adds;
}

static int32_t make_adds(struct mr_nccl_engine *engine, uint32_t n, struct mr_nccl_adds **adds_out, mr_error *error)
{
    struct mr_nccl_adds *adds = calloc(1, sizeof *adds);
    if (!adds)
        return mr_error_memory(error, sizeof *adds);
    adds->size = n;
    int32_t status = allocate(engine, adds, error);
    if (status != MR_OK) {
        free_adds(adds);
        return status;
    }
    adds->next = engine->adds;
    engine->adds = adds;
    *adds_out = adds;
    return MR_OK;
}

int32_t mr_nccl_adds_create(void *user, uint32_t n, void **sums_out, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    *sums_out = NULL;
    if (n == 0 || n % 2 != 0 || n > MR_NCCL_POOL_MAX / sizeof(double))
        return mr_error_set(error, MR_ERR_INVALID, "%u sums on the device: an even number from 2 to %zu is needed", n,
                            MR_NCCL_POOL_MAX / sizeof(double));
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    struct mr_nccl_adds *adds = find_free(engine, n);
    int32_t status = MR_OK;
    if (call.code == cudaSuccess && !adds)
        status = make_adds(engine, n, &adds, error);
    if (call.code == cudaSuccess && status == MR_OK)
        status = clear(engine, adds, error);
    int32_t ended = mr_cuda_call_end(&call, engine->device, status == MR_OK ? error : NULL, "sums on the device");
    if (status != MR_OK || ended != MR_OK)
        return status != MR_OK ? status : ended;
    adds->n = n;
    adds->is_used = true;
    *sums_out = adds;
    return MR_OK;
}

/* The stream's own slot, a free one, or one to be taken over. */
static uint32_t find_slot(struct mr_nccl_adds *adds, const void *stream)
{
    uint32_t unused = MR_NCCL_ADDERS;
    for (uint32_t i = 0; i < MR_NCCL_ADDERS; i++) {
        if (adds->adders[i].is_used && adds->adders[i].stream == stream)
            return i;
        if (!adds->adders[i].is_used && unused == MR_NCCL_ADDERS)
            unused = i;
    }
    return unused < MR_NCCL_ADDERS ? unused : adds->next_slot++ % MR_NCCL_ADDERS;
}

static int32_t wait_for(const struct mr_nccl_engine *engine, cudaStream_t stream, cudaEvent_t event, mr_error *error)
{
    return mr_nccl_call_cuda(engine, cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent", error);
}

/* The stream comes after what the add has to come after. */
static int32_t order(const struct mr_nccl_engine *engine, const struct mr_nccl_adds *adds, uint32_t slot, uint32_t at,
                     cudaStream_t stream, mr_error *error)
{
    uint32_t before = adds->last_slot[at];
    int32_t status = wait_for(engine, stream, adds->taken[adds->turn], error);
    if (status == MR_OK && adds->adders[slot].is_used)
        status = wait_for(engine, stream, adds->adders[slot].last, error);
    if (status == MR_OK && before > 0 && before - 1 != slot)
        status = wait_for(engine, stream, adds->adders[before - 1].last, error);
    return status;
}

static int32_t add(const struct mr_nccl_engine *engine, struct mr_nccl_adds *adds, uint32_t at, const void *value,
                   uint32_t dtype, double count, void *stream, mr_error *error)
{
    int32_t status = mr_nccl_issue_check(engine, stream, error);
    if (status != MR_OK)
        return status;
    uint32_t slot = find_slot(adds, stream);
    struct mr_nccl_adder *adder = &adds->adders[slot];
    status = order(engine, adds, slot, at, stream, error);
    if (status == MR_OK)
        status = mr_nccl_call_stream(engine,
                                     mr_nccl_sums_add(adds->accumulator[adds->turn] + at, value, dtype, count, stream),
                                     "the kernel that adds a metric", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaEventRecord(adder->last, stream), "cudaEventRecord", error);
    if (status == MR_OK) {
        adder->stream = stream;
        adder->is_used = true;
        adds->last_slot[at] = (uint8_t)(slot + 1);
    }
    return status;
}

int32_t mr_nccl_adds_add(void *user, void *sums, uint32_t at, const void *value, uint32_t dtype, double count,
                         void *stream, mr_error *error)
{
    struct mr_nccl_engine *engine = user;
    struct mr_nccl_adds *adds = sums;
    if (at >= adds->n || adds->n - at < 2)
        return mr_error_set(error, MR_ERR_INVALID, "sum %u of %u on the device", at, adds->n);
    if (atomic_load(&engine->is_aborted))
        return mr_nccl_call_aborted(error);
    struct mr_cuda_call call = mr_cuda_call_begin(engine->device);
    int32_t status = MR_OK;
    if (call.code == cudaSuccess)
        status = add(engine, adds, at, value, dtype, count, stream, error);
    int32_t ended = mr_cuda_call_end(&call, engine->device, status == MR_OK ? error : NULL, "a sum on the device");
    return status != MR_OK ? status : ended;
}

int32_t mr_nccl_adds_take(struct mr_nccl_engine *engine, struct mr_nccl_adds *adds, double *to, mr_error *error)
{
    int32_t status = follow_adders(engine, adds, error);
    if (status == MR_OK)
        status =
            mr_nccl_call_cuda(engine, mr_nccl_sums_take(to, adds->accumulator[adds->turn], adds->n, engine->stream),
                              "the kernel that takes the metrics", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaEventRecord(adds->taken[adds->turn], engine->stream), "cudaEventRecord",
                                   error);
    adds->turn = 1 - adds->turn;
    return status;
}

/* Kept for the next ones: to free it here would wait for all that is on the device. */
void mr_nccl_adds_destroy(void *user, void *sums)
{
    struct mr_nccl_adds *adds = sums;
    (void)user;
    if (adds)
        adds->is_used = false;
}

void mr_nccl_adds_free(struct mr_nccl_engine *engine)
{
    while (engine->adds) {
        struct mr_nccl_adds *adds = engine->adds;
        engine->adds = adds->next;
        free_adds(adds);
    }
}
