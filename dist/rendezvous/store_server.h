/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the rendezvous store: a small TCP server in rank 0's process. Keys and values are
 * bounded. A get waits until the key exists or its deadline passes. Every client sends a beat once
 * a second. If a rank's connection breaks, or a rank falls silent, the server reports it to all
 * other ranks.
 */
#ifndef DIST_RENDEZVOUS_STORE_SERVER_H
#define DIST_RENDEZVOUS_STORE_SERVER_H

#include "dist/rendezvous/store_greeting.h"

struct mr_store; /* the server and its thread */

/* address: numeric, the one to bind. port 0: any. MR_ERR_IO names both. */
mr_status mr_store_start(const char *address, uint16_t port,
                         const struct mr_store_identity *identity, struct mr_store **store_out,
                         mr_error *error);
uint16_t mr_store_port(const struct mr_store *store);
/*
 * The ranks that have greeted so far: bit r % 8 of bytes_out[r / 8] for rank r; room for world_size
 * bits. Returns their number.
 */
uint32_t mr_store_present(struct mr_store *store, uint8_t *bytes_out);
/* The number of ranks that are connected now. */
uint32_t mr_store_connected(const struct mr_store *store);
/*
 * The last refused greeting, and why: "rank 2 was refused: its world size is 3, not 4". False if
 * none was refused.
 */
bool mr_store_refused(struct mr_store *store, mr_error *error_out);
/*
 * Says goodbye to all clients, so that none reports rank 0 as broken. NULL does nothing. Blocks for
 * at most a second.
 */
void mr_store_stop(struct mr_store *store);

#endif
