/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that a test gives the double of a device engine, and the calls that it has counted.
 * One per process, for all its groups.
 */
#ifndef TESTS_DIST_GROUP_DEVICE_ENGINE_DOUBLE_H
#define TESTS_DIST_GROUP_DEVICE_ENGINE_DOUBLE_H

#include <stdatomic.h>
#include <stdint.h>

enum { DEVICE_DOUBLE_RANKS = 8 };

/* For one rank of a group. Collectives are numbered from 1; 0 is none. Status 0 is none. */
struct device_double_rank {
    atomic_bool is_held;      /* its tickets do not end */
    atomic_ullong held_above; /* with is_held: only those above this number */
    atomic_ullong fails_at;   /* the collective whose issue returns issue_status, once */
    atomic_int issue_status;
    atomic_ullong breaks_at; /* the collective whose tests all return test_status */
    atomic_int test_status;
    atomic_int health_status;
    atomic_bool is_connecting; /* issue waits until it is false, the deadline, or stop */
    atomic_bool ignores_stop;  /* issue ignores deadline and stop, but not abort */
    atomic_uint abort_ms;      /* duration of abort */
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
    atomic_bool
        is_apart; /* ranks are processes and exchange nothing, so no collective of two ranks ends */
    atomic_bool shows_one; /* "cuda:local" is cuda:0 on each rank */
    /* after a rank has disconnected, tests of collectives that have not ended fail */
    atomic_bool is_strict;
    atomic_uint n_misuses; /* calls that the table forbids; each is printed */
};

/* The module's symbol that returns it. */
#define DEVICE_DOUBLE_SYMBOL "device_double_get"

#endif
