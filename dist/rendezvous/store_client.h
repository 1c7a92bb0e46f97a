/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's end of the rendezvous store. */
#ifndef DIST_RENDEZVOUS_STORE_CLIENT_H
#define DIST_RENDEZVOUS_STORE_CLIENT_H

#include "dist/rendezvous/store_search.h"

struct mr_store_client;

/*
 * Connect and greet, again and again until the deadline. MR_ERR_TIMEOUT says whom, how often and
 * for how long; MR_ERR_PEER when a store answered and refused: another run, world size, token, or a
 * rank that is there already.
 */
mr_status mr_store_connect(const struct mr_store_connect *connect,
                           struct mr_store_client **client_out, mr_error *error);
/*
 * Says goodbye, so that this rank is not reported as broken. NULL does nothing. Blocks: for a
 * second at most.
 */
void mr_store_close(struct mr_store_client *client);
/*
 * This end's address of the connection, numeric: the interface by which other machines reach this
 * one.
 */
const char *mr_store_local_address(const struct mr_store_client *client);

/* Threads: any; calls of one client take turns, but a waiting get lets others through. */
mr_status mr_store_set(struct mr_store_client *client, const char *key, const void *value,
                       uint32_t len, mr_error *error);
/* MR_ERR_TIMEOUT names the key; MR_ERR_PEER when meanwhile a rank broke (see mr_store_broken). */
mr_status mr_store_get(struct mr_store_client *client, const char *key, void *value_out,
                       uint32_t size, uint32_t *len_out, uint64_t deadline_ns, mr_error *error);
mr_status mr_store_add(struct mr_store_client *client, const char *key, int64_t delta,
                       int64_t *value_out, mr_error *error);
/*
 * The same, and MR_ERR_TIMEOUT when there is no answer by then; whether it was added is not known.
 */
mr_status mr_store_add_until(struct mr_store_client *client, const char *key, int64_t delta,
                             int64_t *value_out, uint64_t deadline_ns, mr_error *error);
mr_status mr_store_remove(struct mr_store_client *client, const char *key, mr_error *error);

/*
 * The first rank that broke or fell silent, and how; the words then list all others that are known
 * to have done so. False when all are well. Never blocks.
 */
bool mr_store_broken(struct mr_store_client *client, uint32_t *rank_out, mr_error *error_out);
/* The same of these n ranks alone, in any order: a rank that is none of them does not count. */
bool mr_store_broken_of(struct mr_store_client *client, const uint32_t *ranks, uint32_t n,
                        uint32_t *rank_out, mr_error *error_out);

#endif
