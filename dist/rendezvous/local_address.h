/* SPDX-License-Identifier: Apache-2.0 */
/* Which address of this machine to bind. */
#ifndef DIST_RENDEZVOUS_LOCAL_ADDRESS_H
#define DIST_RENDEZVOUS_LOCAL_ADDRESS_H

#include "base/error.h"
#include "dist/rendezvous/store_address.h"

#define MR_LOCAL_ADDRESS                                                                           \
    72 /* bytes of a numeric address with its zero, and of an interface's name behind a '%' */

/*
 * The first address of a host name, or a numeric address, that is one of this machine's.
 * MR_ERR_INVALID when it has no address, or none here; MR_ERR_TIMEOUT. Blocks while the name is
 * looked up. resolver: NULL for getaddrinfo().
 */
mr_status mr_local_address_of_host(const char *host, mr_store_resolver *resolver,
                                   uint64_t deadline_ns, char address_out[MR_LOCAL_ADDRESS],
                                   mr_error *error);

/*
 * The address of an interface: IPv4 before IPv6, and link-local last. MR_ERR_INVALID when there is
 * no such interface or it has none.
 */
mr_status mr_local_address_of_interface(const char *name, char address_out[MR_LOCAL_ADDRESS],
                                        mr_error *error);

/*
 * The one that the kernel sends from to hosts far away, by the default route; sends nothing. False
 * without such a route.
 */
bool mr_local_address_of_route(char address_out[MR_LOCAL_ADDRESS]);

/* 127.x and ::1, which no other machine can reach. */
bool mr_local_address_is_loopback(const char *address);

#endif
