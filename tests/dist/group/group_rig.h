/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over the double of an engine, with the real rendezvous and the real store. Ranks are
 * threads or children of the test. Checks are counted and printed, because cmocka's assertions work
 * only in the main thread.
 */
#ifndef TESTS_DIST_GROUP_GROUP_RIG_H
#define TESTS_DIST_GROUP_GROUP_RIG_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <millrace/group.h>

enum { RIG_RANKS = 8 };

typedef void (*rig_main)(mr_group *group, void *arg);

/* Call in main(): sets where the double is found. */
void rig_init(void);
/* Set the orders for the double; NULL: none. Before the ranks begin. */
void rig_tell(const char *order);

/*
 * Use another backend than gloo, with the double as its module, and a device or NULL. Before the
 * ranks begin.
 */
void rig_use(const char *backend, const char *device);
/* Set the nccl_comm that all ranks adopt, or NULL. Before the ranks begin. */
void rig_adopt(void *nccl_comm);
/*
 * Use the double of a device engine as nccl. Returns its settings and counters, now all zero. Sets
 * MR_MODULE_PATH.
 */
struct device_double *rig_use_device(void);

/*
 * Run f as each rank, in threads; timeout_ms is that of its collectives. Fails the test unless
 * every group was created and every check passed.
 */
void rig_run(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg);
/*
 * The same, but creation has that timeout too, and may fail: results_out gets each rank's status,
 * and f is run if it did not fail.
 */
void rig_create(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg,
                mr_error results_out[RIG_RANKS]);

/*
 * Run f as each rank, in children of a program without threads. Their results: 0; 1 if a check
 * failed; 2 if the group could not be created; 128 and the signal. Ends the test after half a
 * minute.
 */
void rig_fork(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg,
              int results_out[RIG_RANKS]);

uint64_t rig_now_ms(void);

void rig_check(bool holds, const mr_group *group, const char *file, int line, const char *text);
#define RIG_CHECK(group, condition) rig_check(condition, group, __FILE__, __LINE__, #condition)
/* Check that the group's last error contains `words`. */
void rig_says(const mr_group *group, const char *words, const char *file, int line);
#define RIG_SAYS(group, words) rig_says(group, words, __FILE__, __LINE__)

#endif
