/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's server from inside: what it knows, and what each of its connections says and how it
 * ends. store_server.c has the thread.
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
    struct mr_store_identity identity; /* without its token: */
    uint8_t token[MR_STORE_TOKEN];
    pthread_t thread;
    _Atomic bool stopping;
    pthread_mutex_t lock; /* of the next three, which other threads read */
    uint8_t *present;
    uint32_t n_present;
    mr_error refusal;
    _Atomic uint32_t n_here; /* which other threads read too */
    /* The rest is the thread's own. */
    uint8_t *ranks; /* enum mr_store_rank_state */
    uint8_t *how;   /* of broken ranks */
    uint32_t n_broken;
    uint32_t n_strangers;
    uint32_t n_logged;
    bool again; /* frames were queued for which no send was tried yet */
    bool deaf;  /* without descriptors: listens again at the next sweep */
    struct mr_store_peer *first;
    struct mr_store_peer *last;
    struct mr_store_table table;
};

/* fd is taken, also on failure. */
void mr_store_connections_add(struct mr_store *store, int fd, uint64_t now);
void mr_store_connections_read(struct mr_store *store, struct mr_store_peer *peer, uint64_t now);
/* The socket takes bytes again. */
void mr_store_connections_write(struct mr_store *store, struct mr_store_peer *peer, uint64_t now);
/* Send what waits. True when nothing is left. */
bool mr_store_connections_flush(struct mr_store *store, uint64_t now);
/* A rank is lost: report it to all others. */
void mr_store_connections_break(struct mr_store *store, uint32_t rank, uint8_t how);
/* Remove the doomed peers. */
void mr_store_connections_bury(struct mr_store *store);
/* Drop the stranger that has been connected longest, to make room. */
void mr_store_connections_evict(struct mr_store *store);

#endif
