/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves host names to addresses, and opens listening sockets. */
#ifndef DIST_RENDEZVOUS_STORE_ADDRESS_H
#define DIST_RENDEZVOUS_STORE_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

#define MR_STORE_ADDRESSES 8

struct mr_store_addresses {
    uint32_t n;
    struct sockaddr_storage at[MR_STORE_ADDRESSES];
};

/*
 * getaddrinfo() for streams of any family, or a test's function. The list is freed by
 * freeaddrinfo().
 */
typedef int mr_store_resolver(const char *host, struct addrinfo **list_out);

/*
 * The addresses of a host. A separate thread looks a name up. If the resolver takes longer than the
 * deadline, that thread continues alone. MR_ERR_TIMEOUT; MR_ERR_IO: no such host (a later lookup
 * may find it); MR_ERR_INVALID: not a name. resolver: NULL for getaddrinfo().
 */
mr_status mr_store_address_resolve(const char *host, mr_store_resolver *resolver,
                                   uint64_t deadline_ns, struct mr_store_addresses *addresses_out,
                                   mr_error *error);
/*
 * Listen on a numeric address. *port 0 takes any free port and is set to it. MR_ERR_IO names both.
 */
mr_status mr_store_address_listen(const char *address, uint16_t *port, int *fd_out,
                                  mr_error *error);
void mr_store_address_set_port(struct sockaddr_storage *address, uint16_t port);
uint16_t mr_store_address_port(const struct sockaddr_storage *address);
/* Numeric, without the port; an IPv4 address mapped into IPv6 is written as IPv4. */
void mr_store_address_name(const struct sockaddr_storage *address, char *text_out, size_t size);

#endif
