/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl engine by its table, over the doubles of NCCL and CUDA. Ranks are threads of the test,
 * each with a separate device, and share a store in memory. Failed checks of ranks are counted and
 * printed, because cmocka's assertions work only in the main thread.
 */
#ifndef TESTS_DIST_NCCL_NCCL_RIG_H
#define TESTS_DIST_NCCL_NCCL_RIG_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dist/group/engine_table.h"
#include "tests/double/cuda_double.h"
#include "tests/double/nccl_double.h"

enum { RIG_RANKS = 4 };

struct rig_rank {
    uint32_t rank;
    const struct mr_engine_table *table;
    const struct mr_engine_device *calls;
    struct mr_engine_setup setup;
    void *engine;
    mr_error error; /* of the last call */
    uint64_t n_issued;
    void *arg;
};

typedef void rig_main(struct rig_rank *rank);

/* Open a machine with n_devices devices, for the tests of one function. */
void rig_open(uint32_t n_devices, enum double_policy policy);
/* Check that the double has reported nothing and that nothing is left over. */
void rig_close(void);

/*
 * Run f in a thread for each rank, with the device "cuda:local" and a timeout of 10 s. f creates
 * the engine.
 */
void rig_threads(uint32_t n, rig_main *f, void *arg);
/* The same with an engine, which is destroyed when f returns. */
void rig_engines(uint32_t n, rig_main *f, void *arg);
/* From now on the store reports that a rank has disconnected. */
void rig_break(struct rig_rank *rank);

int32_t rig_create(struct rig_rank *rank);
void rig_destroy(struct rig_rank *rank, bool healthy);
int32_t rig_issue(struct rig_rank *rank, struct mr_collective collective, void **ticket_out);
/* Test until the result is not MR_PENDING, at most 10 s. */
int32_t rig_poll(struct rig_rank *rank, void *ticket);
/* Issue, poll, drop. */
int32_t rig_call(struct rig_rank *rank, struct mr_collective collective);
/* An all_reduce that sums doubles in host memory. */
struct mr_collective rig_sum(double *values, uint32_t n);

uint64_t rig_now_ms(void);
void rig_check(bool holds, const struct rig_rank *rank, const char *file, int line,
               const char *text);
#define RIG_CHECK(rank, condition) rig_check(condition, rank, __FILE__, __LINE__, #condition)

#endif
