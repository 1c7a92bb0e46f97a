/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on what peers can make the rendezvous store use: memory, connections, time.
 *
 * A server holds at most: MR_STORE_TOTAL of keys and values; for each rank one incoming frame,
 * MR_STORE_HIGH plus one value of outgoing bytes, and MR_STORE_WAITS gets; for each stranger (a
 * connection without an accepted greeting) one greeting.
 */
#ifndef DIST_RENDEZVOUS_STORE_LIMITS_H
#define DIST_RENDEZVOUS_STORE_LIMITS_H

#define MR_STORE_KEY 128           /* bytes, without a zero */
#define MR_STORE_VALUE (1u << 20)  /* bytes */
#define MR_STORE_TOTAL (64u << 20) /* bytes of all keys and values, with their headers */
#define MR_STORE_KEYS 65536u
#define MR_STORE_WAITS 256u /* waiting gets of one rank */
/* While so many bytes are queued for a rank, its requests wait. */
#define MR_STORE_HIGH (1u << 20)
#define MR_STORE_TOKEN 128    /* bytes, without a zero */
#define MR_STORE_WORLD 65536u /* ranks */
/* Connections without an accepted greeting, beyond one for each rank that is not yet connected. */
#define MR_STORE_STRANGERS 32u

#define MR_STORE_GREET_MS 5000u    /* a connection without a greeting is dropped after this */
#define MR_STORE_SILENCE_MS 10000u /* a rank is silent after this time without a beat */
#define MR_STORE_BEAT_MS 1000u
#define MR_STORE_GOODBYE_MS 1000u /* each end waits this long for its last bytes to be read */
#define MR_STORE_HELLO_MS 8000u   /* for a server to accept the connection and send its hello */

#endif
