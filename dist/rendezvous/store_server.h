/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the rendezvous store: small, over TCP, in rank 0's process. Keys and values are
 * bounded; a get waits until the key is there or the deadline. Every client sends a beat once a
 * second; a rank whose connection breaks or that falls silent is reported to all others.
 */
#ifndef DIST_RENDEZVOUS_STORE_SERVER_H
#define DIST_RENDEZVOUS_STORE_SERVER_H

#include "dist/rendezvous/store_greeting.h"

struct mr_store; /* the server, with a thread of its own */

/* address: the one to bind, numeric; port 0: any. MR_ERR_IO names both. */
mr_status mr_store_start(const char *address, uint16_t port,
                         const struct mr_store_identity *identity, struct mr_store **store_out,
                         mr_error *error);
uint16_t mr_store_port(const struct mr_store *store);
/*
 * Which ranks have greeted so far: bit r of bytes[r / 8]; at most world_size bits. Returns how
 * many.
 */
uint32_t mr_store_present(struct mr_store *store, uint8_t *bytes_out);
/* How many ranks are connected now. */
uint32_t mr_store_connected(const struct mr_store *store);
/*
 * The last greeting that was refused, and why: "rank 2 was refused: its world size is 3"; false if
 * none was.
 */
bool mr_store_refused(struct mr_store *store, mr_error *error_out);
/*
 * Says goodbye to all, so that no client reports rank 0 as broken. NULL does nothing. Blocks: for a
 * second at most.
 */
void mr_store_stop(struct mr_store *store);

#endif
