/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of metrics on the device: steps add to them, a reduction takes them. */
#ifndef DIST_NCCL_NCCL_METRIC_SUMS_H
#define DIST_NCCL_NCCL_METRIC_SUMS_H

#include "dist/nccl/nccl_state.h"

#define MR_NCCL_ADDERS 8 /* slots for streams */

/* The last add of one stream since the last reduction. The slot's next add comes after it. */
struct mr_nccl_adder {
    void *stream;
    cudaEvent_t last;
    bool is_used;
};

/* Sums on the device. Adds go to one of two accumulators while the other one is being reduced. */
struct mr_nccl_metric_sums {
    struct mr_nccl_metric_sums *next; /* the engine's list, in use or not */
    bool is_used;
    uint32_t n;
    uint32_t size;          /* the largest n that fits */
    double *accumulator[2]; /* on the device, one allocation */
    cudaEvent_t taken[2];   /* recorded after the accumulator was set to 0 */
    uint32_t turn;          /* the accumulator that adds go to */
    uint32_t next_slot;
    struct mr_nccl_adder adders[MR_NCCL_ADDERS];
    uint8_t *last_slot; /* for each number: slot + 1 of the last add; 0: none */
};

/* sums_create, sums_add and sums_destroy of struct mr_engine_device. */
int32_t mr_nccl_metric_sums_create(void *user, uint32_t n, void **sums_out, mr_error *error);
int32_t mr_nccl_metric_sums_add(void *user, void *handle, uint32_t at, const void *value,
                                uint32_t dtype, double count, void *stream, mr_error *error);
void mr_nccl_metric_sums_destroy(void *user, void *handle);
/* In the engine's stream: to[i] += the sums so far, then set them to 0. */
int32_t mr_nccl_metric_sums_take(struct mr_nccl_engine *engine,
                                 struct mr_nccl_metric_sums *metric_sums, double *to,
                                 mr_error *error);
/*
 * Order the engine's stream after the adds of all streams. When it has finished, the sums may be
 * freed.
 */
void mr_nccl_metric_sums_follow(struct mr_nccl_engine *engine);
void mr_nccl_metric_sums_free(struct mr_nccl_engine *engine);

#endif
