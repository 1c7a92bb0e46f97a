/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the store's server and greeting it. */
#ifndef DIST_RENDEZVOUS_STORE_SEARCH_H
#define DIST_RENDEZVOUS_STORE_SEARCH_H

#include "dist/rendezvous/store_address.h"
#include "dist/rendezvous/store_greeting.h"

/* Whom a client wants to reach, and as whom. */
struct mr_store_connect {
    const char *host;
    uint16_t port;
    uint16_t n_ports; /* further ports to try above it (torchrun's agent has the first); 0: only
                         that one */
    uint32_t rank;
    struct mr_store_identity identity;
    uint32_t once_ms;            /* 0, or: one try, of so long; MR_PENDING where ours did not say
                                    hello */
    uint64_t patience_ns;        /* refusals count once they have lasted so long: a store that is
                                    ending refuses, too */
    uint64_t deadline_ns;        /* by base/clock */
    mr_store_resolver *resolver; /* NULL: getaddrinfo */
};

/*
 * On MR_OK the connection is the caller's; in_out holds what came after the verdict. error is not
 * NULL.
 */
mr_status mr_store_search_run(const struct mr_store_connect *connect, int *fd_out,
                              struct mr_store_bytes *in_out, mr_error *error);

/*
 * What the store at a numeric address says of itself; it counts no rank as broken that leaves then.
 * False: nothing.
 */
bool mr_store_search_hello(const char *host, uint16_t port, uint64_t deadline_ns,
                           struct mr_store_greeting *hello_out);

#endif
