/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the store's server and greets it. */
#ifndef DIST_RENDEZVOUS_STORE_SEARCH_H
#define DIST_RENDEZVOUS_STORE_SEARCH_H

#include "dist/rendezvous/store_address.h"
#include "dist/rendezvous/store_greeting.h"

/* Which store a client looks for, and as which rank. */
struct mr_store_connect {
    const char *host;
    uint16_t port;
    uint16_t n_ports; /* further ports to try above it: torchrun's agent may own the first */
    uint32_t rank;
    struct mr_store_identity identity;
    uint32_t once_ms;     /* nonzero: one try of this length; MR_PENDING if no hello of ours came */
    uint64_t patience_ns; /* refusals are final after this: a store that is ending refuses too */
    uint64_t deadline_ns; /* by base/clock.h */
    mr_store_resolver *resolver; /* NULL: getaddrinfo */
};

/*
 * Ownership: on MR_OK the connection is the caller's, and in_out holds the bytes after the verdict.
 * error must not be NULL.
 */
mr_status mr_store_search_run(const struct mr_store_connect *connect, int *fd_out,
                              struct mr_store_bytes *in_out, mr_error *error);

/*
 * Read the hello of the store at a numeric address. The store does not count the disconnect as a
 * lost rank. False if there is no store.
 */
bool mr_store_search_hello(const char *host, uint16_t port, uint64_t deadline_ns,
                           struct mr_store_greeting *hello_out);

#endif
