/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which address of this machine to bind. Easy to get wrong: a host's own name often stands for 127.0.1.1 on itself and
 * for another address elsewhere, so of several addresses one that others can reach comes first.
 */
#include "comm/local_address.h"

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
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 || strncmp(address, "::ffff:127.", 11) == 0;
}

static bool spell(const struct sockaddr *address, socklen_t len, char *text_out)
{
    return getnameinfo(address, len, text_out, MR_LOCAL_ADDRESS, NULL, 0, NI_NUMERICHOST) == 0;
}

/* The kernel knows best: only an address of this machine can be bound. 0.0.0.0 and :: are no address of any. */
static bool can_bind(const struct addrinfo *a)
{
    if (a->ai_family == AF_INET &&
        ((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr.s_addr == INADDR_ANY)
        return false;
    if (a->ai_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr))
        return false;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool can = bind(fd, a->ai_addr, a->ai_addrlen) == 0;
    close(fd);
    return can;
}

/* The best of the addresses that can be bound; tried_out is the first there was, for the message. */
static bool choose(const struct addrinfo *all, char *address_out, char *tried_out)
{
    bool found = false;
    tried_out[0] = '\0';
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        char text[MR_LOCAL_ADDRESS];
        if (!spell(a->ai_addr, a->ai_addrlen, text))
            continue;
        if (!tried_out[0])
            memcpy(tried_out, text, sizeof text);
        if ((found && mr_local_address_is_loopback(text)) || !can_bind(a))
            continue;
        memcpy(address_out, text, sizeof text);
        found = true;
        if (!mr_local_address_is_loopback(text))
            break;
    }
    return found;
}

mr_status mr_local_address_of_host(const char *host, char address_out[MR_LOCAL_ADDRESS], mr_error *error)
{
    struct addrinfo *all = NULL;
    char tried[MR_LOCAL_ADDRESS];
    int rc = getaddrinfo(host, NULL, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, &all);
    if (rc != 0)
        return mr_error_set(error, MR_ERR_INVALID, "rank 0's host \"%s\" has no address: %s", host, gai_strerror(rc));
    bool found = choose(all, address_out, tried);
    freeaddrinfo(all);
    if (found)
        return MR_OK;
    if (strcmp(tried, host) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "rank 0 is here, and %s is no address of this machine", host);
    return mr_error_set(error, MR_ERR_INVALID, "rank 0 is here, and \"%s\" (%s) is no address of this machine", host,
                        tried);
}

static socklen_t size_of(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool find_interface(const struct ifaddrs *all, const char *name, int family, char *address_out)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == family && strcmp(i->ifa_name, name) == 0)
            return spell(i->ifa_addr, size_of(family), address_out);
    return false;
}

mr_status mr_local_address_of_interface(const char *name, char address_out[MR_LOCAL_ADDRESS], mr_error *error)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return mr_error_set(error, MR_ERR_IO, "cannot list the network interfaces");
    bool found = find_interface(all, name, AF_INET, address_out) || find_interface(all, name, AF_INET6, address_out);
    freeifaddrs(all);
    if (!found)
        return mr_error_set(error, MR_ERR_INVALID, "there is no interface \"%s\" with an address", name);
    return MR_OK;
}

/* Connecting a datagram socket only asks for the route. 192.0.2.0/24 is documentation's, and nobody's neighbour. */
bool mr_local_address_of_route(char address_out[MR_LOCAL_ADDRESS])
{
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xc0000201)};
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t len = sizeof own;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool found = connect(fd, (const struct sockaddr *)&far, sizeof far) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
                 spell((const struct sockaddr *)&own, sizeof own, address_out);
    close(fd);
    return found && !mr_local_address_is_loopback(address_out);
}
