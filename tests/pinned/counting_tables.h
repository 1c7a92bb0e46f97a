/* SPDX-License-Identifier: Apache-2.0 */
/* Device tables of a program whose CUDA can only count devices, and counts what the test says. */
#ifndef TESTS_PINNED_COUNTING_TABLES_H
#define TESTS_PINNED_COUNTING_TABLES_H

#include "pinned/device.h"

struct counting {
    /* what is called; NULL: n, or "no driver" when it is 0 */
    mr_status (*count)(uint32_t *n_out, mr_error *error);
    uint32_t n;
    uint32_t n_calls; /* in this process */
};

/* The one of this process; a child begins with a copy. */
struct counting *counting_state(void);

#endif
