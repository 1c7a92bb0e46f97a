/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the two ends of a store's connection begin, and the words for a refusal or an end.
 *
 * A hello and the first MR_STORE_HELLO bytes of a greeting have one form, which no version may
 * change: so each end can read the other's version. The token follows, padded with zeros. It goes
 * over the network in the clear: it keeps out processes that do not have it, by mistake or by
 * intent, but not those that can listen.
 */
#ifndef DIST_RENDEZVOUS_STORE_GREETING_H
#define DIST_RENDEZVOUS_STORE_GREETING_H

#include "base/error.h"
#include "dist/rendezvous/store_wire.h"

#define MR_STORE_VERSION 3u
#define MR_STORE_HELLO                                                                             \
    32u /* magic 8, version 4, world size 4, run 8, restart 4, rank or process 4 */
#define MR_STORE_GREETING (MR_STORE_HELLO + MR_STORE_TOKEN)

/* What both ends must agree on before anything else; sent in the greeting. */
struct mr_store_identity {
    uint64_t run;
    uint32_t restart;
    uint32_t world_size;
    const char *token;   /* NULL: none; goes over the connection as it is, and is compared in
                            constant time */
    uint32_t silence_ms; /* 0: MR_STORE_SILENCE_MS; of this end alone, as the next */
    uint32_t greet_ms;   /* 0: MR_STORE_GREET_MS */
};

struct mr_store_greeting {
    uint32_t version;
    uint32_t world_size;
    uint64_t run;
    uint32_t restart;
    uint32_t rank; /* of a client; in a hello the process id of the server */
};

void mr_store_greeting_write(const struct mr_store_greeting *greeting,
                             uint8_t bytes_out[MR_STORE_HELLO]);
/*
 * False unless the bytes begin as a store's do. With less than MR_STORE_HELLO of them *greeting_out
 * stays.
 */
bool mr_store_greeting_read(const uint8_t *bytes, size_t len,
                            struct mr_store_greeting *greeting_out);

/* MR_ERR_INVALID when it is longer than MR_STORE_TOKEN. NULL is none, as "". */
mr_status mr_store_greeting_token(const char *token, uint8_t bytes_out[MR_STORE_TOKEN],
                                  mr_error *error);
/* In a time that does not depend on where they differ. */
bool mr_store_greeting_same(const uint8_t a[MR_STORE_TOKEN], const uint8_t b[MR_STORE_TOKEN]);

/* Why theirs was refused by ours, as a line. code: a verdict. */
void mr_store_greeting_refuse(const struct mr_store_greeting *theirs,
                              const struct mr_store_identity *ours, uint8_t code,
                              mr_error *error_out);
/* How a rank broke, as a line. */
void mr_store_greeting_tell(uint32_t rank, uint8_t how, uint32_t silence_ms, mr_error *error_out);

#endif
