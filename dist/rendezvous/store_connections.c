/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the store's server: which rank is at the other end, bytes in and out, and how
 * they end.
 *
 * Invariant: nothing is freed where it fails. A peer that must go is only marked as doomed.
 * mr_store_connections_bury() removes it when no loop walks over peers or events, because removing
 * a peer queues frames for other peers, which may then be doomed too.
 */
#include "dist/rendezvous/store_connections.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "dist/rendezvous/rank_list.h"

#define READ_BYTES (16u << 10)
#define N_LOGGED 16u

/* Greetings. */

static void put_broken(const struct mr_store *store, struct mr_store_peer *peer, uint32_t rank)
{
    uint8_t bytes[4];
    mr_store_wire_put_u32(bytes, rank);
    mr_store_peer_put(peer, &(struct mr_store_frame){.kind = MR_STORE_BROKEN,
                                                     .code = store->how[rank],
                                                     .value = bytes,
                                                     .value_len = sizeof bytes});
}

static void note_refusal(struct mr_store *store, const struct mr_store_greeting *theirs,
                         uint8_t code)
{
    mr_error error;
    mr_store_greeting_refuse(theirs, &store->identity, code, &error);
    pthread_mutex_lock(&store->lock);
    store->refusal = error;
    pthread_mutex_unlock(&store->lock);
    if (store->n_logged++ < N_LOGGED)
        mr_log_line(MR_LOG_WARNING, "store on port %u: %s", store->port, error.text);
}

static uint8_t judge_greeting(const struct mr_store *store, const struct mr_store_greeting *theirs,
                              const uint8_t *token)
{
    const struct mr_store_identity *ours = &store->identity;
    if (theirs->run != ours->run)
        return MR_STORE_OTHER_RUN;
    if (theirs->restart != ours->restart)
        return MR_STORE_OTHER_RESTART;
    if (!mr_store_greeting_same(token, store->token))
        return MR_STORE_OTHER_TOKEN;
    if (theirs->world_size != ours->world_size)
        return MR_STORE_OTHER_WORLD;
    if (theirs->rank >= ours->world_size)
        return MR_STORE_NO_SUCH_RANK;
    switch (store->ranks[theirs->rank]) {
    case MR_STORE_HERE: return MR_STORE_RANK_TAKEN;
    case MR_STORE_BROKE: return MR_STORE_RANK_BROKE;
    /* it comes for the next group, which will have another store */
    case MR_STORE_LEFT: return MR_STORE_RANK_LEFT;
    default: return MR_STORE_FINE;
    }
}

static void welcome_rank(struct mr_store *store, struct mr_store_peer *peer, uint32_t rank)
{
    peer->rank = rank;
    store->ranks[rank] = MR_STORE_HERE;
    store->n_strangers--;
    store->n_here++;
    pthread_mutex_lock(&store->lock);
    store->n_present++;
    mr_rank_list_add(store->present, rank);
    pthread_mutex_unlock(&store->lock);
    for (uint32_t r = 0; store->n_broken > 0 && r < store->identity.world_size; r++)
        if (store->ranks[r] == MR_STORE_BROKE)
            put_broken(store, peer, r);
}

/*
 * False while bytes are missing, or if the peer must go. Another version's greeting may be longer
 * or shorter.
 */
static bool read_greeting(struct mr_store *store, struct mr_store_peer *peer)
{
    struct mr_store_greeting theirs = {0};
    const uint8_t *bytes = peer->in.at + peer->in.start;
    if (!mr_store_greeting_read(bytes, peer->in.len, &theirs)) {
        mr_store_peer_doom(peer, MR_STORE_NONSENSE);
        return false;
    }
    bool is_ours = theirs.version == MR_STORE_VERSION;
    if (peer->in.len < MR_STORE_HELLO || (is_ours && peer->in.len < MR_STORE_GREETING))
        return false;
    uint8_t code =
        is_ours ? judge_greeting(store, &theirs, bytes + MR_STORE_HELLO) : MR_STORE_OTHER_VERSION;
    mr_store_wire_consume(&peer->in, peer->in.len);
    mr_store_peer_put(peer, &(struct mr_store_frame){.kind = MR_STORE_VERDICT, .code = code});
    if (code == MR_STORE_FINE) {
        welcome_rank(store, peer, theirs.rank);
        return true;
    }
    peer->refused = true;
    note_refusal(store, &theirs, code);
    return false;
}

/* Bytes in and out. */

static void handle_frames(struct mr_store *store, struct mr_store_peer *peer)
{
    struct mr_store_frame frame;
    while (!peer->doomed && peer->out.len < MR_STORE_HIGH) {
        int rc = mr_store_wire_next(&peer->in, &frame);
        if (rc < 0)
            mr_store_peer_doom(peer, MR_STORE_NONSENSE);
        if (rc <= 0)
            return;
        mr_store_table_request(&store->table, peer, &frame);
        mr_store_wire_consume(&peer->in, mr_store_wire_size(&frame));
    }
}

void mr_store_connections_read(struct mr_store *store, struct mr_store_peer *peer, uint64_t now)
{
    bool is_stranger = peer->rank == MR_STORE_NO_RANK;
    size_t limit = is_stranger ? MR_STORE_GREETING - peer->in.len : READ_BYTES;
    if (peer->refused)
        return;
    long n = mr_store_wire_recv(peer->fd, &peer->in, limit);
    if (n == -EAGAIN || n == -EWOULDBLOCK)
        return;
    if (n <= 0) {
        mr_store_peer_doom(peer, MR_STORE_LOST);
        return;
    }
    peer->heard_ns = now;
    if (!is_stranger || read_greeting(store, peer))
        handle_frames(store, peer);
}

void mr_store_connections_write(struct mr_store *store, struct mr_store_peer *peer, uint64_t now)
{
    bool was_high = peer->out.len >= MR_STORE_HIGH;
    long n = mr_store_wire_send(peer->fd, &peer->out);
    if (n < 0) {
        mr_store_peer_doom(peer, MR_STORE_LOST);
        return;
    }
    if (n > 0 || peer->out.len == 0)
        peer->moved_ns = now;
    if (n > 0 && was_high)
        peer->heard_ns = now; /* its beats were not read meanwhile */
    if (peer->refused && peer->out.len == 0)
        mr_store_peer_doom(peer, MR_STORE_FINE);
    if (was_high && peer->out.len < MR_STORE_HIGH && peer->rank != MR_STORE_NO_RANK) {
        mr_store_table_serve(&store->table, peer);
        handle_frames(store, peer);
        store->again = true;
    }
}

static void set_events(struct mr_store *store, struct mr_store_peer *peer)
{
    uint32_t events = (peer->out.len < MR_STORE_HIGH && !peer->refused ? EPOLLIN : 0u) |
                      (peer->out.len > 0 ? EPOLLOUT : 0u);
    if (events == peer->events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = peer};
    if (epoll_ctl(store->epoll_fd, EPOLL_CTL_MOD, peer->fd, &event) != 0)
        mr_store_peer_doom(peer, MR_STORE_LOST);
    peer->events = events;
}

/* The end of peers. */

void mr_store_connections_break(struct mr_store *store, uint32_t rank, uint8_t how)
{
    if (store->ranks[rank] != MR_STORE_HERE)
        return;
    store->ranks[rank] = MR_STORE_BROKE;
    store->how[rank] = how;
    store->n_broken++;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next)
        if (peer->rank != MR_STORE_NO_RANK)
            put_broken(store, peer, rank);
    mr_store_table_break(&store->table);
}

static void free_peer(struct mr_store *store, struct mr_store_peer *peer)
{
    mr_store_table_forget(&store->table, peer);
    *(peer->previous ? &peer->previous->next : &store->first) = peer->next;
    *(peer->next ? &peer->next->previous : &store->last) = peer->previous;
    store->n_here -= peer->rank != MR_STORE_NO_RANK;
    store->n_strangers -= peer->rank == MR_STORE_NO_RANK;
    close(peer->fd);
    mr_store_wire_free(&peer->in);
    mr_store_wire_free(&peer->out);
    free(peer);
}

void mr_store_connections_bury(struct mr_store *store)
{
    for (struct mr_store_peer *peer = store->first, *next; peer; peer = next) {
        next = peer->next;
        if (!peer->doomed)
            continue;
        uint32_t rank = peer->rank;
        uint8_t how = peer->how;
        store->again = true;
        free_peer(store, peer);
        if (rank == MR_STORE_NO_RANK)
            continue;
        if (how == MR_STORE_FINE && store->ranks[rank] == MR_STORE_HERE)
            store->ranks[rank] = MR_STORE_LEFT;
        else if (!atomic_load(&store->stopping))
            mr_store_connections_break(store, rank, how);
        next = store->first; /* the reports may have doomed a peer before this one */
    }
}

void mr_store_connections_evict(struct mr_store *store)
{
    struct mr_store_peer *peer = store->first;
    while (peer && (peer->rank != MR_STORE_NO_RANK || peer->doomed))
        peer = peer->next;
    if (peer)
        mr_store_peer_doom(peer, MR_STORE_LOST);
    mr_store_connections_bury(store);
}

/* The beginning. */

void mr_store_connections_add(struct mr_store *store, int fd, uint64_t now)
{
    int one = 1;
    struct mr_store_peer *peer = calloc(1, sizeof *peer);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    const struct mr_store_greeting hello = {.version = MR_STORE_VERSION,
                                            .world_size = store->identity.world_size,
                                            .run = store->identity.run,
                                            .restart = store->identity.restart,
                                            .rank = (uint32_t)getpid()};
    uint8_t bytes[MR_STORE_HELLO];
    if (!peer || epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(peer);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *peer = (struct mr_store_peer){.previous = store->last,
                                   .fd = fd,
                                   .rank = MR_STORE_NO_RANK,
                                   .events = EPOLLIN,
                                   .since_ns = now,
                                   .heard_ns = now,
                                   .moved_ns = now};
    *(store->last ? &store->last->next : &store->first) = peer;
    store->last = peer;
    store->n_strangers++;
    mr_store_greeting_write(&hello, bytes);
    if (!mr_store_wire_append(&peer->out, bytes, sizeof bytes))
        mr_store_peer_doom(peer, MR_STORE_LOST);
}

bool mr_store_connections_flush(struct mr_store *store, uint64_t now)
{
    bool is_empty = true;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        if (!peer->doomed && peer->out.len > 0 && !(peer->events & EPOLLOUT))
            mr_store_connections_write(store, peer, now);
        if (!peer->doomed)
            set_events(store, peer);
        is_empty &= peer->doomed || peer->out.len == 0;
    }
    return is_empty;
}
