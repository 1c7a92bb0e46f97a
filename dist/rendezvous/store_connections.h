/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the store's server: its state, and how its connections send, receive and end.
 * store_server.c runs the thread.
 */
#ifndef DIST_RENDEZVOUS_STORE_CONNECTIONS_H
#define DIST_RENDEZVOUS_STORE_CONNECTIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include "dist/rendezvous/store_address.h"
#include "dist/rendezvous/store_greeting.h"
#include "dist/rendezvous/store_table.h"

enum mr_store_rank_state { MR_STORE_ABSENT = 0, MR_STORE_HERE, MR_STORE_LEFT, MR_STORE_BROKE };

struct mr_store {
    int epoll_fd;
    int wake_fd;
    int listen_fd;
    uint16_t port;
    struct mr_store_identity identity; /* its token is NULL; the token is next */
    uint8_t token[MR_STORE_TOKEN];
    pthread_t thread;
    _Atomic bool stopping;
    pthread_mutex_t lock; /* protects the next three, which other threads read */
    uint8_t *present;
    uint32_t n_present;
    mr_error refusal;
    _Atomic uint32_t n_here; /* other threads read it too */
    /* Only the server's thread uses the rest. */
    uint8_t *ranks; /* enum mr_store_rank_state */
    uint8_t *how;   /* enum mr_store_code, of broken ranks */
    uint32_t n_broken;
    uint32_t n_strangers;
    uint32_t n_logged;
    bool again; /* frames were queued that have not been sent yet */
    bool deaf;  /* out of descriptors: listens again at the next sweep */
    struct mr_store_peer *first;
    struct mr_store_peer *last;
    struct mr_store_table table;
};

/* Ownership: takes fd, also on failure. */
void mr_store_connections_add(struct mr_store *store, int fd, uint64_t now);
void mr_store_connections_read(struct mr_store *store, struct mr_store_peer *peer, uint64_t now);
/* Continue to send: the socket takes bytes again. */
void mr_store_connections_write(struct mr_store *store, struct mr_store_peer *peer, uint64_t now);
/* Send queued bytes. True if nothing is left. */
bool mr_store_connections_flush(struct mr_store *store, uint64_t now);
/* A rank is lost: report it to all other ranks. */
void mr_store_connections_break(struct mr_store *store, uint32_t rank, uint8_t how);
/* Remove the doomed peers. */
void mr_store_connections_bury(struct mr_store *store);
/* Drop the stranger that has been connected longest, to make room. */
void mr_store_connections_evict(struct mr_store *store);

#endif
