/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device tables of a program whose CUDA can only count devices, with the count that the test sets.
 */
#ifndef TESTS_PINNED_COUNTING_TABLES_H
#define TESTS_PINNED_COUNTING_TABLES_H

#include "pinned/device.h"

struct counting {
    /* the function to call; NULL: returns n, or "no driver" if n is 0 */
    mr_status (*count)(uint32_t *n_out, mr_error *error);
    uint32_t n;
    uint32_t n_calls; /* in this process */
};

/* The state of this process; a child begins with a copy. */
struct counting *counting_state(void);

#endif
