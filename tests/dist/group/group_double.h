/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of the process group for what is built on it: the ranks are threads of one process, and
 * a collective is a table under a lock. It stands in for group.c and work.c in programs that link
 * it before the library. What ranks check with RANK_CHECK is counted, because cmocka's own
 * assertions belong to the main thread.
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

/* What the collectives of a run were, as rank 0 saw them. */
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
    uint32_t n_nodes;    /* 0 means 1; ranks are dealt out in blocks */
    uint32_t fails_at;   /* this collective, counted from 1, fails with MR_ERR_PEER; 0: none */
    bool has_device;     /* the group is one of a device's engine, for metrics */
    bool differs_by_op;  /* set when ranks called different collectives */
    uint32_t n_failures; /* RANK_CHECKs that did not hold, works and device sums that nobody
                            freed */
    struct group_double_log log;
};

/* Run f as each rank, in threads; returns when all have ended. arg is the same for all. */
void group_double_run(struct group_double_run *run, void (*f)(mr_group *group, void *arg),
                      void *arg);
/* The same, and fail the test unless all checks held and all ranks called the same. */
void group_double_run_well(uint32_t n_ranks, void (*f)(mr_group *group, void *arg), void *arg);

/* While held, collectives of this rank do not begin. */
void group_double_hold(mr_group *group, bool held);
/* Collectives of this rank so far. */
struct group_double_log group_double_log_of(mr_group *group);

void group_double_check(mr_group *group, bool holds, const char *file, int line, const char *text);
#define RANK_CHECK(group, condition)                                                               \
    group_double_check(group, condition, __FILE__, __LINE__, #condition)

#endif
