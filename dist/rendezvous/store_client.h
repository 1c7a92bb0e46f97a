/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's connection to the rendezvous store. */
#ifndef DIST_RENDEZVOUS_STORE_CLIENT_H
#define DIST_RENDEZVOUS_STORE_CLIENT_H

#include "dist/rendezvous/store_search.h"

struct mr_store_client;

/*
 * Connect and greet; retries until the deadline. MR_ERR_TIMEOUT names the address, the number of
 * tries and the time. MR_ERR_PEER: a store answered and refused, because run, world size or token
 * differ, or the rank is already connected.
 */
mr_status mr_store_connect(const struct mr_store_connect *connect,
                           struct mr_store_client **client_out, mr_error *error);
/*
 * Says goodbye, so that this rank is not reported as broken. NULL does nothing. Blocks for at most
 * a second.
 */
void mr_store_close(struct mr_store_client *client);
/*
 * This rank's numeric address on the connection. It belongs to the interface by which other
 * machines can reach this one.
 */
const char *mr_store_local_address(const struct mr_store_client *client);

/* Threads: any. Calls on one client take turns, but a waiting get does not delay other calls. */
mr_status mr_store_set(struct mr_store_client *client, const char *key, const void *value,
                       uint32_t len, mr_error *error);
/*
 * MR_ERR_TIMEOUT names the key; MR_ERR_PEER if a rank broke while it waited (see mr_store_broken).
 */
mr_status mr_store_get(struct mr_store_client *client, const char *key, void *value_out,
                       uint32_t size, uint32_t *len_out, uint64_t deadline_ns, mr_error *error);
mr_status mr_store_add(struct mr_store_client *client, const char *key, int64_t delta,
                       int64_t *value_out, mr_error *error);
/* As mr_store_add(), with a deadline. On MR_ERR_TIMEOUT it is unknown whether delta was added. */
mr_status mr_store_add_until(struct mr_store_client *client, const char *key, int64_t delta,
                             int64_t *value_out, uint64_t deadline_ns, mr_error *error);
mr_status mr_store_remove(struct mr_store_client *client, const char *key, mr_error *error);

/*
 * The first rank that broke or fell silent, and how. The text lists all further ones that are
 * known. False if there is none. Never blocks.
 */
bool mr_store_broken(struct mr_store_client *client, uint32_t *rank_out, mr_error *error_out);
/* The same for these n ranks only, in any order. Other ranks do not count. */
bool mr_store_broken_of(struct mr_store_client *client, const uint32_t *ranks, uint32_t n,
                        uint32_t *rank_out, mr_error *error_out);

#endif
