/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the store's server and greeting it; the only user is store_client.c.
 *
 * All ports and addresses are tried at once, since a foreign server may stay silent. Easy to get wrong: once the right
 * one has been greeted there is no turning back before the deadline: leaving then looks like a rank that broke.
 */
#ifndef COMM_STORE_SEARCH_H
#define COMM_STORE_SEARCH_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/store_wire.h"

#define MS UINT64_C(1000000)
#define SPOT_NS (8000 * MS) /* to connect and to say hello; a round of tries does not wait for it */
#define RESOLVE_NS (5000 * MS)
#define FIRST_PAUSE_MS 20u
#define MAX_PAUSE_MS 1000u
#define N_SPOTS 128

static inline int mr_store_search_ms_until(uint64_t then_ns)
{
    uint64_t now = mr_clock_now_ns();
    if (then_ns <= now)
        return 0;
    uint64_t ms = (then_ns - now + MS - 1) / MS;
    return ms > 1000000 ? 1000000 : (int)ms;
}

/* One address and port of those that are tried. */
struct spot {
    int fd; /* -1 while there is no try */
    bool connected;
    uint64_t since_ns;
    struct sockaddr_storage address;
    struct mr_store_bytes in;
};

struct search {
    const struct mr_store_connect *want;
    struct mr_store_addresses addresses;
    uint64_t resolved_ns; /* 0: never, or not well */
    uint64_t begun_ns;
    uint32_t n_rounds;
    uint32_t n_spots;
    uint32_t found; /* the spot whose server is ours */
    mr_error last;  /* what the last failed try said */
    struct spot spots[N_SPOTS];
};

enum found { NOTHING_YET, THIS_ONE, NOT_THIS_ONE, GIVE_UP };

static void close_spot(struct spot *spot)
{
    if (spot->fd >= 0)
        close(spot->fd);
    spot->fd = -1;
    mr_store_wire_free(&spot->in);
}

static void note(struct search *search, const struct spot *spot, int os_error)
{
    char name[64];
    mr_store_wire_name_of(&spot->address, name, sizeof name);
    mr_error_os(&search->last, MR_ERR_IO, os_error, "%s port %u", name, mr_store_wire_port_of(&spot->address));
}

static void open_spot(struct search *search, struct spot *spot)
{
    int one = 1;
    socklen_t len = spot->address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    spot->connected = false;
    spot->since_ns = mr_clock_now_ns();
    spot->fd = socket(spot->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (spot->fd >= 0 &&
        (connect(spot->fd, (const struct sockaddr *)&spot->address, len) == 0 || errno == EINPROGRESS)) {
        setsockopt(spot->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return;
    }
    note(search, spot, errno);
    close_spot(spot);
}

/* A port of this machine where nobody listens can be given to the connecting socket itself, which then meets itself. */
static bool met_itself(const struct spot *spot)
{
    struct sockaddr_storage mine = {0}, other = {0};
    socklen_t mine_len = sizeof mine, other_len = sizeof other;
    return getsockname(spot->fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
           getpeername(spot->fd, (struct sockaddr *)&other, &other_len) == 0 && mine_len == other_len &&
           memcmp(&mine, &other, mine_len) == 0;
}

/* A store, but perhaps not ours. With several ports to look at, or an older restart that is about to end, ours may
 * come. */
static enum found judge(struct search *search, const struct spot *spot, const struct mr_store_greeting *theirs)
{
    const struct mr_store_identity *ours = &search->want->identity;
    uint16_t port = mr_store_wire_port_of(&spot->address);
    char name[64];
    bool may_come = search->want->n_ports > 0;
    mr_store_wire_name_of(&spot->address, name, sizeof name);
    if (theirs->version != MR_STORE_VERSION) {
        mr_error_set(&search->last, MR_ERR_PEER, "the store at %s port %u has version %u, this program's has %u", name,
                     port, theirs->version, MR_STORE_VERSION);
    } else if (theirs->run != ours->run) {
        mr_error_set(&search->last, MR_ERR_PEER, "the store at %s port %u is of run %llx, not of %llx", name, port,
                     (unsigned long long)theirs->run, (unsigned long long)ours->run);
    } else if (theirs->restart != ours->restart) {
        mr_error_set(&search->last, MR_ERR_PEER, "the store at %s port %u is of restart %u, not of %u", name, port,
                     theirs->restart, ours->restart);
        may_come |= theirs->restart < ours->restart;
    } else {
        return THIS_ONE;
    }
    return may_come ? NOT_THIS_ONE : GIVE_UP;
}

static enum found look_at(struct search *search, struct spot *spot)
{
    int failed = 0;
    socklen_t len = sizeof failed;
    if (!spot->connected && (getsockopt(spot->fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0 || failed != 0)) {
        note(search, spot, failed ? failed : errno);
        return NOT_THIS_ONE;
    }
    if (!spot->connected && met_itself(spot)) {
        note(search, spot, ECONNREFUSED);
        return NOT_THIS_ONE;
    }
    spot->connected = true;
    long n = mr_store_wire_recv(spot->fd, &spot->in, MR_STORE_HELLO - spot->in.len);
    if (n == -EAGAIN || n == -EWOULDBLOCK)
        return NOTHING_YET;
    if (n <= 0) {
        note(search, spot, n == 0 ? ECONNRESET : (int)-n);
        return NOT_THIS_ONE;
    }
    struct mr_store_greeting theirs;
    if (!mr_store_wire_read_greeting(spot->in.at, spot->in.len, &theirs)) {
        note(search, spot, EPROTO);
        return NOT_THIS_ONE;
    }
    return spot->in.len < MR_STORE_HELLO ? NOTHING_YET : judge(search, spot, &theirs);
}

static enum found look_at_all(struct search *search, const struct pollfd *fds)
{
    for (uint32_t i = 0; i < search->n_spots; i++) {
        if (fds[i].fd < 0 || fds[i].revents == 0)
            continue;
        enum found found = look_at(search, &search->spots[i]);
        if (found == THIS_ONE)
            search->found = i;
        if (found == NOT_THIS_ONE)
            close_spot(&search->spots[i]);
        if (found == THIS_ONE || found == GIVE_UP)
            return found;
    }
    return NOTHING_YET;
}

/* Try each spot that is not being tried, and wait until one is right or until_ns. */
static enum found look_around(struct search *search, uint64_t until_ns)
{
    struct pollfd fds[N_SPOTS];
    search->n_rounds++;
    for (uint32_t i = 0; i < search->n_spots; i++) {
        struct spot *spot = &search->spots[i];
        if (spot->fd >= 0 && mr_clock_now_ns() - spot->since_ns > SPOT_NS) {
            note(search, spot, ETIMEDOUT);
            close_spot(spot);
        }
        if (spot->fd < 0)
            open_spot(search, spot);
    }
    for (;;) {
        for (uint32_t i = 0; i < search->n_spots; i++) {
            const struct spot *spot = &search->spots[i];
            fds[i] = (struct pollfd){.fd = spot->fd, .events = spot->connected ? POLLIN : POLLOUT};
        }
        int left_ms = mr_store_search_ms_until(until_ns);
        if (left_ms == 0)
            return NOTHING_YET;
        poll(fds, search->n_spots, left_ms);
        enum found found = look_at_all(search, fds);
        if (found != NOTHING_YET)
            return found;
    }
}

static void close_spots(struct search *search, bool but_found)
{
    for (uint32_t i = 0; i < search->n_spots; i++)
        if (!but_found || i != search->found)
            close_spot(&search->spots[i]);
}

/* Names can come to mean something else while we look. */
static mr_status resolve(struct search *search)
{
    struct mr_store_addresses addresses;
    uint32_t n_ports = search->want->n_ports + 1u;
    memset(&addresses, 0, sizeof addresses);
    if (search->resolved_ns != 0 && mr_clock_now_ns() - search->resolved_ns < RESOLVE_NS)
        return MR_OK;
    mr_status status = mr_store_wire_resolve(search->want->host, search->want->deadline_ns, &addresses, &search->last);
    if (status != MR_OK)
        return status;
    search->resolved_ns = mr_clock_now_ns();
    if (search->n_spots > 0 && memcmp(&addresses, &search->addresses, sizeof addresses) == 0)
        return MR_OK;
    close_spots(search, false);
    search->addresses = addresses;
    search->n_spots = 0;
    for (uint32_t i = 0; i < n_ports * addresses.n && search->n_spots < N_SPOTS; i++) {
        uint32_t port = search->want->port + i / addresses.n;
        if (port > UINT16_MAX)
            break;
        struct spot *spot = &search->spots[search->n_spots++];
        *spot = (struct spot){.fd = -1, .address = addresses.at[i % addresses.n]};
        mr_store_wire_set_port(&spot->address, (uint16_t)port);
    }
    return MR_OK;
}

static mr_status out_of_time(const struct search *search, mr_error *error)
{
    const struct mr_store_connect *want = search->want;
    double seconds = (double)(mr_clock_now_ns() - search->begun_ns) / 1e9;
    char ports[32];
    snprintf(ports, sizeof ports, want->n_ports ? "ports %u to %u" : "port %u", want->port,
             (uint32_t)want->port + want->n_ports);
    return mr_error_set(error, MR_ERR_TIMEOUT, "no store at %s %s, tried %u times in %.1f s; the last answer: %.600s",
                        want->host, ports, search->n_rounds, seconds,
                        search->last.text[0] ? search->last.text : "none");
}

/* When the next round is: between half of pause_ms and all of it from now, so that not all ranks come at once. */
static uint64_t next_round(const struct search *search, uint32_t pause_ms)
{
    uint32_t mixed = (search->want->rank + 1) * 2654435761u + search->n_rounds * 40503u;
    uint64_t then_ns = mr_clock_now_ns() + (pause_ms / 2 + (mixed >> 8) % (pause_ms / 2 + 1)) * MS;
    return then_ns < search->want->deadline_ns ? then_ns : search->want->deadline_ns;
}

static mr_status find_store(struct search *search, mr_error *error)
{
    for (uint32_t pause_ms = FIRST_PAUSE_MS;;
         pause_ms = pause_ms * 3 / 2 < MAX_PAUSE_MS ? pause_ms * 3 / 2 : MAX_PAUSE_MS) {
        mr_status status = resolve(search);
        if (status != MR_OK && status != MR_ERR_IO && status != MR_ERR_TIMEOUT) {
            mr_error_copy(error, &search->last);
            return status;
        }
        enum found found = look_around(search, next_round(search, pause_ms));
        if (found == GIVE_UP) {
            mr_error_copy(error, &search->last);
            return MR_ERR_PEER;
        }
        if (found == THIS_ONE)
            return MR_OK;
        if (mr_clock_now_ns() >= search->want->deadline_ns)
            return out_of_time(search, error);
    }
}

/* Greet; on MR_OK the bytes after the verdict are in in_out. *lost_out: try again. */
static mr_status greet_store(const struct search *search, const struct spot *spot, struct mr_store_bytes *in_out,
                             bool *lost_out, mr_error *error)
{
    int fd = spot->fd;
    uint16_t port = mr_store_wire_port_of(&spot->address);
    const struct mr_store_connect *want = search->want;
    const struct mr_store_identity *identity = &want->identity;
    uint8_t greeting[MR_STORE_GREETING], proof[MR_STORE_PROOF];
    const uint8_t *hello = spot->in.at;
    struct mr_store_greeting ours = {.version = MR_STORE_VERSION,
                                     .world_size = identity->world_size,
                                     .run = identity->run,
                                     .restart = identity->restart,
                                     .rank = want->rank},
                             theirs = {0};
    struct mr_store_frame verdict;
    int rc = mr_store_wire_random(ours.nonce, sizeof ours.nonce), got = 0;
    mr_store_wire_write_greeting(&ours, greeting);
    mr_store_wire_prove(identity->token, 'C', hello, greeting, greeting + MR_STORE_HELLO);
    mr_store_wire_prove(identity->token, 'S', hello, greeting, proof);
    mr_store_wire_read_greeting(hello, MR_STORE_HELLO, &theirs);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "no random bytes");
    if (send(fd, greeting, sizeof greeting, MSG_NOSIGNAL) != (ssize_t)sizeof greeting)
        *lost_out = true;
    while (!*lost_out && (got = mr_store_wire_next(in_out, &verdict)) == 0) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int left_ms = mr_store_search_ms_until(want->deadline_ns);
        if (left_ms == 0)
            return mr_error_set(error, MR_ERR_TIMEOUT,
                                "the store at %s port %u said hello, and then nothing for %.1f s", want->host, port,
                                (double)(mr_clock_now_ns() - search->begun_ns) / 1e9);
        poll(&poll_fd, 1, left_ms);
        long n = mr_store_wire_recv(fd, in_out, 4096);
        *lost_out = n <= 0 && n != -EAGAIN && n != -EWOULDBLOCK;
    }
    if (*lost_out)
        return mr_error_set(error, MR_ERR_IO, "the store at %s closed the connection", want->host);
    if (got < 0 || verdict.kind != MR_STORE_VERDICT || !mr_store_wire_is_reply(&verdict))
        return mr_error_set(error, MR_ERR_PEER, "what answers at %s is not a store", want->host);
    if (verdict.code != MR_STORE_FINE) {
        struct mr_store_identity other = {
            .run = theirs.run, .restart = theirs.restart, .world_size = theirs.world_size};
        mr_error why;
        mr_store_wire_refuse(&ours, &other, verdict.code, &why);
        return mr_error_set(error, MR_ERR_PEER, "the store at %s port %u: %.600s", want->host, port, why.text);
    }
    if (!mr_store_wire_same(proof, verdict.value, MR_STORE_PROOF))
        return mr_error_set(error, MR_ERR_PEER, "the store at %s does not know the token", want->host);
    mr_store_wire_consume(in_out, mr_store_wire_size(&verdict));
    return MR_OK;
}

static mr_status find_and_greet(struct search *search, int *fd_out, struct mr_store_bytes *in_out, mr_error *error)
{
    for (;;) {
        bool lost = false;
        mr_status status = find_store(search, error);
        if (status != MR_OK)
            return status;
        struct spot *spot = &search->spots[search->found];
        close_spots(search, true); /* they may lead to the same server */
        status = greet_store(search, spot, in_out, &lost, error);
        if (status == MR_OK) {
            *fd_out = spot->fd;
            spot->fd = -1;
        }
        close_spot(spot);
        if (status == MR_OK)
            return MR_OK;
        mr_store_wire_free(in_out);
        if (!lost)
            return status;
        mr_error_copy(&search->last, error);
        mr_clock_sleep_ms(FIRST_PAUSE_MS);
    }
}

/* On MR_OK the connection is the caller's; in_out holds what came after the verdict. error is not NULL. */
static inline mr_status mr_store_search_run(const struct mr_store_connect *connect, int *fd_out,
                                            struct mr_store_bytes *in_out, mr_error *error)
{
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        return mr_error_memory(error, sizeof *search);
    search->want = connect;
    search->begun_ns = mr_clock_now_ns();
    mr_status status = find_and_greet(search, fd_out, in_out, error);
    close_spots(search, false);
    free(search);
    return status;
}

#endif
