/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test tells the double of a device's engine, and what it has seen. One of the process, for
 * all its groups.
 */
#ifndef TESTS_DIST_GROUP_DEVICE_ENGINE_DOUBLE_H
#define TESTS_DIST_GROUP_DEVICE_ENGINE_DOUBLE_H

#include <stdatomic.h>
#include <stdint.h>

enum { DEVICE_DOUBLE_RANKS = 8 };

/* Of a rank of a group. Numbers of collectives count from 1; 0 is none. Statuses: 0 is none. */
struct device_double_rank {
    atomic_bool is_held;      /* its tickets do not end */
    atomic_ullong held_above; /* with is_held: those above this number */
    atomic_ullong fails_at;   /* this collective's issue answers... */
    atomic_int issue_status;  /* ...once */
    atomic_ullong breaks_at;  /* this collective's test answers... */
    atomic_int test_status;   /* ...always */
    atomic_int health_status;
    atomic_bool is_connecting; /* issue waits until it is not, or for its deadline or stop */
    atomic_bool ignores_stop;  /* it does not look at those two, but at abort */
    atomic_uint abort_ms;      /* how long abort takes */
    atomic_uint n_issues;
    atomic_uint n_on_host; /* of these */
    atomic_uint n_waits;
    void *_Atomic stream; /* of the last wait */
    atomic_uint n_aborts;
    atomic_int n_tickets;       /* issued and not dropped */
    atomic_int n_sums;          /* created and not destroyed */
    atomic_uint n_healthy_ends; /* destroy with healthy, and without */
    atomic_uint n_other_ends;
};

struct device_double {
    struct device_double_rank ranks[DEVICE_DOUBLE_RANKS];
    atomic_bool is_apart;  /* ranks are processes: nothing passes between them, and no collective
                              of two ends */
    atomic_bool shows_one; /* "cuda:local" is cuda:0 on each rank */
    atomic_bool is_strict; /* what a rank has not seen the end of fails when another one breaks
                              off */
    atomic_uint n_misuses; /* calls that the table forbids; each is printed */
};

/* The symbol of the module that gives it. */
#define DEVICE_DOUBLE_SYMBOL "device_double_get"

#endif
