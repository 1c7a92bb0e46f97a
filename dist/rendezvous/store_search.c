/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the store's server and greets it. All ports and addresses are tried at once, since a foreign server may stay
 * silent.
 *
 * Invariant: once the right server has been greeted, this rank does not leave before the deadline: leaving would look
 * like a rank that broke off.
 */
#include "dist/rendezvous/store_search.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dist/rendezvous/store_endpoint.h"

#define MS UINT64_C(1000000)
#define RESOLVE_NS (5000 * MS) /* then a name is looked up again */
#define FIRST_PAUSE_MS 20u
#define MAX_PAUSE_MS 1000u
#define N_ENDPOINTS 128

struct search {
    const struct mr_store_connect *want;
    struct mr_store_addresses addresses;
    uint64_t resolved_ns; /* 0: never, or not well */
    uint64_t begun_ns;
    uint32_t n_rounds;
    uint32_t n_endpoints;
    uint32_t found; /* the endpoint whose server is ours */
    mr_error last;  /* what the last failed try said */
    struct mr_store_endpoint endpoints[N_ENDPOINTS];
};

enum found { NOTHING_YET, THIS_ONE, NOT_THIS_ONE, GIVE_UP };

static void note_failure(struct search *search, const struct mr_store_endpoint *endpoint, int os_error)
{
    char name[64];
    mr_store_address_name(&endpoint->address, name, sizeof name);
    mr_error_os(&search->last, MR_ERR_IO, os_error, "%s port %u", name, mr_store_address_port(&endpoint->address));
}

/* A store, but perhaps not ours. With several ports to look at, or an older restart that is about to end, ours may
 * come. */
static enum found judge_hello(struct search *search, const struct mr_store_endpoint *endpoint,
                              const struct mr_store_greeting *theirs)
{
    const struct mr_store_identity *ours = &search->want->identity;
    uint16_t port = mr_store_address_port(&endpoint->address);
    char name[64];
    bool may_come = search->want->n_ports > 0;
    mr_store_address_name(&endpoint->address, name, sizeof name);
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

static enum found look_at(struct search *search, struct mr_store_endpoint *endpoint)
{
    struct mr_store_greeting theirs;
    int rc = mr_store_endpoint_hear(endpoint, &theirs);
    if (rc == 0)
        return judge_hello(search, endpoint, &theirs);
    if (rc == EAGAIN)
        return NOTHING_YET;
    note_failure(search, endpoint, rc);
    return NOT_THIS_ONE;
}

static enum found look_at_all(struct search *search, const struct pollfd *fds)
{
    for (uint32_t i = 0; i < search->n_endpoints; i++) {
        if (fds[i].fd < 0 || fds[i].revents == 0)
            continue;
        enum found found = look_at(search, &search->endpoints[i]);
        if (found == THIS_ONE)
            search->found = i;
        if (found == NOT_THIS_ONE)
            mr_store_endpoint_close(&search->endpoints[i]);
        if (found == THIS_ONE || found == GIVE_UP)
            return found;
    }
    return NOTHING_YET;
}

/* Try each endpoint that is not being tried, and wait until one is right or until_ns. */
static enum found look_around(struct search *search, uint64_t until_ns)
{
    struct pollfd fds[N_ENDPOINTS];
    search->n_rounds++;
    for (uint32_t i = 0; i < search->n_endpoints; i++) {
        struct mr_store_endpoint *endpoint = &search->endpoints[i];
        if (endpoint->fd >= 0 && mr_clock_now_ns() - endpoint->since_ns > MR_STORE_ENDPOINT_MS * MS) {
            note_failure(search, endpoint, ETIMEDOUT);
            mr_store_endpoint_close(endpoint);
        }
        int rc = endpoint->fd < 0 ? mr_store_endpoint_open(endpoint) : 0;
        if (rc != 0)
            note_failure(search, endpoint, rc);
    }
    for (;;) {
        for (uint32_t i = 0; i < search->n_endpoints; i++) {
            const struct mr_store_endpoint *endpoint = &search->endpoints[i];
            fds[i] = (struct pollfd){.fd = endpoint->fd, .events = mr_store_endpoint_events(endpoint)};
        }
        if (mr_clock_now_ns() >= until_ns)
            return NOTHING_YET;
        mr_store_endpoint_poll(fds, search->n_endpoints, until_ns);
        enum found found = look_at_all(search, fds);
        if (found != NOTHING_YET)
            return found;
    }
}

static void close_endpoints(struct search *search, bool but_found)
{
    for (uint32_t i = 0; i < search->n_endpoints; i++)
        if (!but_found || i != search->found)
            mr_store_endpoint_close(&search->endpoints[i]);
}

/* Names can come to mean something else while we look. */
static mr_status resolve_host(struct search *search)
{
    struct mr_store_addresses addresses;
    uint32_t n_ports = search->want->n_ports + 1u;
    memset(&addresses, 0, sizeof addresses);
    if (search->resolved_ns != 0 && mr_clock_now_ns() - search->resolved_ns < RESOLVE_NS)
        return MR_OK;
    mr_status status = mr_store_address_resolve(search->want->host, search->want->resolver, search->want->deadline_ns,
                                                &addresses, &search->last);
    if (status != MR_OK)
        return status;
    search->resolved_ns = mr_clock_now_ns();
    if (search->n_endpoints > 0 && memcmp(&addresses, &search->addresses, sizeof addresses) == 0)
        return MR_OK;
    close_endpoints(search, false);
    search->addresses = addresses;
    search->n_endpoints = 0;
    for (uint32_t i = 0; i < n_ports * addresses.n && search->n_endpoints < N_ENDPOINTS; i++) {
        uint32_t port = search->want->port + i / addresses.n;
        if (port > UINT16_MAX)
            break;
        struct mr_store_endpoint *endpoint = &search->endpoints[search->n_endpoints++];
        *endpoint = (struct mr_store_endpoint){.fd = -1, .address = addresses.at[i % addresses.n]};
        mr_store_address_set_port(&endpoint->address, (uint16_t)port);
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
        mr_status status = resolve_host(search);
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

/* The verdict, as the first frame of in_out. *lost_out: the connection has ended. */
static mr_status await_verdict(const struct search *search, int fd, struct mr_store_bytes *in_out, bool *lost_out,
                               struct mr_store_frame *verdict_out, mr_error *error)
{
    const struct mr_store_connect *want = search->want;
    int got;
    while ((got = mr_store_wire_next(in_out, verdict_out)) == 0 && !*lost_out) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        if (mr_clock_now_ns() >= want->deadline_ns)
            return mr_error_set(error, MR_ERR_TIMEOUT,
                                "the store at %s port %u said hello, and then nothing for %.1f s", want->host,
                                mr_store_address_port(&search->endpoints[search->found].address),
                                (double)(mr_clock_now_ns() - search->begun_ns) / 1e9);
        mr_store_endpoint_poll(&at, 1, want->deadline_ns);
        long n = mr_store_wire_recv(fd, in_out, 4096);
        *lost_out = n <= 0 && n != -EAGAIN && n != -EWOULDBLOCK;
    }
    if (got == 0)
        return mr_error_set(error, MR_ERR_IO, "the store at %s closed the connection", want->host);
    if (got < 0 || verdict_out->kind != MR_STORE_VERDICT || !mr_store_wire_is_reply(verdict_out))
        return mr_error_set(error, MR_ERR_PEER, "what answers at %s is not a store", want->host);
    return MR_OK;
}

/* Greet; on MR_OK the bytes after the verdict are in in_out. *lost_out: try again. */
static mr_status greet_store(const struct search *search, const struct mr_store_endpoint *endpoint,
                             struct mr_store_bytes *in_out, bool *lost_out, mr_error *error)
{
    const struct mr_store_connect *want = search->want;
    const struct mr_store_identity *identity = &want->identity;
    uint8_t greeting[MR_STORE_GREETING];
    struct mr_store_greeting ours = {.version = MR_STORE_VERSION,
                                     .world_size = identity->world_size,
                                     .run = identity->run,
                                     .restart = identity->restart,
                                     .rank = want->rank},
                             theirs = {0};
    struct mr_store_frame verdict;
    mr_store_greeting_read(endpoint->in.at, MR_STORE_HELLO, &theirs);
    mr_store_greeting_write(&ours, greeting);
    mr_status status = mr_store_greeting_token(identity->token, greeting + MR_STORE_HELLO, error);
    if (status != MR_OK)
        return status;
    *lost_out = send(endpoint->fd, greeting, sizeof greeting, MSG_NOSIGNAL) != (ssize_t)sizeof greeting;
    status = await_verdict(search, endpoint->fd, in_out, lost_out, &verdict, error);
    if (status != MR_OK)
        return status;
    *lost_out = false;
    if (verdict.code != MR_STORE_FINE) {
        struct mr_store_identity other = {
            .run = theirs.run, .restart = theirs.restart, .world_size = theirs.world_size};
        mr_error why;
        mr_store_greeting_refuse(&ours, &other, verdict.code, &why);
        return mr_error_set(error, MR_ERR_PEER, "the store at %s port %u: %.600s", want->host,
                            mr_store_address_port(&endpoint->address), why.text);
    }
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
        struct mr_store_endpoint *endpoint = &search->endpoints[search->found];
        close_endpoints(search, true); /* they may lead to the same server */
        status = greet_store(search, endpoint, in_out, &lost, error);
        if (status == MR_OK) {
            *fd_out = endpoint->fd;
            endpoint->fd = -1;
        }
        mr_store_endpoint_close(endpoint);
        if (status == MR_OK)
            return MR_OK;
        mr_store_wire_free(in_out);
        if (!lost)
            return status;
        mr_error_copy(&search->last, error);
        mr_clock_sleep_ms(FIRST_PAUSE_MS);
    }
}

mr_status mr_store_search_run(const struct mr_store_connect *connect, int *fd_out, struct mr_store_bytes *in_out,
                              mr_error *error)
{
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        return mr_error_memory(error, sizeof *search);
    search->want = connect;
    search->begun_ns = mr_clock_now_ns();
    mr_status status = find_and_greet(search, fd_out, in_out, error);
    close_endpoints(search, false);
    free(search);
    return status;
}
