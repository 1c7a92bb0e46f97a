/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a store, and of which run? Asked before mr_store_connect(), which ranks leave only by breaking off. */
#ifndef DIST_RENDEZVOUS_STORE_PROBE_H
#define DIST_RENDEZVOUS_STORE_PROBE_H

#include "dist/rendezvous/store_greeting.h"

struct mr_store_probe {
    uint64_t run;
    uint32_t restart;
    uint32_t world_size;
    uint32_t process; /* id of rank 0's, on its machine */
};

/*
 * Hear a store's hello and leave without a greeting, so that it counts no rank as broken. host is numeric.
 *
 * Returns MR_OK; MR_PENDING when nobody listens there, or what listens does not say in time that it is a store: error
 * says which.
 */
mr_status mr_store_probe_hello(const char *host, uint16_t port, uint64_t deadline_ns, struct mr_store_probe *probe_out,
                               mr_error *error);

#endif
