/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a store's connection: the server's hello, the client's greeting, and texts for a
 * refusal or an end.
 *
 * A hello and the first MR_STORE_HELLO bytes of a greeting have one form that no version may
 * change, so each end can read the other's version. In the greeting the token follows, padded with
 * zeros. It is sent unencrypted: it keeps out processes that do not have it, but not those that can
 * read the network.
 */
#ifndef DIST_RENDEZVOUS_STORE_GREETING_H
#define DIST_RENDEZVOUS_STORE_GREETING_H

#include "base/error.h"
#include "dist/rendezvous/store_wire.h"

#define MR_STORE_VERSION 3u
/* Bytes: magic 8, version 4, world size 4, run 8, restart 4, rank or process 4. */
#define MR_STORE_HELLO 32u
#define MR_STORE_GREETING (MR_STORE_HELLO + MR_STORE_TOKEN)

/* What both ends must agree on; sent in the greeting. */
struct mr_store_identity {
    uint64_t run;
    uint32_t restart;
    uint32_t world_size;
    const char *token;   /* NULL: none; sent unencrypted, compared in constant time */
    uint32_t silence_ms; /* 0: MR_STORE_SILENCE_MS; local to this end, as the next field */
    uint32_t greet_ms;   /* 0: MR_STORE_GREET_MS */
};

struct mr_store_greeting {
    uint32_t version;
    uint32_t world_size;
    uint64_t run;
    uint32_t restart;
    uint32_t rank; /* the client's; in a hello, the server's process id */
};

void mr_store_greeting_write(const struct mr_store_greeting *greeting,
                             uint8_t bytes_out[MR_STORE_HELLO]);
/*
 * False unless the bytes begin with a store's magic. *greeting_out is not written if there are
 * fewer than MR_STORE_HELLO bytes.
 */
bool mr_store_greeting_read(const uint8_t *bytes, size_t len,
                            struct mr_store_greeting *greeting_out);

/* MR_ERR_INVALID if it is longer than MR_STORE_TOKEN. NULL and "" both mean none. */
mr_status mr_store_greeting_token(const char *token, uint8_t bytes_out[MR_STORE_TOKEN],
                                  mr_error *error);
/* Compares in constant time. */
bool mr_store_greeting_same(const uint8_t a[MR_STORE_TOKEN], const uint8_t b[MR_STORE_TOKEN]);

/* Writes why ours refused theirs. code: a verdict. */
void mr_store_greeting_refuse(const struct mr_store_greeting *theirs,
                              const struct mr_store_identity *ours, uint8_t code,
                              mr_error *error_out);
/* Writes how a rank broke. */
void mr_store_greeting_tell(uint32_t rank, uint8_t how, uint32_t silence_ms, mr_error *error_out);

#endif
