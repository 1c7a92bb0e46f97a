/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the rendezvous store: one thread, one epoll, no call that blocks.
 *
 * Easy to get wrong: nothing is freed where it fails. A peer that must go is only marked as doomed, and bury() takes it
 * away when no loop walks over peers or events, since its end makes frames for others, who may then be doomed too.
 *
 * Memory has limits: MR_STORE_TOTAL for keys and values; for each peer one frame coming in and, since requests are not
 * taken while MR_STORE_HIGH wait to go out, one value more than that going out; who has not greeted has a greeting's
 * bytes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/store_table.h"

#define MAX_WORLD (1u << 16)
#define STRANGERS 32u /* who have not greeted, beyond the ranks that are still to come */
#define READ_BYTES (16u << 10)
#define N_EVENTS 64
#define N_LOGGED 16u
#define STOP_NS UINT64_C(1000000000)
#define MS UINT64_C(1000000)

enum rank_state { ABSENT = 0, HERE, LEFT, BROKEN };

struct mr_store {
    int epoll_fd;
    int wake_fd;
    uint32_t n_listen;
    int listen_fd[MR_STORE_ADDRESSES];
    uint16_t port;
    struct mr_store_identity identity; /* its token is a copy */
    char *token;
    pthread_t thread;
    _Atomic bool stopping;
    pthread_mutex_t lock; /* of the next three, which other threads read */
    uint8_t *present;
    uint32_t n_present;
    mr_error refusal;
    /* The rest is the thread's own. */
    uint8_t *ranks; /* enum rank_state */
    uint8_t *how;   /* of broken ranks */
    uint32_t n_broken;
    uint32_t n_here;
    uint32_t n_strangers;
    uint32_t n_logged;
    bool again; /* frames were made that nobody has tried to send */
    bool deaf;  /* without descriptors: listens again at the next sweep */
    struct mr_store_peer *first;
    struct mr_store_peer *last;
    struct mr_store_table table;
};

/* Greetings. */

static void tell_broken(const struct mr_store *store, struct mr_store_peer *peer, uint32_t rank)
{
    uint8_t bytes[4];
    mr_store_wire_put_u32(bytes, rank);
    mr_store_peer_put(
        peer, &(struct mr_store_frame){
                  .kind = MR_STORE_BROKEN, .code = store->how[rank], .value = bytes, .value_len = sizeof bytes});
}

static void note_refusal(struct mr_store *store, const struct mr_store_greeting *theirs, uint8_t code)
{
    mr_error error;
    mr_store_wire_refuse(theirs, &store->identity, code, &error);
    pthread_mutex_lock(&store->lock);
    store->refusal = error;
    pthread_mutex_unlock(&store->lock);
    if (store->n_logged++ < N_LOGGED)
        mr_log_line(MR_LOG_WARNING, "store on port %u: %s", store->port, error.text);
}

static uint8_t judge(const struct mr_store *store, const struct mr_store_peer *peer, const uint8_t *greeting,
                     const struct mr_store_greeting *theirs)
{
    const struct mr_store_identity *ours = &store->identity;
    uint8_t proof[MR_STORE_PROOF];
    if (theirs->version != MR_STORE_VERSION)
        return MR_STORE_OTHER_VERSION;
    if (theirs->run != ours->run)
        return MR_STORE_OTHER_RUN;
    if (theirs->restart != ours->restart)
        return MR_STORE_OTHER_RESTART;
    mr_store_wire_prove(ours->token, 'C', peer->hello, greeting, proof);
    if (!mr_store_wire_same(proof, greeting + MR_STORE_HELLO, MR_STORE_PROOF))
        return MR_STORE_OTHER_TOKEN;
    if (theirs->world_size != ours->world_size)
        return MR_STORE_OTHER_WORLD;
    if (theirs->rank >= ours->world_size)
        return MR_STORE_NO_SUCH_RANK;
    return store->ranks[theirs->rank] == ABSENT || store->ranks[theirs->rank] == LEFT ? MR_STORE_FINE
                                                                                      : MR_STORE_RANK_TAKEN;
}

static void welcome(struct mr_store *store, struct mr_store_peer *peer, uint32_t rank)
{
    peer->rank = rank;
    store->ranks[rank] = HERE;
    store->n_strangers--;
    store->n_here++;
    pthread_mutex_lock(&store->lock);
    uint8_t bit = (uint8_t)(1u << rank % 8);
    store->n_present += !(store->present[rank / 8] & bit);
    store->present[rank / 8] |= bit;
    pthread_mutex_unlock(&store->lock);
    for (uint32_t r = 0; store->n_broken > 0 && r < store->identity.world_size; r++)
        if (store->ranks[r] == BROKEN)
            tell_broken(store, peer, r);
}

/* False while bytes are missing, and when the peer must go. */
static bool greet(struct mr_store *store, struct mr_store_peer *peer)
{
    struct mr_store_greeting theirs;
    const uint8_t *bytes = peer->in.at + peer->in.start;
    if (!mr_store_wire_read_greeting(bytes, peer->in.len, &theirs)) {
        mr_store_peer_doom(peer, MR_STORE_NONSENSE);
        return false;
    }
    if (peer->in.len < MR_STORE_GREETING)
        return false;
    uint8_t proof[MR_STORE_PROOF] = {0}, code = judge(store, peer, bytes, &theirs);
    if (code == MR_STORE_FINE || code > MR_STORE_OTHER_TOKEN)
        mr_store_wire_prove(store->identity.token, 'S', peer->hello, bytes, proof);
    mr_store_wire_consume(&peer->in, MR_STORE_GREETING);
    mr_store_peer_put(peer, &(struct mr_store_frame){
                                .kind = MR_STORE_VERDICT, .code = code, .value = proof, .value_len = sizeof proof});
    if (code == MR_STORE_FINE) {
        welcome(store, peer, theirs.rank);
        return true;
    }
    peer->refused = true;
    note_refusal(store, &theirs, code);
    return false;
}

/* Bytes in and out. */

static void take_frames(struct mr_store *store, struct mr_store_peer *peer)
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

static void on_readable(struct mr_store *store, struct mr_store_peer *peer, uint64_t now)
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
    if (!is_stranger || greet(store, peer))
        take_frames(store, peer);
}

static void on_room(struct mr_store *store, struct mr_store_peer *peer, uint64_t now)
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
        peer->heard_ns = now; /* its beats are not read meanwhile */
    if (peer->refused && peer->out.len == 0)
        mr_store_peer_doom(peer, MR_STORE_FINE);
    if (was_high && peer->out.len < MR_STORE_HIGH && peer->rank != MR_STORE_NO_RANK) {
        mr_store_table_serve(&store->table, NULL, peer);
        take_frames(store, peer);
        store->again = true;
    }
}

static void set_events(struct mr_store *store, struct mr_store_peer *peer)
{
    uint32_t events =
        (peer->out.len < MR_STORE_HIGH && !peer->refused ? EPOLLIN : 0u) | (peer->out.len > 0 ? EPOLLOUT : 0u);
    if (events == peer->events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = peer};
    if (epoll_ctl(store->epoll_fd, EPOLL_CTL_MOD, peer->fd, &event) != 0)
        mr_store_peer_doom(peer, MR_STORE_LOST);
    peer->events = events;
}

/* The end of peers. */

static void break_rank(struct mr_store *store, uint32_t rank, uint8_t how)
{
    if (store->ranks[rank] != HERE)
        return;
    store->ranks[rank] = BROKEN;
    store->how[rank] = how;
    store->n_broken++;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next)
        if (peer->rank != MR_STORE_NO_RANK)
            tell_broken(store, peer, rank);
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

static void bury(struct mr_store *store)
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
        if (how == MR_STORE_FINE && store->ranks[rank] == HERE)
            store->ranks[rank] = LEFT;
        else if (!atomic_load(&store->stopping))
            break_rank(store, rank, how);
        next = store->first; /* telling it may have doomed one that was passed */
    }
}

static void evict_a_stranger(struct mr_store *store)
{
    struct mr_store_peer *peer = store->first;
    while (peer && (peer->rank != MR_STORE_NO_RANK || peer->doomed))
        peer = peer->next;
    if (peer)
        mr_store_peer_doom(peer, MR_STORE_LOST);
    bury(store);
}

/* Time. */

static void sweep(struct mr_store *store, uint64_t now)
{
    uint64_t silence_ns = store->identity.silence_ms * MS, greet_ns = store->identity.greet_ms * MS;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        if (peer->out.len > 0 && now - peer->moved_ns > silence_ns)
            mr_store_peer_doom(peer, MR_STORE_DEAF);
        if (peer->rank == MR_STORE_NO_RANK && now - peer->since_ns > greet_ns)
            mr_store_peer_doom(peer, MR_STORE_LOST);
    }
    /* A silent rank stays connected: should it wake up, it learns what became of it. */
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next)
        if (peer->rank != MR_STORE_NO_RANK && !peer->doomed && now - peer->heard_ns > silence_ns)
            break_rank(store, peer->rank, MR_STORE_SILENT);
}

/* This thread, or the whole machine, stood still: what others sent meanwhile has not been read yet. */
static void forgive(struct mr_store *store, uint64_t now)
{
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        peer->heard_ns = now;
        peer->moved_ns = now;
        peer->since_ns = now;
    }
}

/* Newcomers. */

static void add_peer(struct mr_store *store, int fd, uint64_t now)
{
    int one = 1;
    struct mr_store_peer *peer = calloc(1, sizeof *peer);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    struct mr_store_greeting hello = {.version = MR_STORE_VERSION,
                                      .world_size = store->identity.world_size,
                                      .run = store->identity.run,
                                      .restart = store->identity.restart};
    if (!peer || mr_store_wire_random(hello.nonce, sizeof hello.nonce) != 0 ||
        epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
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
    mr_store_wire_write_greeting(&hello, peer->hello);
    if (!mr_store_wire_append(&peer->out, peer->hello, MR_STORE_HELLO))
        mr_store_peer_doom(peer, MR_STORE_LOST);
}

static void set_listening(struct mr_store *store, bool listening)
{
    struct epoll_event event = {.events = listening ? EPOLLIN : 0, .data.ptr = &store->n_listen};
    for (uint32_t i = 0; i < store->n_listen; i++)
        epoll_ctl(store->epoll_fd, EPOLL_CTL_MOD, store->listen_fd[i], &event);
    store->deaf = !listening;
}

static void on_newcomers(struct mr_store *store, uint64_t now)
{
    uint32_t most = STRANGERS + store->identity.world_size - store->n_here;
    for (uint32_t i = 0; i < store->n_listen; i++) {
        int fd = accept4(store->listen_fd[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        bool is_short = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
        if (is_short && store->n_strangers == 0)
            set_listening(store, false);
        if (is_short || (fd >= 0 && store->n_strangers >= most))
            evict_a_stranger(store);
        if (fd >= 0)
            add_peer(store, fd, now);
    }
}

static bool flush(struct mr_store *store, uint64_t now)
{
    bool is_empty = true;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        if (!peer->doomed && peer->out.len > 0 && !(peer->events & EPOLLOUT))
            on_room(store, peer, now);
        if (!peer->doomed)
            set_events(store, peer);
        is_empty &= peer->doomed || peer->out.len == 0;
    }
    return is_empty;
}

static void on_events(struct mr_store *store, const struct epoll_event *events, int n, uint64_t now)
{
    bool has_newcomers = false;
    for (int i = 0; i < n; i++) {
        struct mr_store_peer *peer = events[i].data.ptr;
        if (events[i].data.ptr == &store->n_listen)
            has_newcomers = true;
        if (events[i].data.ptr == &store->n_listen || events[i].data.ptr == store)
            continue;
        if (!peer->doomed && events[i].events & EPOLLOUT)
            on_room(store, peer, now);
        if (!peer->doomed && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            on_readable(store, peer, now);
    }
    bury(store);
    if (has_newcomers)
        on_newcomers(store, now);
}

static void say_goodbye(struct mr_store *store)
{
    epoll_ctl(store->epoll_fd, EPOLL_CTL_DEL, store->wake_fd, NULL);
    for (uint32_t i = 0; i < store->n_listen; i++)
        close(store->listen_fd[i]);
    store->n_listen = 0;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        if (peer->rank == MR_STORE_NO_RANK)
            mr_store_peer_doom(peer, MR_STORE_FINE);
        else
            mr_store_peer_put(peer, &(struct mr_store_frame){.kind = MR_STORE_BYE});
    }
}

static void end_all(struct mr_store *store)
{
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        shutdown(peer->fd, SHUT_WR);
        mr_store_peer_doom(peer, MR_STORE_FINE);
    }
    bury(store);
}

static void *serve(void *arg)
{
    struct mr_store *store = arg;
    struct epoll_event events[N_EVENTS];
    uint64_t silence_ns = store->identity.silence_ms * MS, greet_ns = store->identity.greet_ms * MS;
    uint64_t step_ns = (silence_ns < greet_ns ? silence_ns : greet_ns) / 10 + MS, stop_ns = 0;
    uint64_t swept_ns = mr_clock_now_ns(), now = swept_ns;
    for (bool is_empty = true; stop_ns == 0 || (!is_empty && now < stop_ns);) {
        uint64_t before = now;
        int n = epoll_wait(store->epoll_fd, events, N_EVENTS, store->again ? 0 : (int)(step_ns / MS));
        store->again = false;
        now = mr_clock_now_ns();
        if (now - before > silence_ns / 4 + step_ns)
            forgive(store, now);
        on_events(store, events, n < 0 ? 0 : n, now);
        if (atomic_load(&store->stopping) && stop_ns == 0) {
            say_goodbye(store);
            stop_ns = now + STOP_NS;
        }
        if (now - swept_ns >= step_ns && n < N_EVENTS) {
            sweep(store, now);
            swept_ns = now;
            if (store->deaf)
                set_listening(store, true);
        }
        is_empty = flush(store, now);
        bury(store);
    }
    end_all(store);
    return NULL;
}

static void free_store(struct mr_store *store)
{
    if (!store)
        return;
    for (uint32_t i = 0; i < store->n_listen; i++)
        close(store->listen_fd[i]);
    if (store->epoll_fd >= 0)
        close(store->epoll_fd);
    if (store->wake_fd >= 0)
        close(store->wake_fd);
    mr_store_table_fini(&store->table);
    pthread_mutex_destroy(&store->lock);
    free(store->token);
    free(store->present);
    free(store->ranks);
    free(store->how);
    free(store);
}

static struct mr_store *make_store(const struct mr_store_identity *identity)
{
    struct mr_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    pthread_mutex_init(&store->lock, NULL);
    store->identity = *identity;
    store->identity.silence_ms = identity->silence_ms ? identity->silence_ms : MR_STORE_SILENCE_MS;
    store->identity.greet_ms = identity->greet_ms ? identity->greet_ms : MR_STORE_GREET_MS;
    store->token = strdup(identity->token ? identity->token : "");
    store->identity.token = store->token;
    store->present = calloc(identity->world_size / 8 + 1, 1);
    store->ranks = calloc(identity->world_size, 1);
    store->how = calloc(identity->world_size, 1);
    store->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    store->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!store->token || !store->present || !store->ranks || !store->how || store->epoll_fd < 0 || store->wake_fd < 0 ||
        mr_store_table_init(&store->table) != 0) {
        free_store(store);
        return NULL;
    }
    return store;
}

static mr_status watch(struct mr_store *store, mr_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = store};
    int rc = epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->wake_fd, &event);
    event.data.ptr = &store->n_listen;
    for (uint32_t i = 0; i < store->n_listen && rc == 0; i++)
        rc = epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->listen_fd[i], &event);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot watch the store's sockets");
    rc = mr_thread_start(&store->thread, serve, store);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, rc, "cannot start the store's thread");
    return MR_OK;
}

mr_status mr_store_start(const char *host, uint16_t port, const struct mr_store_identity *identity,
                         struct mr_store **store_out, mr_error *error)
{
    *store_out = NULL;
    if (identity->world_size == 0 || identity->world_size > MAX_WORLD)
        return mr_error_set(error, MR_ERR_INVALID, "world size %u is not between 1 and %u", identity->world_size,
                            MAX_WORLD);
    struct mr_store *store = make_store(identity);
    if (!store)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "no memory or descriptors for a store of %u ranks",
                            identity->world_size);
    store->port = port;
    mr_status status = mr_store_wire_listen(host, &store->port, store->listen_fd, &store->n_listen, error);
    if (status == MR_OK)
        status = watch(store, error);
    if (status != MR_OK) {
        free_store(store);
        return status;
    }
    *store_out = store;
    return MR_OK;
}

uint16_t mr_store_port(const struct mr_store *store)
{
    return store->port;
}

uint32_t mr_store_present(struct mr_store *store, uint8_t *bytes_out)
{
    pthread_mutex_lock(&store->lock);
    uint32_t n = store->n_present;
    memcpy(bytes_out, store->present, (store->identity.world_size + 7) / 8);
    pthread_mutex_unlock(&store->lock);
    return n;
}

bool mr_store_refused(struct mr_store *store, mr_error *error_out)
{
    pthread_mutex_lock(&store->lock);
    bool was_refused = store->refusal.status != MR_OK;
    if (was_refused)
        mr_error_copy(error_out, &store->refusal);
    pthread_mutex_unlock(&store->lock);
    return was_refused;
}

void mr_store_stop(struct mr_store *store)
{
    if (!store)
        return;
    atomic_store(&store->stopping, true);
    uint64_t one = 1;
    while (write(store->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    pthread_join(store->thread, NULL);
    free_store(store);
}
