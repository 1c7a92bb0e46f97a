/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys and values of the store's server, and the waiting gets. Only the server's thread uses
 * it.
 */
#ifndef DIST_RENDEZVOUS_STORE_TABLE_H
#define DIST_RENDEZVOUS_STORE_TABLE_H

#include "dist/rendezvous/store_peer.h"

struct mr_store_wait;

/* All zero: empty. */
struct mr_store_table {
    void *root;   /* the tree of pairs, by search.h */
    size_t total; /* bytes of all entries, with their headers */
    uint32_t n_keys;
    bool is_broken;
    struct mr_store_wait *waits;
};

void mr_store_table_fini(struct mr_store_table *table);
/* Handle a request. A frame that is not a request dooms the peer. */
void mr_store_table_request(struct mr_store_table *table, struct mr_store_peer *peer,
                            const struct mr_store_frame *frame);
/* The peer's queue has room again: answer its waiting gets whose key exists. */
void mr_store_table_serve(struct mr_store_table *table, const struct mr_store_peer *peer);
/* A rank broke: answer waiting gets, and later gets of a missing key, with MR_STORE_PEER_BROKEN. */
void mr_store_table_break(struct mr_store_table *table);
/* Drop the waits of a peer that is being removed. */
void mr_store_table_forget(struct mr_store_table *table, const struct mr_store_peer *peer);

#endif
