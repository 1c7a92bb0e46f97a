/* SPDX-License-Identifier: Apache-2.0 */
/* One address and port where a store may be: connecting there, and hearing its hello. Nothing here waits. */
#ifndef DIST_RENDEZVOUS_STORE_ENDPOINT_H
#define DIST_RENDEZVOUS_STORE_ENDPOINT_H

#include "dist/rendezvous/store_greeting.h"

#include <poll.h>
#include <sys/socket.h>

struct mr_store_endpoint {
    int fd; /* -1 while there is no try */
    bool connected;
    uint64_t since_ns; /* of the try */
    struct sockaddr_storage address;
    struct mr_store_bytes in; /* the hello */
};

/* Begin a try: 0, or an errno with none begun. */
int mr_store_endpoint_open(struct mr_store_endpoint *endpoint);
void mr_store_endpoint_close(struct mr_store_endpoint *endpoint);
/* For what its descriptor is to be polled. */
short mr_store_endpoint_events(const struct mr_store_endpoint *endpoint);
/* Once it is ready: 0 with the whole hello, EAGAIN when bytes are missing, or why there is no store: an errno. */
int mr_store_endpoint_hear(struct mr_store_endpoint *endpoint, struct mr_store_greeting *hello_out);
/* poll() for that long. Without memory for it, a short sleep; a signal may end it early. */
void mr_store_endpoint_poll(struct pollfd *fds, uint32_t n, uint64_t until_ns);
/* Milliseconds until then, rounded up, for poll(). */
int mr_store_endpoint_ms_until(uint64_t then_ns);

#endif
