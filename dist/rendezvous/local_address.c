/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the address of this machine to bind. A host's own name often resolves to 127.0.1.1 on
 * that host and to another address elsewhere, so an address that other machines can reach is
 * preferred.
 */
#include "dist/rendezvous/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool mr_local_address_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "::ffff:127.", 11) == 0;
}

static socklen_t get_sockaddr_size(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool spell_address(const struct sockaddr *address, char *text_out)
{
    return getnameinfo(address, get_sockaddr_size(address->sa_family), text_out, MR_LOCAL_ADDRESS,
                       NULL, 0, NI_NUMERICHOST) == 0;
}

/*
 * Asks the kernel: only an address of this machine can be bound. 0.0.0.0 and :: can be bound too,
 * but name no address.
 */
static bool can_bind(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET &&
        ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == INADDR_ANY)
        return false;
    if (address->sa_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr))
        return false;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool can = bind(fd, address, get_sockaddr_size(address->sa_family)) == 0;
    close(fd);
    return can;
}

/* The best address that can be bound. tried_out is the first address, for the error message. */
static bool choose_address(const struct mr_store_addresses *all, char *address_out, char *tried_out)
{
    bool found = false;
    tried_out[0] = '\0';
    for (uint32_t i = 0; i < all->n; i++) {
        const struct sockaddr *address = (const struct sockaddr *)&all->at[i];
        char text[MR_LOCAL_ADDRESS];
        if (!spell_address(address, text))
            continue;
        if (!tried_out[0])
            memcpy(tried_out, text, sizeof text);
        if ((found && mr_local_address_is_loopback(text)) || !can_bind(address))
            continue;
        memcpy(address_out, text, sizeof text);
        found = true;
        if (!mr_local_address_is_loopback(text))
            break;
    }
    return found;
}

mr_status mr_local_address_of_host(const char *host, mr_store_resolver *resolver,
                                   uint64_t deadline_ns, char address_out[MR_LOCAL_ADDRESS],
                                   mr_error *error)
{
    struct mr_store_addresses all;
    char tried[MR_LOCAL_ADDRESS];
    mr_error why;
    mr_status status = mr_store_address_resolve(host, resolver, deadline_ns, &all, &why);
    if (status != MR_OK)
        return mr_error_set(error, status == MR_ERR_IO ? MR_ERR_INVALID : status, "rank 0's %s",
                            why.text);
    if (choose_address(&all, address_out, tried))
        return MR_OK;
    if (strcmp(tried, host) == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "this is rank 0, and %s is not an address of this machine", host);
    return mr_error_set(error, MR_ERR_INVALID,
                        "this is rank 0, and \"%s\" (%s) is not an address of this machine", host,
                        tried);
}

/*
 * Link-local addresses are valid on one network only, and a peer needs the name of its own
 * interface to use one.
 */
static bool is_link_local(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static bool find_interface(const struct ifaddrs *all, const char *name, int family, bool link_local,
                           char *address_out)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == family &&
            is_link_local(i->ifa_addr) == link_local && strcmp(i->ifa_name, name) == 0)
            return spell_address(i->ifa_addr, address_out);
    return false;
}

mr_status mr_local_address_of_interface(const char *name, char address_out[MR_LOCAL_ADDRESS],
                                        mr_error *error)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return mr_error_set(error, MR_ERR_IO, "cannot list the network interfaces");
    bool found = find_interface(all, name, AF_INET, false, address_out) ||
                 find_interface(all, name, AF_INET6, false, address_out) ||
                 find_interface(all, name, AF_INET6, true, address_out);
    freeifaddrs(all);
    if (!found)
        return mr_error_set(error, MR_ERR_INVALID, "no network interface \"%s\" with an address",
                            name);
    return MR_OK;
}

/*
 * Connecting a datagram socket only looks up the route. 192.0.2.0/24 is reserved for documentation,
 * so it is never a local network.
 */
bool mr_local_address_of_route(char address_out[MR_LOCAL_ADDRESS])
{
    struct sockaddr_in far = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xc0000201)};
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool found = connect(fd, (const struct sockaddr *)&far, sizeof far) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
                 spell_address((const struct sockaddr *)&own, address_out);
    close(fd);
    return found && !mr_local_address_is_loopback(address_out);
}
