/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that bounds what others can make the rendezvous store do: memory, connections, time.
 *
 * A server holds at most: MR_STORE_TOTAL of keys and values; for each rank one incoming frame,
 * MR_STORE_HIGH and one more value going out, and MR_STORE_WAITS gets; for each stranger a
 * greeting.
 */
#ifndef DIST_RENDEZVOUS_STORE_LIMITS_H
#define DIST_RENDEZVOUS_STORE_LIMITS_H

#define MR_STORE_KEY 128           /* bytes, without a zero */
#define MR_STORE_VALUE (1u << 20)  /* bytes */
#define MR_STORE_TOTAL (64u << 20) /* bytes of all keys and values, with what describes them */
#define MR_STORE_KEYS 65536u
#define MR_STORE_WAITS 256u /* gets of one rank that wait for their key */
#define MR_STORE_HIGH                                                                              \
    (1u << 20)             /* while so many bytes wait to go out to a rank, its requests wait too */
#define MR_STORE_TOKEN 128 /* bytes, without a zero */
#define MR_STORE_WORLD 65536u /* ranks */
#define MR_STORE_STRANGERS                                                                         \
    32u /* connections without a greeting, beyond the ranks that are still to come */

#define MR_STORE_GREET_MS 5000u    /* a connection without a greeting is dropped by then */
#define MR_STORE_SILENCE_MS 10000u /* after so long without a beat a rank counts as silent */
#define MR_STORE_BEAT_MS 1000u
#define MR_STORE_GOODBYE_MS 1000u /* one end waits so long for the other to read its last bytes */
#define MR_STORE_HELLO_MS 8000u   /* for a server to take the connection and say hello */

#endif
