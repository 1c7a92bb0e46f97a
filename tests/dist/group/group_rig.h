/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over the double of an engine, with the real rendezvous and the real store: ranks as
 * threads of the test, or as children of it. What ranks check is counted and printed, because
 * cmocka's assertions belong to the main thread.
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

/* For main(): where the double is found. */
void rig_init(void);
/* The orders for the double; NULL: none. Before the ranks begin. */
void rig_tell(const char *order);

/*
 * Another backend than gloo, whose place the double takes, and a device or NULL. Before the ranks
 * begin.
 */
void rig_use(const char *backend, const char *device);
/* What all adopt as nccl_comm, or NULL. Before the ranks begin. */
void rig_adopt(void *nccl_comm);
/*
 * The double of a device's engine takes nccl's place: its orders and records, which are empty from
 * now on. MR_MODULE_PATH leads to it from here.
 */
struct device_double *rig_use_device(void);

/*
 * Run f as each rank, in threads; fails the test unless every group was created and every check
 * held.
 */
void rig_run(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg);
/* The same, but creation may fail; results_out gets each rank's. f is run where it did not. */
void rig_create(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg,
                mr_error results_out[RIG_RANKS]);

/*
 * Run f as each rank, in children of a program that has no threads. Their results: 0, 1 where a
 * check failed, 2 where the group could not be created, 128 and the signal. The test is ended when
 * it takes half a minute.
 */
void rig_fork(uint32_t n_ranks, uint32_t timeout_ms, rig_main f, void *arg,
              int results_out[RIG_RANKS]);

uint64_t rig_now_ms(void);

void rig_check(bool holds, const mr_group *group, const char *file, int line, const char *text);
#define RIG_CHECK(group, condition) rig_check(condition, group, __FILE__, __LINE__, #condition)
/* The group's last error says `words`. */
void rig_says(const mr_group *group, const char *words, const char *file, int line);
#define RIG_SAYS(group, words) rig_says(group, words, __FILE__, __LINE__)

#endif
