/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over a connection of the rendezvous store. All numbers are little-endian.
 *
 * The server speaks first: a hello says whose store it is, so that a client never shows anything to a foreign one. The
 * client's greeting and the server's verdict prove the token to each other by a keyed hash (SipHash-2-4, 128 bits) over
 * both; the token itself never leaves the process. After that there are only frames: 16 bytes of head, key, value.
 */
#ifndef COMM_STORE_WIRE_H
#define COMM_STORE_WIRE_H

#include <sys/socket.h>

#include "comm/rank_store.h"

#define MR_STORE_VERSION 1u
#define MR_STORE_HEAD 16u /* bytes of a frame before its key: length 4, kind 1, code 1, length of the key 2, id 8 */
#define MR_STORE_BODY (MR_STORE_KEY + MR_STORE_VALUE)
#define MR_STORE_NONCE 16u
#define MR_STORE_PROOF 16u
#define MR_STORE_HELLO 48u /* magic 8, version 4, world size 4, run 8, restart 4, rank 4, nonce 16 */
#define MR_STORE_GREETING (MR_STORE_HELLO + MR_STORE_PROOF)

enum mr_store_kind {
    MR_STORE_SET = 1, /* from the client */
    MR_STORE_GET,
    MR_STORE_ADD, /* value: 8 bytes, added to what is there */
    MR_STORE_REMOVE,
    MR_STORE_CANCEL,  /* the get of this id is no longer wanted */
    MR_STORE_BEAT,    /* both ways */
    MR_STORE_BYE,     /* both ways: what ends now does not break */
    MR_STORE_VERDICT, /* from the server: value is its proof */
    MR_STORE_ANSWER,  /* to the request of this id */
    MR_STORE_BROKEN   /* value: 4 bytes of rank; code says how */
};

enum mr_store_code {
    MR_STORE_FINE = 0,
    /* Verdicts. */
    MR_STORE_OTHER_VERSION,
    MR_STORE_OTHER_RUN,
    MR_STORE_OTHER_RESTART,
    MR_STORE_OTHER_TOKEN,
    MR_STORE_OTHER_WORLD,
    MR_STORE_NO_SUCH_RANK,
    MR_STORE_RANK_TAKEN,
    /* Answers. */
    MR_STORE_FULL,
    MR_STORE_NO_NUMBER,   /* add to a value that is not 8 bytes, or past the ends of 64 bits */
    MR_STORE_PEER_BROKEN, /* the key is not there, and a rank has broken off */
    MR_STORE_TOO_MANY,    /* gets that wait */
    /* How a rank broke. */
    MR_STORE_LOST,
    MR_STORE_SILENT,
    MR_STORE_NONSENSE,
    MR_STORE_DEAF
};

/* A queue of bytes; what is in it is at[start] to at[start + len - 1]. All zero is empty. */
struct mr_store_bytes {
    uint8_t *at;
    size_t start;
    size_t len;
    size_t size;
};

/* Make room for more bytes behind those that are there. NULL without memory; the queue is then as before. */
uint8_t *mr_store_wire_reserve(struct mr_store_bytes *bytes, size_t more);
bool mr_store_wire_append(struct mr_store_bytes *bytes, const void *from, size_t len);
/* The first len bytes are done with. An empty queue gives a large block back. */
void mr_store_wire_consume(struct mr_store_bytes *bytes, size_t len);
void mr_store_wire_free(struct mr_store_bytes *bytes);
/* One recv() of at most limit bytes: how many, 0 at the end, or -errno. */
long mr_store_wire_recv(int fd, struct mr_store_bytes *bytes, size_t limit);
/* Send until empty or the socket is full: how many bytes went, or -errno (never -EAGAIN). Never raises SIGPIPE. */
long mr_store_wire_send(int fd, struct mr_store_bytes *bytes);

/* key and value point into the queue and hold until it changes. */
struct mr_store_frame {
    uint8_t kind;
    uint8_t code;
    uint16_t key_len;
    uint32_t value_len;
    uint64_t id;
    const uint8_t *key;
    const uint8_t *value;
};

/* The first frame of the queue: 1, 0 when bytes are missing, -1 for nonsense: no such kind, or a length past a limit.
 */
int mr_store_wire_next(const struct mr_store_bytes *bytes, struct mr_store_frame *frame_out);
size_t mr_store_wire_size(const struct mr_store_frame *frame);
bool mr_store_wire_put(struct mr_store_bytes *bytes, const struct mr_store_frame *frame);
/* May a client send this? May a server? */
bool mr_store_wire_is_request(const struct mr_store_frame *frame);
bool mr_store_wire_is_reply(const struct mr_store_frame *frame);

struct mr_store_greeting {
    uint32_t version;
    uint32_t world_size;
    uint64_t run;
    uint32_t restart;
    uint32_t rank;
    uint8_t nonce[MR_STORE_NONCE];
};

/* A greeting without its proof, or a hello (its rank is 0), of MR_STORE_HELLO bytes. */
void mr_store_wire_write_greeting(const struct mr_store_greeting *greeting, uint8_t *bytes_out);
/* False unless the bytes begin as a store's do. len may be less than MR_STORE_HELLO: then only as many are looked at.
 */
bool mr_store_wire_read_greeting(const uint8_t *bytes, size_t len, struct mr_store_greeting *greeting_out);
/* What one end shows the other. side: 'C' or 'S'. hello and greeting: MR_STORE_HELLO bytes each. */
void mr_store_wire_prove(const char *token, char side, const uint8_t *hello, const uint8_t *greeting,
                         uint8_t proof_out[MR_STORE_PROOF]);
/* In a time that does not depend on where they differ. */
bool mr_store_wire_same(const uint8_t *a, const uint8_t *b, size_t len);
void mr_store_wire_hash(const uint8_t key[16], const void *bytes, size_t len, uint8_t hash_out[16]);
int mr_store_wire_random(void *bytes_out, size_t len);

/* Why theirs was refused by ours, as a line. code: a verdict. */
void mr_store_wire_refuse(const struct mr_store_greeting *theirs, const struct mr_store_identity *ours, uint8_t code,
                          mr_error *error_out);
/* How a rank broke, as a line. */
void mr_store_wire_tell(uint32_t rank, uint8_t how, uint32_t silence_ms, mr_error *error_out);

uint32_t mr_store_wire_u32(const uint8_t *bytes);
uint64_t mr_store_wire_u64(const uint8_t *bytes);
void mr_store_wire_put_u32(uint8_t *bytes, uint32_t value);
void mr_store_wire_put_u64(uint8_t *bytes, uint64_t value);

#define MR_STORE_ADDRESSES 8

struct mr_store_addresses {
    uint32_t n;
    struct sockaddr_storage at[MR_STORE_ADDRESSES];
    socklen_t len[MR_STORE_ADDRESSES];
};

/*
 * The addresses of a host. A name is looked up by a thread of its own, which is left behind when the resolver takes
 * longer than the deadline. MR_ERR_TIMEOUT; MR_ERR_IO: no such host (it may come); MR_ERR_INVALID: no name at all.
 */
mr_status mr_store_wire_resolve(const char *host, uint64_t deadline_ns, struct mr_store_addresses *addresses_out,
                                mr_error *error);
/*
 * Listen on all addresses that host names, on one port; *port 0 takes any. MR_ERR_IO names host and port, and on
 * failure no socket is left.
 */
mr_status mr_store_wire_listen(const char *host, uint16_t *port, int fds_out[MR_STORE_ADDRESSES], uint32_t *n_out,
                               mr_error *error);
void mr_store_wire_set_port(struct sockaddr_storage *address, uint16_t port);
uint16_t mr_store_wire_port_of(const struct sockaddr_storage *address);
/* Numeric, without the port; an IPv4 address mapped into IPv6 is written as IPv4. */
void mr_store_wire_name_of(const struct sockaddr_storage *address, char *text_out, size_t size);

#endif
