/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of the rendezvous store. All numbers are little-endian.
 *
 * The server sends first: a hello that identifies the store, so that a client does not greet a
 * foreign one. After the client's greeting there are only frames: a head of 16 bytes, key, value.
 * The first frame is the server's verdict.
 */
#ifndef DIST_RENDEZVOUS_STORE_WIRE_H
#define DIST_RENDEZVOUS_STORE_WIRE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dist/rendezvous/store_limits.h"

/* Bytes of a frame before its key: length 4, kind 1, code 1, key length 2, id 8. */
#define MR_STORE_HEAD 16u
#define MR_STORE_BODY (MR_STORE_KEY + MR_STORE_VALUE)

enum mr_store_kind {
    MR_STORE_SET = 1, /* from the client, as the next four */
    MR_STORE_GET,
    MR_STORE_ADD, /* value: 8 bytes, added to the stored value */
    MR_STORE_REMOVE,
    MR_STORE_CANCEL,  /* the get of this id is no longer wanted */
    MR_STORE_BEAT,    /* both ways */
    MR_STORE_BYE,     /* both ways: the end that follows is not a break */
    MR_STORE_VERDICT, /* from the server, as the next two; code: was the greeting accepted? */
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
    MR_STORE_RANK_BROKE,
    MR_STORE_RANK_LEFT,
    /* Answers. */
    MR_STORE_FULL,
    MR_STORE_NO_NUMBER,   /* add to a value that is not 8 bytes, or 64-bit overflow */
    MR_STORE_PEER_BROKEN, /* the key is missing, and a rank has broken */
    MR_STORE_TOO_MANY,    /* waiting gets */
    /* How a rank broke. */
    MR_STORE_LOST,
    MR_STORE_SILENT,
    MR_STORE_NONSENSE,
    MR_STORE_DEAF
};

/* A queue of bytes, in at[start] to at[start + len - 1]. All zero: empty. */
struct mr_store_bytes {
    uint8_t *at;
    size_t start;
    size_t len;
    size_t size;
};

/*
 * Make room for more bytes after the queued ones. NULL without memory; the queue is then unchanged.
 */
uint8_t *mr_store_wire_reserve(struct mr_store_bytes *bytes, size_t more);
bool mr_store_wire_append(struct mr_store_bytes *bytes, const void *from, size_t len);
/* Remove the first len bytes. An empty queue frees a large block. */
void mr_store_wire_consume(struct mr_store_bytes *bytes, size_t len);
void mr_store_wire_free(struct mr_store_bytes *bytes);
/* One recv() of at most limit bytes. Returns their number, 0 at the end, or -errno. */
long mr_store_wire_recv(int fd, struct mr_store_bytes *bytes, size_t limit);
/*
 * Send until the queue is empty or the socket is full. Returns the number of bytes sent, or -errno
 * (never -EAGAIN). Never raises SIGPIPE.
 */
long mr_store_wire_send(int fd, struct mr_store_bytes *bytes);
/* poll() until until_ns, by base/clock.h. A signal ends it early. */
void mr_store_wire_poll(struct pollfd *fds, nfds_t n, uint64_t until_ns);

/* key and value point into the queue, and are valid until it changes. */
struct mr_store_frame {
    uint8_t kind;
    uint8_t code;
    uint16_t key_len;
    uint32_t value_len;
    uint64_t id;
    const uint8_t *key;
    const uint8_t *value;
};

/*
 * Read the first frame of the queue. Returns 1; 0 if bytes are missing; -1 if the kind is unknown
 * or a length is above its limit.
 */
int mr_store_wire_next(const struct mr_store_bytes *bytes, struct mr_store_frame *frame_out);
size_t mr_store_wire_size(const struct mr_store_frame *frame);
bool mr_store_wire_put(struct mr_store_bytes *bytes, const struct mr_store_frame *frame);
/* May a client send this? May a server? */
bool mr_store_wire_is_request(const struct mr_store_frame *frame);
bool mr_store_wire_is_reply(const struct mr_store_frame *frame);

uint32_t mr_store_wire_u32(const uint8_t *bytes);
uint64_t mr_store_wire_u64(const uint8_t *bytes);
void mr_store_wire_put_u32(uint8_t *bytes, uint32_t value);
void mr_store_wire_put_u64(uint8_t *bytes, uint64_t value);

#endif
