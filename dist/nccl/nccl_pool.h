/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of tickets and stages. */
#ifndef DIST_NCCL_NCCL_POOL_H
#define DIST_NCCL_NCCL_POOL_H

#include "dist/nccl/nccl_state.h"

/* Pinned memory and the same amount of device memory, for collectives of host memory. */
struct mr_nccl_stage {
    struct mr_nccl_stage *next; /* the pool's list */
    size_t size;
    char *host;
    char *device;
};

/* A collective under way. */
struct mr_nccl_ticket {
    struct mr_nccl_ticket *next; /* the pool's list */
    cudaEvent_t ended;
    struct mr_nccl_stage *stage; /* NULL: the caller's buffers are used */
    /* under pool_lock: where the host's result goes; NULL: it has been copied, or there is none */
    void *out;
    size_t out_at; /* offset in the stage */
    size_t out_len;
};

/* Bytes; the largest stage. */
#define MR_NCCL_POOL_MAX ((size_t)1 << 20)
/* stage_size 0: a ticket without a stage. */
int32_t mr_nccl_pool_take(struct mr_nccl_engine *engine, size_t stage_size,
                          struct mr_nccl_ticket **ticket_out, mr_error *error);
void mr_nccl_pool_drop(void *user, void *ticket);
void mr_nccl_pool_free(struct mr_nccl_engine *engine);

#endif
