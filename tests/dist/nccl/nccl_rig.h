/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl engine by its table, over the doubles of NCCL and CUDA: ranks as threads of the test,
 * each on a device of its own, with a store in memory. What ranks check is counted and printed,
 * because cmocka's assertions belong to the main thread.
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

/* A machine of so many devices, for the tests of one function. */
void rig_open(uint32_t n_devices, enum double_policy policy);
/* Nothing was reported, and nothing is left over. */
void rig_close(void);

/*
 * Run f as each rank, in threads. Its device is "cuda:local", its time 10 s; it creates the engine
 * itself.
 */
void rig_threads(uint32_t n, rig_main *f, void *arg);
/* The same with an engine, which is destroyed when f returns. */
void rig_engines(uint32_t n, rig_main *f, void *arg);
/* From now on the store says that a rank broke. */
void rig_break(struct rig_rank *rank);

int32_t rig_create(struct rig_rank *rank);
void rig_destroy(struct rig_rank *rank, bool healthy);
int32_t rig_issue(struct rig_rank *rank, struct mr_collective collective, void **ticket_out);
/* Until it is no longer MR_PENDING, at most 10 s. */
int32_t rig_poll(struct rig_rank *rank, void *ticket);
/* Issue, poll, drop. */
int32_t rig_call(struct rig_rank *rank, struct mr_collective collective);
/* A sum of the host's doubles. */
struct mr_collective rig_sum(double *values, uint32_t n);

uint64_t rig_now_ms(void);
void rig_check(bool holds, const struct rig_rank *rank, const char *file, int line,
               const char *text);
#define RIG_CHECK(rank, condition) rig_check(condition, rank, __FILE__, __LINE__, #condition)

#endif
