/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every piece of bytes waits in its direction's queue until it is due. All pieces have the same
 * delay, so each queue is in order.
 */
#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/die.h"

enum { PIECE_BYTES = 64 << 10, MAX_QUEUED = 1 << 20, MAX_EVENTS = 64 };

struct piece {
    struct piece *next;
    uint64_t due_ns;
    size_t at, len;
    char bytes[];
};

/* The bytes from one end of a connection. */
struct way {
    struct pair *pair;
    struct way *other;
    int from; /* the other way's `from` is where they go */
    struct piece *head, *tail;
    size_t n_queued;
    bool ended;  /* the sender has closed its side, */
    bool closed; /* and the receiver knows */
    uint32_t events;
};

struct pair {
    struct pair *next;
    struct way request, answer;
    bool dead;
    bool begun; /* its first bytes have been seen */
};

struct mr_test_proxy {
    struct mr_test_proxy_options options;
    int fd, epoll, timer;
    pthread_t thread;
    _Atomic bool stop, silent, is_quiet; /* is_quiet: the thread has seen silent */
    _Atomic uint64_t n_connections, n_bytes;
    uint64_t free_ns; /* when the limited link is free again */
    uint64_t n_pieces;
    struct pair *pairs;
    char bytes[PIECE_BYTES]; /* that have just arrived */
};

static void close_pair(struct mr_test_proxy *proxy, struct pair *pair, bool reset)
{
    struct linger linger = {.l_onoff = 1};
    if (pair->dead)
        return;
    if (reset) {
        setsockopt(pair->request.from, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        setsockopt(pair->answer.from, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    /* a child that is about to exec has the descriptors too, so close() alone leaves the watch */
    epoll_ctl(proxy->epoll, EPOLL_CTL_DEL, pair->request.from, NULL);
    epoll_ctl(proxy->epoll, EPOLL_CTL_DEL, pair->answer.from, NULL);
    close(pair->request.from);
    close(pair->answer.from);
    for (int i = 0; i < 2; i++)
        for (struct piece *p = i ? pair->answer.head : pair->request.head, *next; p; p = next) {
            next = p->next;
            free(p);
        }
    pair->dead = true; /* events that are pending may still name it */
}

static void watch(struct mr_test_proxy *proxy, struct way *way)
{
    bool reads = !way->ended && way->n_queued < MAX_QUEUED;
    const struct piece *to_it = way->other->head;
    bool writes = to_it && to_it->due_ns <= mr_clock_now_ns();
    uint32_t events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u);
    struct epoll_event event = {.events = events, .data.ptr = way};
    if (events == way->events)
        return;
    way->events = events;
    if (epoll_ctl(proxy->epoll, EPOLL_CTL_MOD, way->from, &event) != 0)
        mr_test_die("epoll_ctl");
}

/* When a piece of an answer may be sent. */
static uint64_t find_due(struct mr_test_proxy *proxy, size_t len)
{
    uint64_t now = mr_clock_now_ns();
    if (proxy->options.rate > 0) {
        proxy->free_ns = proxy->free_ns > now ? proxy->free_ns : now;
        proxy->free_ns += len * UINT64_C(1000000000) / proxy->options.rate;
        now = proxy->free_ns;
    }
    return now + proxy->options.delay_us * UINT64_C(1000);
}

static void queue_piece(struct way *way, const char *bytes, size_t len, uint64_t due_ns)
{
    struct piece *piece = malloc(sizeof *piece + len);
    if (!piece)
        mr_test_die("no memory");
    *piece = (struct piece){.due_ns = due_ns, .len = len};
    memcpy(piece->bytes, bytes, len);
    *(way->head ? &way->tail->next : &way->head) = piece;
    way->tail = piece;
    way->n_queued += len;
}

static void take_bytes(struct mr_test_proxy *proxy, struct way *way)
{
    static const char established[] = "HTTP/1.1 200 OK\r\n\r\n";
    struct pair *pair = way->pair;
    char *bytes = proxy->bytes;
    bool is_answer = way == &pair->answer;
    ssize_t n = recv(way->from, bytes, sizeof proxy->bytes, 0);
    bool tunnel = n > 8 && !is_answer && !pair->begun && proxy->options.is_http_proxy &&
                  memcmp(bytes, "CONNECT ", 8) == 0;
    pair->begun = true;
    if (tunnel)
        queue_piece(&pair->answer, established, sizeof established - 1, mr_clock_now_ns());
    else if (n > 0 && is_answer && proxy->options.reset_one_in > 0 &&
             ++proxy->n_pieces % proxy->options.reset_one_in == 0)
        close_pair(proxy, pair, true);
    else if (n > 0)
        queue_piece(way, bytes, (size_t)n,
                    is_answer ? find_due(proxy, (size_t)n) : mr_clock_now_ns());
    else if (n == 0)
        way->ended = true;
    else if (errno != EAGAIN)
        close_pair(proxy, pair, true);
}

/* Send what is due. */
static void send_pieces(struct mr_test_proxy *proxy, struct way *way)
{
    struct piece *piece;
    while ((piece = way->head) && piece->due_ns <= mr_clock_now_ns()) {
        ssize_t n = send(way->other->from, piece->bytes + piece->at, piece->len - piece->at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            close_pair(proxy, way->pair, true);
            return;
        }
        piece->at += (size_t)n;
        way->n_queued -= (size_t)n;
        if (way == &way->pair->answer)
            atomic_fetch_add(&proxy->n_bytes, (uint64_t)n);
        if (piece->at < piece->len)
            return;
        way->head = piece->next;
        free(piece);
    }
    if (way->ended && !way->head && !way->closed) {
        shutdown(way->other->from, SHUT_WR);
        way->closed = true;
    }
    if (way->closed && way->other->closed)
        close_pair(proxy, way->pair, false);
}

static int connect_upstream(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void add_way(struct mr_test_proxy *proxy, struct way *way)
{
    int one = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = way};
    way->events = EPOLLIN;
    setsockopt(way->from, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(way->from, F_SETFL, fcntl(way->from, F_GETFL) | O_NONBLOCK);
    if (epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, way->from, &event) != 0)
        mr_test_die("epoll_ctl");
}

static void accept_pair(struct mr_test_proxy *proxy)
{
    int fd = accept4(proxy->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    int upstream = connect_upstream(proxy->options.upstream);
    struct pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        mr_test_die("no memory");
    if (upstream < 0) {
        close(fd);
        free(pair);
        return;
    }
    pair->request = (struct way){.pair = pair, .other = &pair->answer, .from = fd};
    pair->answer = (struct way){.pair = pair, .other = &pair->request, .from = upstream};
    pair->next = proxy->pairs;
    proxy->pairs = pair;
    atomic_fetch_add(&proxy->n_connections, 1);
    add_way(proxy, &pair->request);
    add_way(proxy, &pair->answer);
}

/* Wake up when the next piece is due. */
static void set_timer(struct mr_test_proxy *proxy)
{
    uint64_t due_ns = 0, now = mr_clock_now_ns();
    for (const struct pair *p = proxy->pairs; p; p = p->next)
        for (int i = 0; i < 2 && !p->dead; i++) {
            const struct piece *head = i ? p->answer.head : p->request.head;
            /* one that is due waits for room, and then there is an event */
            if (head && head->due_ns > now && (due_ns == 0 || head->due_ns < due_ns))
                due_ns = head->due_ns;
        }
    uint64_t left = due_ns > now ? due_ns - now : 0;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)}};
    timerfd_settime(proxy->timer, 0, &at, NULL);
}

static void drop_dead(struct mr_test_proxy *proxy)
{
    for (struct pair **at = &proxy->pairs, *pair; (pair = *at);) {
        if (!pair->dead) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        free(pair);
    }
}

static void pass_all(struct mr_test_proxy *proxy)
{
    for (struct pair *p = proxy->pairs; p; p = p->next) {
        if (!p->dead)
            send_pieces(proxy, &p->request);
        if (!p->dead)
            send_pieces(proxy, &p->answer);
        if (!p->dead) {
            watch(proxy, &p->request);
            watch(proxy, &p->answer);
        }
    }
    drop_dead(proxy);
    set_timer(proxy);
}

static void *run(void *arg)
{
    struct mr_test_proxy *proxy = arg;
    struct epoll_event events[MAX_EVENTS];
    uint64_t ticks;
    while (!atomic_load(&proxy->stop)) {
        atomic_store(&proxy->is_quiet, atomic_load(&proxy->silent));
        if (atomic_load(&proxy->is_quiet)) {
            poll(NULL, 0, 5);
            continue;
        }
        int n = epoll_wait(proxy->epoll, events, MAX_EVENTS, 50);
        for (int i = 0; i < n; i++) {
            struct way *way = events[i].data.ptr;
            if (events[i].data.ptr == proxy)
                accept_pair(proxy);
            else if (events[i].data.ptr == &proxy->timer)
                (void)!read(proxy->timer, &ticks, sizeof ticks);
            else if (!way->pair->dead && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                take_bytes(proxy, way);
        }
        pass_all(proxy);
    }
    return NULL;
}

static void listen_at(struct mr_test_proxy *proxy)
{
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(proxy->options.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    proxy->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(proxy->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (proxy->fd < 0 || bind(proxy->fd, (const struct sockaddr *)&address, len) != 0 ||
        listen(proxy->fd, 1024) != 0 ||
        getsockname(proxy->fd, (struct sockaddr *)&address, &len) != 0)
        mr_test_die("the proxy cannot listen");
    proxy->options.port = ntohs(address.sin_port);
}

struct mr_test_proxy *mr_test_proxy_start(const struct mr_test_proxy_options *options)
{
    struct mr_test_proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy)
        mr_test_die("no memory");
    proxy->options = *options;
    listen_at(proxy);
    proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
    proxy->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event accepts = {.events = EPOLLIN, .data.ptr = proxy},
                       timer = {.events = EPOLLIN, .data.ptr = &proxy->timer};
    if (proxy->epoll < 0 || proxy->timer < 0 ||
        epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, proxy->fd, &accepts) != 0 ||
        epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, proxy->timer, &timer) != 0 ||
        pthread_create(&proxy->thread, NULL, run, proxy) != 0)
        mr_test_die("the proxy cannot start");
    return proxy;
}

void mr_test_proxy_stop(struct mr_test_proxy *proxy)
{
    atomic_store(&proxy->stop, true);
    pthread_join(proxy->thread, NULL);
    for (struct pair *p = proxy->pairs; p; p = p->next)
        close_pair(proxy, p, true);
    drop_dead(proxy);
    close(proxy->fd);
    close(proxy->epoll);
    close(proxy->timer);
    free(proxy);
}

uint16_t mr_test_proxy_port(const struct mr_test_proxy *proxy)
{
    return proxy->options.port;
}

void mr_test_proxy_silence(struct mr_test_proxy *proxy, bool is_silent)
{
    atomic_store(&proxy->silent, is_silent);
    while (atomic_load(&proxy->is_quiet) != is_silent)
        poll(NULL, 0, 1);
}

uint64_t mr_test_proxy_n_connections(const struct mr_test_proxy *proxy)
{
    return atomic_load(&proxy->n_connections);
}

uint64_t mr_test_proxy_n_bytes(const struct mr_test_proxy *proxy)
{
    return atomic_load(&proxy->n_bytes);
}
