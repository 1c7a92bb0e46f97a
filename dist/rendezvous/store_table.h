/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys and values of the store's server, and the gets that wait; the only user is the server's
 * thread.
 */
#ifndef DIST_RENDEZVOUS_STORE_TABLE_H
#define DIST_RENDEZVOUS_STORE_TABLE_H

#include "dist/rendezvous/store_peer.h"

struct mr_store_wait;

/* All zero is empty. */
struct mr_store_table {
    void *root;   /* of search.h's tree of pairs */
    size_t total; /* bytes of all entries, with what describes them */
    uint32_t n_keys;
    bool is_broken;
    struct mr_store_wait *waits;
};

void mr_store_table_fini(struct mr_store_table *table);
/* Do what a peer asks for. A frame that is not a request dooms the peer. */
void mr_store_table_request(struct mr_store_table *table, struct mr_store_peer *peer,
                            const struct mr_store_frame *frame);
/* The peer has room again: answer those of its waits whose key is there. */
void mr_store_table_serve(struct mr_store_table *table, const struct mr_store_peer *peer);
/* A rank broke off: gets that wait, and later gets of a missing key, are answered with that. */
void mr_store_table_break(struct mr_store_table *table);
/* Drop the waits of a peer that goes. */
void mr_store_table_forget(struct mr_store_table *table, const struct mr_store_peer *peer);

#endif
