/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over the nccl module and the doubles of NCCL and CUDA. Ranks are children of the test,
 * each with a separate machine that has a fake device for each rank, or threads that share one
 * machine. Rank i has device i.
 *
 * Failed checks of ranks are counted and printed, because cmocka's assertions work only in the main
 * thread.
 */
#ifndef TESTS_DIST_NCCL_NCCL_WORLD_H
#define TESTS_DIST_NCCL_NCCL_WORLD_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <millrace/group.h>

#include "tests/double/cuda_double.h"
#include "tests/double/nccl_double.h"

enum { NCCL_RANKS = 4 };

typedef void nccl_main(mr_group *group, void *arg);

struct nccl_world {
    uint32_t n_ranks;
    uint32_t timeout_ms; /* 0: 20 s */
    enum double_policy policy;
    uint64_t seed;
    struct double_nccl_options nccl;
    bool expects_reports; /* f checks the findings of the double of CUDA */
    bool same_device;     /* all ranks have device 0 */
    bool no_device;       /* no device is named: the adopted communicator knows it */
    bool adopts;          /* the group adopts a communicator that the rank has made */
    nccl_main *f;
    void *arg;
};

enum { NCCL_FINE, NCCL_WRONG, NCCL_NO_GROUP, NCCL_REPORTED }; /* or 128 + the signal */

/* Called by main(): sets the path of the module. */
void nccl_world_init(void);
/*
 * Run f in a child for each rank. A child is killed after half a minute. The program must have no
 * threads. words_out (may be NULL): the error of a rank without a group.
 */
void nccl_world_fork(const struct nccl_world *world, int results_out[NCCL_RANKS],
                     mr_error words_out[NCCL_RANKS]);
/* The same; all ranks must succeed. */
void nccl_world_run(const struct nccl_world *world);
/* The same in threads of the test, on one machine; all ranks must succeed. */
void nccl_world_threads(const struct nccl_world *world);

/*
 * n floats on the current device, all equal to value. NULL fails a check. Free them by cudaFree().
 */
float *nccl_world_floats(const mr_group *group, size_t n, float value);
/* Wait for the device, then check that all n floats are value. */
void nccl_world_expect(const mr_group *group, const float *device, size_t n, float value, int line);
#define NCCL_EXPECT(group, device, n, value) nccl_world_expect(group, device, n, value, __LINE__)

uint64_t nccl_world_now_ms(void);
void nccl_world_rest_ms(uint32_t ms);

void nccl_world_check(bool holds, const mr_group *group, const char *file, int line,
                      const char *text);
#define NCCL_CHECK(group, condition)                                                               \
    nccl_world_check(condition, group, __FILE__, __LINE__, #condition)
/* Check that the group's last error contains `words`. */
void nccl_world_says(const mr_group *group, const char *words, const char *file, int line);
#define NCCL_SAYS(group, words) nccl_world_says(group, words, __FILE__, __LINE__)

#endif
