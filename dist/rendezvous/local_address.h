/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the address of this machine that rank 0 binds. */
#ifndef DIST_RENDEZVOUS_LOCAL_ADDRESS_H
#define DIST_RENDEZVOUS_LOCAL_ADDRESS_H

#include "base/error.h"
#include "dist/rendezvous/store_address.h"

#define MR_LOCAL_ADDRESS 72 /* bytes of a numeric address with "%INTERFACE", including the zero */

/*
 * The first address of host (a name or a numeric address) that belongs to this machine. Addresses
 * other than loopback come first. MR_ERR_INVALID if host has no address, or none of this machine;
 * MR_ERR_TIMEOUT. Blocks while the name is looked up. resolver: NULL for getaddrinfo().
 */
mr_status mr_local_address_of_host(const char *host, mr_store_resolver *resolver,
                                   uint64_t deadline_ns, char address_out[MR_LOCAL_ADDRESS],
                                   mr_error *error);

/*
 * The address of an interface: IPv4 before IPv6, link-local last. MR_ERR_INVALID if there is no
 * interface of this name, or it has no address.
 */
mr_status mr_local_address_of_interface(const char *name, char address_out[MR_LOCAL_ADDRESS],
                                        mr_error *error);

/*
 * The source address that the kernel uses for distant hosts, by the default route. Sends nothing.
 * False if there is no route.
 */
bool mr_local_address_of_route(char address_out[MR_LOCAL_ADDRESS]);

/* 127.x and ::1, which other machines cannot reach. */
bool mr_local_address_is_loopback(const char *address);

#endif
