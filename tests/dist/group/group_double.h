/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of the process group, for the code that uses it. Ranks are threads of one process, and a
 * collective is a table under a lock. It replaces group.c and work.c in programs that link it
 * before the library. Checks by RANK_CHECK are counted, because cmocka's assertions work only in
 * the main thread.
 */
#ifndef TESTS_DIST_GROUP_GROUP_DOUBLE_H
#define TESTS_DIST_GROUP_GROUP_DOUBLE_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <millrace/group.h>

enum { GROUP_DOUBLE_RANKS = 8 };

/* The collectives of a run, as rank 0 saw them. */
struct group_double_log {
    uint32_t n_barriers;
    uint32_t n_all_reduces;
    uint32_t n_others;
    uint64_t count; /* elements, dtype and operation of the last all_reduce */
    mr_dtype dtype;
    mr_reduction op;
};

struct group_double_run {
    uint32_t n_ranks;
    uint32_t n_nodes;    /* 0 means 1; each node has a block of adjacent ranks */
    uint32_t fails_at;   /* this collective, counted from 1, fails with MR_ERR_PEER; 0: none */
    bool has_device;     /* the group is one of a device's engine, for metrics */
    bool differs_by_op;  /* set when ranks called different collectives */
    uint32_t n_failures; /* failed RANK_CHECKs, and works and device sums that were not freed */
    struct group_double_log log;
};

/* Run f as each rank, in threads; returns when all have ended. arg is the same for all. */
void group_double_run(struct group_double_run *run, void (*f)(mr_group *group, void *arg),
                      void *arg);
/* The same. Fails the test unless all checks passed and all ranks called the same collectives. */
void group_double_run_well(uint32_t n_ranks, void (*f)(mr_group *group, void *arg), void *arg);

/* While held, collectives of this rank do not begin. */
void group_double_hold(mr_group *group, bool held);
/* The collectives of this rank so far. */
struct group_double_log group_double_log_of(mr_group *group);

void group_double_check(mr_group *group, bool holds, const char *file, int line, const char *text);
#define RANK_CHECK(group, condition)                                                               \
    group_double_check(group, condition, __FILE__, __LINE__, #condition)

#endif
