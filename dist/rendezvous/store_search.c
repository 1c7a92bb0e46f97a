/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the store's server and greets it. Ports and addresses are tried in turn, in each round for
 * longer, because another program may own a port, accept the connection and send nothing.
 *
 * Invariant: once the right server has been greeted, this rank stays connected until the deadline.
 * An earlier disconnect would look like a broken rank.
 */
#include "dist/rendezvous/store_search.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define MS UINT64_C(1000000)
#define RESOLVE_NS (5000 * MS) /* after this a name is looked up again */
#define FIRST_PAUSE_MS 20u
#define MAX_PAUSE_MS 1000u
#define FIRST_HELLO_MS 250u /* if several ports or addresses are tried */

struct search {
    const struct mr_store_connect *want;
    struct mr_store_addresses addresses;
    uint64_t resolved_ns; /* 0: never, or the last lookup failed */
    uint64_t begun_ns;
    uint32_t n_rounds;
    mr_error last; /* the error of the last failed try */
};

/* A server's hello. */

/* 0 if fd is ready, or ETIMEDOUT. */
static int wait_for(int fd, short events, uint64_t until_ns)
{
    struct pollfd at = {.fd = fd, .events = events};
    while (at.revents == 0) {
        if (mr_clock_now_ns() >= until_ns)
            return ETIMEDOUT;
        mr_store_wire_poll(&at, 1, until_ns);
    }
    return 0;
}

/*
 * Is the socket connected to itself? This happens when it connects to a port of this machine
 * without a listener, and the kernel picks that port as its source.
 */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage mine = {0}, other = {0};
    socklen_t mine_len = sizeof mine, other_len = sizeof other;
    return getsockname(fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_len) == 0 && mine_len == other_len &&
           memcmp(&mine, &other, mine_len) == 0;
}

/* 0, or an errno. */
static int connect_to(int fd, const struct sockaddr_storage *address, uint64_t until_ns)
{
    int one = 1, failed = 0;
    socklen_t len = sizeof failed;
    socklen_t size =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (connect(fd, (const struct sockaddr *)address, size) != 0) {
        int rc = errno == EINPROGRESS ? wait_for(fd, POLLOUT, until_ns) : errno;
        if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
            rc = errno;
        if (rc != 0 || failed != 0)
            return rc ? rc : failed;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return is_connected_to_itself(fd) ? ECONNREFUSED : 0;
}

static int read_hello(int fd, uint64_t until_ns, struct mr_store_greeting *hello_out)
{
    uint8_t bytes[MR_STORE_HELLO];
    for (size_t len = 0; len < sizeof bytes;) {
        int rc = wait_for(fd, POLLIN, until_ns);
        if (rc != 0)
            return rc;
        ssize_t n = recv(fd, bytes + len, sizeof bytes - len, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return n < 0 ? errno : ECONNRESET;
        len += (size_t)n;
        if (!mr_store_greeting_read(bytes, len, hello_out))
            return EPROTO;
    }
    return 0;
}

/* 0 and a connection to a peer that sent a store's hello; else an errno. */
static int connect_and_read_hello(const struct sockaddr_storage *address, uint64_t until_ns,
                                  int *fd_out, struct mr_store_greeting *hello_out)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int rc = connect_to(fd, address, until_ns);
    if (rc == 0)
        rc = read_hello(fd, until_ns, hello_out);
    if (rc == 0)
        *fd_out = fd;
    else
        close(fd);
    return rc;
}

bool mr_store_search_hello(const char *host, uint16_t port, uint64_t deadline_ns,
                           struct mr_store_greeting *hello_out)
{
    int fd;
    struct mr_store_addresses addresses;
    if (mr_store_address_resolve(host, NULL, deadline_ns, &addresses, NULL) != MR_OK)
        return false;
    mr_store_address_set_port(&addresses.at[0], port);
    if (connect_and_read_hello(&addresses.at[0], deadline_ns, &fd, hello_out) != 0)
        return false;
    close(fd);
    return true;
}

/*
 * Is it our store? MR_PENDING: not yet. Ours may still appear on a further port, or on this one if
 * the store here belongs to an older restart, which is about to end.
 */
static mr_status judge_hello(struct search *search, const char *name, uint16_t port,
                             const struct mr_store_greeting *theirs)
{
    const struct mr_store_identity *ours = &search->want->identity;
    bool may_appear = search->want->n_ports > 0;
    if (theirs->version != MR_STORE_VERSION) {
        mr_error_set(&search->last, MR_ERR_PEER,
                     "the store at %s port %u has version %u, this program's has %u", name, port,
                     theirs->version, MR_STORE_VERSION);
    } else if (theirs->run != ours->run) {
        mr_error_set(&search->last, MR_ERR_PEER,
                     "the store at %s port %u belongs to run %llx, not %llx", name, port,
                     (unsigned long long)theirs->run, (unsigned long long)ours->run);
    } else if (theirs->restart != ours->restart) {
        mr_error_set(&search->last, MR_ERR_PEER,
                     "the store at %s port %u belongs to restart %u, not %u", name, port,
                     theirs->restart, ours->restart);
        may_appear |= theirs->restart < ours->restart;
    } else {
        return MR_OK;
    }
    return may_appear ? MR_PENDING : MR_ERR_PEER;
}

/* The greeting. */

/* Wait for the verdict, the first frame of in_out. MR_PENDING: the connection has ended. */
static mr_status await_verdict(struct search *search, int fd, uint16_t port,
                               struct mr_store_bytes *in_out, struct mr_store_frame *verdict_out)
{
    const struct mr_store_connect *want = search->want;
    int got;
    while ((got = mr_store_wire_next(in_out, verdict_out)) == 0) {
        if (wait_for(fd, POLLIN, want->deadline_ns) != 0)
            return mr_error_set(&search->last, MR_ERR_TIMEOUT,
                                "the store at %s port %u sent its hello, then nothing for %.1f s",
                                want->host, port,
                                (double)(mr_clock_now_ns() - search->begun_ns) / 1e9);
        long n = mr_store_wire_recv(fd, in_out, 4096);
        if (n <= 0 && n != -EAGAIN && n != -EWOULDBLOCK)
            return mr_error_set(&search->last, MR_PENDING, "the store at %s closed the connection",
                                want->host);
    }
    if (got < 0 || verdict_out->kind != MR_STORE_VERDICT || !mr_store_wire_is_reply(verdict_out))
        return mr_error_set(&search->last, MR_ERR_PEER, "the server at %s is not a store",
                            want->host);
    return MR_OK;
}

/* On MR_OK the bytes after the verdict are in in_out. */
static mr_status greet_store(struct search *search, int fd, uint16_t port,
                             const struct mr_store_greeting *theirs, struct mr_store_bytes *in_out)
{
    const struct mr_store_connect *want = search->want;
    const struct mr_store_identity *identity = &want->identity;
    uint8_t greeting[MR_STORE_GREETING];
    struct mr_store_greeting ours = {.version = MR_STORE_VERSION,
                                     .world_size = identity->world_size,
                                     .run = identity->run,
                                     .restart = identity->restart,
                                     .rank = want->rank};
    struct mr_store_frame verdict;
    mr_store_greeting_write(&ours, greeting);
    mr_status status =
        mr_store_greeting_token(identity->token, greeting + MR_STORE_HELLO, &search->last);
    if (status != MR_OK)
        return status;
    /* a new socket has room; if the connection is lost, the wait below sees it */
    (void)!send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    status = await_verdict(search, fd, port, in_out, &verdict);
    if (status != MR_OK)
        return status;
    if (verdict.code != MR_STORE_FINE) {
        struct mr_store_identity other = {
            .run = theirs->run, .restart = theirs->restart, .world_size = theirs->world_size};
        mr_error why;
        mr_store_greeting_refuse(&ours, &other, verdict.code, &why);
        return mr_error_set(&search->last, MR_ERR_PEER, "the store at %s port %u: %.600s",
                            want->host, port, why.text);
    }
    mr_store_wire_consume(in_out, mr_store_wire_size(&verdict));
    return MR_OK;
}

/* The search. */

/* MR_PENDING: our store is not there, or not yet. */
static mr_status try_place(struct search *search, const struct sockaddr_storage *address,
                           uint64_t until_ns, int *fd_out, struct mr_store_bytes *in_out)
{
    int fd;
    char name[64];
    struct mr_store_greeting hello;
    uint16_t port = mr_store_address_port(address);
    mr_store_address_name(address, name, sizeof name);
    int rc = connect_and_read_hello(address, until_ns, &fd, &hello);
    if (rc == ETIMEDOUT && until_ns == search->want->deadline_ns && search->last.text[0])
        return MR_PENDING; /* the deadline cut this try short: the earlier error says more */
    if (rc != 0)
        return mr_error_os(&search->last, MR_PENDING, rc, "%s port %u", name, port);
    mr_status status = judge_hello(search, name, port, &hello);
    if (status == MR_OK)
        status = greet_store(search, fd, port, &hello, in_out);
    if (status == MR_OK) {
        *fd_out = fd;
    } else {
        close(fd);
        mr_store_wire_free(in_out);
    }
    return status;
}

static uint32_t hello_ms(const struct search *search, uint32_t n_places)
{
    if (search->want->once_ms)
        return search->want->once_ms;
    uint32_t doubled =
        search->n_rounds < 6 ? FIRST_HELLO_MS << search->n_rounds : MR_STORE_HELLO_MS;
    return n_places == 1 || doubled > MR_STORE_HELLO_MS ? MR_STORE_HELLO_MS : doubled;
}

/* Looks the name up again after a while, because its addresses may change. */
static mr_status resolve_host(struct search *search)
{
    const struct mr_store_connect *want = search->want;
    if (search->resolved_ns != 0 && mr_clock_now_ns() - search->resolved_ns < RESOLVE_NS)
        return MR_OK;
    mr_status status = mr_store_address_resolve(want->host, want->resolver, want->deadline_ns,
                                                &search->addresses, &search->last);
    search->resolved_ns = status == MR_OK ? mr_clock_now_ns() : 0;
    return status == MR_ERR_IO || status == MR_ERR_TIMEOUT ? MR_PENDING : status;
}

/* Try every place once, until one result is final. */
static mr_status try_places(struct search *search, int *fd_out, struct mr_store_bytes *in_out)
{
    const struct mr_store_connect *want = search->want;
    mr_status status = resolve_host(search);
    if (status != MR_OK)
        return status;
    uint32_t n_places = (want->n_ports + 1u) * search->addresses.n;
    uint64_t hello_ns = hello_ms(search, n_places) * MS;
    status = MR_PENDING;
    for (uint32_t i = 0; i < n_places && status == MR_PENDING; i++) {
        uint64_t now = mr_clock_now_ns();
        uint32_t port = want->port + i / search->addresses.n;
        struct sockaddr_storage address = search->addresses.at[i % search->addresses.n];
        if (port > UINT16_MAX || now >= want->deadline_ns)
            break;
        mr_store_address_set_port(&address, (uint16_t)port);
        status = try_place(search, &address,
                           now + hello_ns < want->deadline_ns ? now + hello_ns : want->deadline_ns,
                           fd_out, in_out);
    }
    return status;
}

static mr_status fail_timeout(const struct search *search, mr_error *error)
{
    const struct mr_store_connect *want = search->want;
    double seconds = (double)(mr_clock_now_ns() - search->begun_ns) / 1e9;
    char ports[32];
    snprintf(ports, sizeof ports, want->n_ports ? "ports %u to %u" : "port %u", want->port,
             (uint32_t)want->port + want->n_ports);
    return mr_error_set(error, MR_ERR_TIMEOUT,
                        "no store at %s %s, tried %u times in %.1f s; the last answer: %.600s",
                        want->host, ports, search->n_rounds, seconds,
                        search->last.text[0] ? search->last.text : "none");
}

/*
 * Sleeps between half of pause_ms and all of it, so that ranks do not all connect at once; never
 * past the deadline.
 */
static void sleep_between_rounds(const struct search *search, uint32_t pause_ms)
{
    uint32_t mixed = (search->want->rank + 1) * 2654435761u + search->n_rounds * 40503u;
    uint64_t ms = pause_ms / 2 + (mixed >> 8) % (pause_ms / 2 + 1), now = mr_clock_now_ns();
    uint64_t left_ms =
        now < search->want->deadline_ns ? (search->want->deadline_ns - now) / MS + 1 : 0;
    mr_clock_sleep_ms((uint32_t)(ms < left_ms ? ms : left_ms));
}

mr_status mr_store_search_run(const struct mr_store_connect *connect, int *fd_out,
                              struct mr_store_bytes *in_out, mr_error *error)
{
    struct search search = {.want = connect, .begun_ns = mr_clock_now_ns()};
    uint64_t refused_ns = 0;
    for (uint32_t pause_ms = FIRST_PAUSE_MS;; pause_ms = pause_ms * 3 / 2) {
        mr_status status = try_places(&search, fd_out, in_out);
        uint64_t now = mr_clock_now_ns();
        search.n_rounds++;
        if (status == MR_ERR_PEER && refused_ns == 0)
            refused_ns = now;
        if (status == MR_ERR_PEER && now < connect->deadline_ns &&
            now - refused_ns < connect->patience_ns)
            status = MR_PENDING;
        if (status == MR_PENDING && now >= connect->deadline_ns)
            return fail_timeout(&search, error);
        if (status != MR_PENDING || connect->once_ms) {
            mr_error_copy(status == MR_OK ? NULL : error, &search.last);
            return status;
        }
        if (pause_ms > MAX_PAUSE_MS)
            pause_ms = MAX_PAUSE_MS;
        sleep_between_rounds(&search, pause_ms);
    }
}
