/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous store: one small TCP server in rank 0's process, one client in every rank. Keys and values are
 * bounded; a get waits until the key is there or the deadline. Every client beats once a second; a rank whose
 * connection breaks or that falls silent is told to all others.
 */
#ifndef DIST_RENDEZVOUS_RANK_STORE_H
#define DIST_RENDEZVOUS_RANK_STORE_H

#include "base/error.h"
#include "dist/rendezvous/store_address.h"
#include "dist/rendezvous/store_limits.h"

/* What both ends must agree on before anything else; sent in the greeting. */
struct mr_store_identity {
    uint64_t run;
    uint32_t restart;
    uint32_t world_size;
    const char *token;   /* NULL: none; goes over the connection as it is, and is compared in constant time */
    uint32_t silence_ms; /* 0: MR_STORE_SILENCE_MS; of this end alone, as the next */
    uint32_t greet_ms;   /* 0: MR_STORE_GREET_MS */
};

struct mr_store; /* the server, with a thread of its own */

/* host: the address to bind, never all interfaces by itself; port 0: any. MR_ERR_IO names both. */
mr_status mr_store_start(const char *host, uint16_t port, const struct mr_store_identity *identity,
                         struct mr_store **store_out, mr_error *error);
uint16_t mr_store_port(const struct mr_store *store);
/* Which ranks have greeted so far: bit r of bytes[r / 8]; at most world_size bits. Returns how many. */
uint32_t mr_store_present(struct mr_store *store, uint8_t *bytes_out);
/* The last one who greeted and was refused, and why: "rank 2 was refused: its world size is 3"; false if none was. */
bool mr_store_refused(struct mr_store *store, mr_error *error_out);
/* Says goodbye to all, so that no client calls rank 0 broken. NULL does nothing. Blocks: for a second at most. */
void mr_store_stop(struct mr_store *store);

struct mr_store_client;

struct mr_store_connect {
    const char *host;
    uint16_t port;
    uint16_t n_ports; /* further ports to try above it (torchrun's agent has the first); 0: only that one */
    uint32_t rank;
    struct mr_store_identity identity;
    uint64_t deadline_ns;        /* by base/clock */
    mr_store_resolver *resolver; /* NULL: getaddrinfo */
};

/*
 * Connect and greet, again and again until the deadline. MR_ERR_TIMEOUT says whom, how often and for how long;
 * MR_ERR_PEER when a store answered and refused: another run, world size, token, or a rank that is there already.
 */
mr_status mr_store_connect(const struct mr_store_connect *connect, struct mr_store_client **client_out,
                           mr_error *error);
/* Says goodbye, so that nobody calls this rank broken. NULL does nothing. Blocks: for a second at most. */
void mr_store_close(struct mr_store_client *client);
/* This end's address of the connection, numeric: the interface by which other machines reach this one. */
const char *mr_store_local_address(const struct mr_store_client *client);

/* Threads: any; calls of one client take turns, but a waiting get lets others through. */
mr_status mr_store_set(struct mr_store_client *client, const char *key, const void *value, uint32_t len,
                       mr_error *error);
/* MR_ERR_TIMEOUT names the key; MR_ERR_PEER when meanwhile a rank broke (see mr_store_broken). */
mr_status mr_store_get(struct mr_store_client *client, const char *key, void *value_out, uint32_t size,
                       uint32_t *len_out, uint64_t deadline_ns, mr_error *error);
mr_status mr_store_add(struct mr_store_client *client, const char *key, int64_t delta, int64_t *value_out,
                       mr_error *error);
/* The same, and MR_ERR_TIMEOUT when there is no answer by then; whether it was added is not known. */
mr_status mr_store_add_until(struct mr_store_client *client, const char *key, int64_t delta, int64_t *value_out,
                             uint64_t deadline_ns, mr_error *error);
mr_status mr_store_remove(struct mr_store_client *client, const char *key, mr_error *error);

/*
 * The first rank that broke or fell silent, and how; the words then list all others that are known to have done so.
 * False when all are well. Never blocks.
 */
bool mr_store_broken(struct mr_store_client *client, uint32_t *rank_out, mr_error *error_out);
/* The same of these n ranks alone, in any order: a rank that is none of them does not count. */
bool mr_store_broken_of(struct mr_store_client *client, const uint32_t *ranks, uint32_t n, uint32_t *rank_out,
                        mr_error *error_out);

#endif
