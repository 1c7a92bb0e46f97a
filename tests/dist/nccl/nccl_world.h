/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over the nccl module, the double of NCCL and the double of CUDA: ranks as children of the
 * test, each with a machine of its own of as many fake devices as there are ranks, or as threads
 * that share one. Rank i has device i.
 *
 * What ranks check is counted and printed, because cmocka's assertions belong to the main thread.
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
    bool expects_reports; /* f looks at what the double of CUDA has found */
    bool same_device;     /* all ranks have device 0 */
    bool no_device;       /* the communicator that all adopt knows it */
    bool adopts;          /* a communicator that the rank has made */
    nccl_main *f;
    void *arg;
};

enum { NCCL_FINE, NCCL_WRONG, NCCL_NO_GROUP, NCCL_REPORTED }; /* or 128 and the signal */

/* For main(): where the module is found. */
void nccl_world_init(void);
/*
 * Run f as each rank, in children; a child is ended when it takes more than half a minute. The
 * program may have no threads. words_out (may be NULL): what a rank without a group was told.
 */
void nccl_world_fork(const struct nccl_world *world, int results_out[NCCL_RANKS],
                     mr_error words_out[NCCL_RANKS]);
/* The same, and all must be fine. */
void nccl_world_run(const struct nccl_world *world);
/* The same in threads of the test, on one machine; all must be fine. */
void nccl_world_threads(const struct nccl_world *world);

/*
 * n floats of the current device, all of them value; NULL fails a check. To be given back by
 * cudaFree().
 */
float *nccl_world_floats(const mr_group *group, size_t n, float value);
/* All n of them are value, once everything on the device has ended. */
void nccl_world_expect(const mr_group *group, const float *device, size_t n, float value, int line);
#define NCCL_EXPECT(group, device, n, value) nccl_world_expect(group, device, n, value, __LINE__)

uint64_t nccl_world_now_ms(void);
void nccl_world_rest_ms(uint32_t ms);

void nccl_world_check(bool holds, const mr_group *group, const char *file, int line,
                      const char *text);
#define NCCL_CHECK(group, condition)                                                               \
    nccl_world_check(condition, group, __FILE__, __LINE__, #condition)
/* The group's last error says `words`. */
void nccl_world_says(const mr_group *group, const char *words, const char *file, int line);
#define NCCL_SAYS(group, words) nccl_world_says(group, words, __FILE__, __LINE__)

#endif
