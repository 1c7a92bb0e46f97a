/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, addresses and the listening socket of the rendezvous store. getaddrinfo() has no deadline
 * and cannot be cancelled, so a separate thread calls it. The last user of the shared state frees
 * it.
 */
#include "dist/rendezvous/store_address.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"

/*
 * Shared by the caller and the thread that calls the resolver. The last one to release it frees it.
 */
struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t done_cond;
    bool done;
    int n_holders;
    int rc;
    struct addrinfo *list;
    mr_store_resolver *resolver;
    char host[256];
};

static int look_up(const char *host, int flags, struct addrinfo **list_out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    *list_out = NULL;
    return getaddrinfo(host, NULL, &hints, list_out);
}

static int look_up_name(const char *host, struct addrinfo **list_out)
{
    return look_up(host, 0, list_out);
}

static void release_lookup(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    bool last = --lookup->n_holders == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (!last)
        return;
    if (lookup->list)
        freeaddrinfo(lookup->list);
    pthread_cond_destroy(&lookup->done_cond);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void *run_lookup(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo *list = NULL;
    int rc = lookup->resolver(lookup->host, &list);
    pthread_mutex_lock(&lookup->lock);
    lookup->rc = rc;
    lookup->list = list;
    lookup->done = true;
    pthread_cond_signal(&lookup->done_cond);
    pthread_mutex_unlock(&lookup->lock);
    release_lookup(lookup);
    return NULL;
}

static struct lookup *begin_lookup(const char *host, mr_store_resolver *resolver)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    snprintf(lookup->host, sizeof lookup->host, "%s", host);
    lookup->resolver = resolver ? resolver : look_up_name;
    lookup->n_holders = 2;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&lookup->done_cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&lookup->lock, NULL);
    pthread_t thread;
    if (mr_thread_start(&thread, run_lookup, lookup) != 0) {
        lookup->n_holders = 1;
        release_lookup(lookup);
        return NULL;
    }
    pthread_detach(thread);
    return lookup;
}

static void copy_addresses(const struct addrinfo *list, struct mr_store_addresses *addresses_out)
{
    addresses_out->n = 0;
    for (; list && addresses_out->n < MR_STORE_ADDRESSES; list = list->ai_next) {
        if ((list->ai_family != AF_INET && list->ai_family != AF_INET6) ||
            list->ai_addrlen > sizeof addresses_out->at[0])
            continue;
        memcpy(&addresses_out->at[addresses_out->n++], list->ai_addr, list->ai_addrlen);
    }
}

static mr_status look_up_in_thread(const char *host, mr_store_resolver *resolver,
                                   uint64_t deadline_ns, struct mr_store_addresses *addresses_out,
                                   mr_error *error)
{
    struct lookup *lookup = begin_lookup(host, resolver);
    if (!lookup)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "cannot start a thread to look up '%s'", host);
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&lookup->lock);
    while (!lookup->done && rc == 0)
        rc = pthread_cond_timedwait(&lookup->done_cond, &lookup->lock, &until);
    bool done = lookup->done;
    int found = lookup->rc;
    if (done)
        copy_addresses(lookup->list, addresses_out);
    pthread_mutex_unlock(&lookup->lock);
    release_lookup(lookup);
    if (!done)
        return mr_error_set(error, MR_ERR_TIMEOUT, "host '%s' is still being looked up", host);
    if (found != 0)
        return mr_error_set(error, MR_ERR_IO, "host '%s': %s", host, gai_strerror(found));
    return MR_OK;
}

mr_status mr_store_address_resolve(const char *host, mr_store_resolver *resolver,
                                   uint64_t deadline_ns, struct mr_store_addresses *addresses_out,
                                   mr_error *error)
{
    addresses_out->n = 0;
    if (!host || host[0] == '\0' || strlen(host) > 255)
        return mr_error_set(error, MR_ERR_INVALID, "host '%.40s' is empty or longer than 255 bytes",
                            host ? host : "");
    struct addrinfo *list;
    mr_status status = MR_OK;
    if (look_up(host, AI_NUMERICHOST, &list) == 0) {
        copy_addresses(list, addresses_out);
        freeaddrinfo(list);
    } else {
        status = look_up_in_thread(host, resolver, deadline_ns, addresses_out, error);
    }
    if (status == MR_OK && addresses_out->n == 0)
        return mr_error_set(error, MR_ERR_IO, "host '%s' has no IPv4 or IPv6 address", host);
    return status;
}

void mr_store_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

uint16_t mr_store_address_port(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void mr_store_address_name(const struct sockaddr_storage *address, char *text_out, size_t size)
{
    struct sockaddr_in plain = {.sin_family = AF_INET};
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    const struct sockaddr *from = (const struct sockaddr *)address;
    socklen_t len = address->ss_family == AF_INET6 ? sizeof *six : sizeof plain;
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(&plain.sin_addr, six->sin6_addr.s6_addr + 12, 4);
        from = (const struct sockaddr *)&plain;
        len = sizeof plain;
    }
    if (getnameinfo(from, len, text_out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text_out, size, "?");
}

mr_status mr_store_address_listen(const char *address, uint16_t *port, int *fd_out, mr_error *error)
{
    struct addrinfo *list;
    int one = 1;
    *fd_out = -1;
    if (look_up(address, AI_NUMERICHOST, &list) != 0)
        return mr_error_set(error, MR_ERR_INVALID, "\"%.100s\" is not a numeric address", address);
    struct sockaddr_storage at = {0};
    socklen_t len = list->ai_addrlen;
    memcpy(&at, list->ai_addr, len);
    freeaddrinfo(list);
    mr_store_address_set_port(&at, *port);
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, len) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        int failed = errno;
        if (fd >= 0)
            close(fd);
        return mr_error_os(error, MR_ERR_IO, failed, "cannot listen on %s port %u", address, *port);
    }
    *port = mr_store_address_port(&at);
    *fd_out = fd;
    return MR_OK;
}
