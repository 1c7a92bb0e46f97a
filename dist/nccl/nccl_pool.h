/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets and stages, taken and given back. */
#ifndef DIST_NCCL_NCCL_POOL_H
#define DIST_NCCL_NCCL_POOL_H

#include "dist/nccl/nccl_state.h"

/* Pinned memory and as much of the device's, for what the library itself reduces. */
struct mr_nccl_stage {
    struct mr_nccl_stage *next; /* of the pool's */
    size_t size;
    char *host;
    char *device;
};

/* A collective under way. */
struct mr_nccl_ticket {
    struct mr_nccl_ticket *next; /* of the pool's */
    cudaEvent_t ended;
    struct mr_nccl_stage *stage; /* NULL: the buffers are the caller's */
    void *out;     /* under pool_lock: where the host's result goes; NULL: it is there, or there
                      is none */
    size_t out_at; /* in the stage */
    size_t out_len;
};

/* Nothing larger is staged. */
#define MR_NCCL_POOL_MAX ((size_t)1 << 20)
/* stage_size 0: a ticket without a stage. */
int32_t mr_nccl_pool_take(struct mr_nccl_engine *engine, size_t stage_size,
                          struct mr_nccl_ticket **ticket_out, mr_error *error);
void mr_nccl_pool_drop(void *user, void *ticket);
void mr_nccl_pool_free(struct mr_nccl_engine *engine);

#endif
