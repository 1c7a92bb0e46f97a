/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the rendezvous store: one thread, one epoll, no call that blocks.
 *
 * If the thread or the whole machine stood still, all ranks seem silent by the clock, but what they
 * sent is only unread. After such a pause all clocks are restarted.
 */
#include "dist/rendezvous/store_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "dist/rendezvous/store_connections.h"

#define N_EVENTS 64
#define MS UINT64_C(1000000)

/* Time. */

static void doom_silent(struct mr_store *store, uint64_t now)
{
    uint64_t silence_ns = store->identity.silence_ms * MS, greet_ns = store->identity.greet_ms * MS;
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        if (peer->out.len > 0 && now - peer->moved_ns > silence_ns)
            mr_store_peer_doom(peer, MR_STORE_DEAF);
        if (peer->rank == MR_STORE_NO_RANK && now - peer->since_ns > greet_ns)
            mr_store_peer_doom(peer, MR_STORE_LOST);
    }
    /* A silent rank stays connected: if it wakes up, it learns that it was reported. */
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next)
        if (peer->rank != MR_STORE_NO_RANK && !peer->doomed && now - peer->heard_ns > silence_ns)
            mr_store_connections_break(store, peer->rank, MR_STORE_SILENT);
}

/*
 * This thread or the whole machine stood still: what clients sent meanwhile has not been read yet.
 */
static void restart_clocks(struct mr_store *store, uint64_t now)
{
    for (struct mr_store_peer *peer = store->first; peer; peer = peer->next) {
        peer->heard_ns = now;
        peer->moved_ns = now;
        peer->since_ns = now;
    }
}

/* New connections. */

static void set_listening(struct mr_store *store, bool listening)
{
    struct epoll_event event = {.events = listening ? EPOLLIN : 0, .data.ptr = &store->listen_fd};
    epoll_ctl(store->epoll_fd, EPOLL_CTL_MOD, store->listen_fd, &event);
    store->deaf = !listening;
}

/* The connection that was not accepted may be that of the rank that is missing in the end. */
static void note_shortage(struct mr_store *store, int os_error)
{
    pthread_mutex_lock(&store->lock);
    mr_error_os(&store->refusal, MR_ERR_IO, os_error, "cannot accept a connection");
    pthread_mutex_unlock(&store->lock);
}

static void accept_connection(struct mr_store *store, uint64_t now)
{
    uint32_t most = MR_STORE_STRANGERS + store->identity.world_size - store->n_here;
    int fd = accept4(store->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC),
        failed = fd < 0 ? errno : 0;
    bool is_short = failed == EMFILE || failed == ENFILE || failed == ENOBUFS || failed == ENOMEM;
    if (is_short)
        note_shortage(store, failed);
    if (is_short && store->n_strangers == 0)
        set_listening(store, false);
    if (is_short || (fd >= 0 && store->n_strangers >= most))
        mr_store_connections_evict(store);
    if (fd >= 0)
        mr_store_connections_add(store, fd, now);
}

static void handle_events(struct mr_store *store, const struct epoll_event *events, int n,
                          uint64_t now)
{
    bool has_connection = false;
    for (int i = 0; i < n; i++) {
        struct mr_store_peer *peer = events[i].data.ptr;
        if (events[i].data.ptr == &store->listen_fd)
            has_connection = true;
        if (events[i].data.ptr == &store->listen_fd || events[i].data.ptr == store)
            continue;
        if (!peer->doomed && events[i].events & EPOLLOUT)
            mr_store_connections_write(store, peer, now);
        if (!peer->doomed && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            mr_store_connections_read(store, peer, now);
    }
    mr_store_connections_bury(store);
    if (has_connection)
        accept_connection(store, now);
}

static void say_goodbye(struct mr_store *store)
{
    epoll_ctl(store->epoll_fd, EPOLL_CTL_DEL, store->wake_fd, NULL);
    close(store->listen_fd);
    store->listen_fd = -1;
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
    mr_store_connections_bury(store);
}

static void *run_server(void *arg)
{
    struct mr_store *store = arg;
    struct epoll_event events[N_EVENTS];
    uint64_t silence_ns = store->identity.silence_ms * MS, greet_ns = store->identity.greet_ms * MS;
    uint64_t step_ns = (silence_ns < greet_ns ? silence_ns : greet_ns) / 10 + MS, stop_ns = 0;
    uint64_t swept_ns = mr_clock_now_ns(), now = swept_ns;
    for (bool is_empty = true; stop_ns == 0 || (!is_empty && now < stop_ns);) {
        uint64_t before = now;
        int n =
            epoll_wait(store->epoll_fd, events, N_EVENTS, store->again ? 0 : (int)(step_ns / MS));
        store->again = false;
        now = mr_clock_now_ns();
        if (now - before > silence_ns / 4 + step_ns)
            restart_clocks(store, now);
        handle_events(store, events, n < 0 ? 0 : n, now);
        if (atomic_load(&store->stopping) && stop_ns == 0) {
            say_goodbye(store);
            stop_ns = now + MR_STORE_GOODBYE_MS * MS;
        }
        /*
         * Received bytes are read first, because a rank in them is not silent. But clients that
         * always send more must not delay this check forever.
         */
        if (now - swept_ns >= (n < N_EVENTS ? step_ns : 3 * step_ns)) {
            doom_silent(store, now);
            swept_ns = now;
            if (store->deaf)
                set_listening(store, true);
        }
        is_empty = mr_store_connections_flush(store, now);
        mr_store_connections_bury(store);
    }
    end_all(store);
    return NULL;
}

static void free_store(struct mr_store *store)
{
    if (!store)
        return;
    if (store->listen_fd >= 0)
        close(store->listen_fd);
    if (store->epoll_fd >= 0)
        close(store->epoll_fd);
    if (store->wake_fd >= 0)
        close(store->wake_fd);
    mr_store_table_fini(&store->table);
    pthread_mutex_destroy(&store->lock);
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
    store->present = calloc(identity->world_size / 8 + 1, 1);
    store->ranks = calloc(identity->world_size, 1);
    store->how = calloc(identity->world_size, 1);
    store->listen_fd = -1;
    store->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    store->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!store->present || !store->ranks || !store->how || store->epoll_fd < 0 ||
        store->wake_fd < 0) {
        free_store(store);
        return NULL;
    }
    return store;
}

static mr_status start_thread(struct mr_store *store, mr_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = store};
    int rc = epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->wake_fd, &event);
    event.data.ptr = &store->listen_fd;
    if (rc == 0)
        rc = epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->listen_fd, &event);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot watch the store's sockets");
    rc = mr_thread_start(&store->thread, run_server, store);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, rc, "cannot start the store's thread");
    return MR_OK;
}

mr_status mr_store_start(const char *address, uint16_t port,
                         const struct mr_store_identity *identity, struct mr_store **store_out,
                         mr_error *error)
{
    *store_out = NULL;
    if (identity->world_size == 0 || identity->world_size > MR_STORE_WORLD)
        return mr_error_set(error, MR_ERR_INVALID, "world size %u is not between 1 and %u",
                            identity->world_size, MR_STORE_WORLD);
    struct mr_store *store = make_store(identity);
    if (!store)
        return mr_error_set(error, MR_ERR_NO_MEMORY,
                            "no memory or descriptors for a store of %u ranks",
                            identity->world_size);
    store->port = port;
    mr_status status = mr_store_greeting_token(identity->token, store->token, error);
    if (status == MR_OK)
        status = mr_store_address_listen(address, &store->port, &store->listen_fd, error);
    if (status == MR_OK)
        status = start_thread(store, error);
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

uint32_t mr_store_connected(const struct mr_store *store)
{
    return atomic_load(&store->n_here);
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
