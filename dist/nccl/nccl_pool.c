/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pools of tickets, with their events, and of stages. Sizes of stages are powers of two. No
 * stage is freed before the engine ends, because cudaFree() may wait for all work on the device.
 */
#include "dist/nccl/nccl_pool.h"

#include "base/error.h"
#include "dist/nccl/nccl_call.h"
#include "pinned/cuda_call.h"

#include <stdlib.h>

#define STAGE_MIN 4096 /* bytes */

static void free_stage(struct mr_nccl_stage *stage)
{
    if (stage->host)
        (void)cudaFreeHost(stage->host);
    if (stage->device)
        (void)cudaFree(stage->device);
    free(stage);
}

static void free_ticket(struct mr_nccl_ticket *ticket)
{
    if (ticket->stage)
        free_stage(ticket->stage);
    if (ticket->ended)
        (void)cudaEventDestroy(ticket->ended);
    free(ticket);
}

static int32_t make_stage(const struct mr_nccl_engine *engine, size_t size,
                          struct mr_nccl_stage **stage_out, mr_error *error)
{
    struct mr_nccl_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return mr_error_memory(error, sizeof *stage);
    stage->size = STAGE_MIN;
    while (stage->size < size)
        stage->size *= 2;
    void *host = NULL;
    void *device = NULL;
    int32_t status = mr_nccl_call_cuda(
        engine, cudaHostAlloc(&host, stage->size, cudaHostAllocDefault), "cudaHostAlloc", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaMalloc(&device, stage->size), "cudaMalloc", error);
    stage->host = host;
    stage->device = device;
    if (status == MR_OK)
        *stage_out = stage;
    else
        free_stage(stage);
    return status;
}

static struct mr_nccl_stage *find_stage(struct mr_nccl_engine *engine, size_t size)
{
    struct mr_nccl_stage **at = &engine->stages;
    while (*at && (*at)->size < size)
        at = &(*at)->next;
    struct mr_nccl_stage *stage = *at;
    if (stage)
        *at = stage->next;
    return stage;
}

static int32_t make_ticket(const struct mr_nccl_engine *engine, struct mr_nccl_ticket **ticket_out,
                           mr_error *error)
{
    struct mr_nccl_ticket *ticket = calloc(1, sizeof *ticket);
    if (!ticket)
        return mr_error_memory(error, sizeof *ticket);
    cudaError_t code = cudaEventCreateWithFlags(&ticket->ended, cudaEventDisableTiming);
    if (code == cudaSuccess) {
        *ticket_out = ticket;
        return MR_OK;
    }
    free(ticket);
    return mr_nccl_call_cuda(engine, code, "cudaEventCreateWithFlags", error);
}

int32_t mr_nccl_pool_take(struct mr_nccl_engine *engine, size_t stage_size,
                          struct mr_nccl_ticket **ticket_out, mr_error *error)
{
    pthread_mutex_lock(&engine->pool_lock);
    struct mr_nccl_ticket *ticket = engine->tickets;
    if (ticket)
        engine->tickets = ticket->next;
    struct mr_nccl_stage *stage = stage_size > 0 ? find_stage(engine, stage_size) : NULL;
    pthread_mutex_unlock(&engine->pool_lock);

    int32_t status = MR_OK;
    if (!ticket)
        status = make_ticket(engine, &ticket, error);
    if (status == MR_OK && stage_size > 0 && !stage)
        status = make_stage(engine, stage_size, &stage, error);
    if (!ticket) {
        if (stage)
            free_stage(stage);
        return status;
    }
    ticket->stage = stage;
    ticket->out = NULL;
    if (status == MR_OK)
        *ticket_out = ticket;
    else
        mr_nccl_pool_drop(engine, ticket);
    return status;
}

void mr_nccl_pool_drop(void *user, void *handle)
{
    struct mr_nccl_engine *engine = user;
    struct mr_nccl_ticket *ticket = handle;
    if (!ticket)
        return;
    pthread_mutex_lock(&engine->pool_lock);
    ticket->out = NULL;
    if (ticket->stage) {
        /* Smallest first, so that a larger one is taken only if needed. */
        struct mr_nccl_stage **at = &engine->stages;
        while (*at && (*at)->size < ticket->stage->size)
            at = &(*at)->next;
        ticket->stage->next = *at;
        *at = ticket->stage;
        ticket->stage = NULL;
    }
    ticket->next = engine->tickets;
    engine->tickets = ticket;
    pthread_mutex_unlock(&engine->pool_lock);
}

void mr_nccl_pool_free(struct mr_nccl_engine *engine)
{
    while (engine->tickets) {
        struct mr_nccl_ticket *ticket = engine->tickets;
        engine->tickets = ticket->next;
        free_ticket(ticket);
    }
    while (engine->stages) {
        struct mr_nccl_stage *stage = engine->stages;
        engine->stages = stage->next;
        free_stage(stage);
    }
}
