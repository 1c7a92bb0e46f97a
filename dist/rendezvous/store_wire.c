/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, queues of bytes and frames of the rendezvous store. The input is untrusted.
 *
 * Invariant: a length in a frame is accepted only up to its limit, and memory is allocated for
 * bytes that have arrived, never for bytes that are only announced.
 */
#include "dist/rendezvous/store_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define KEEP_BYTES (64u << 10) /* an empty queue keeps a block of at most this size */
#define MS UINT64_C(1000000)
#define MAX_WAIT_MS 1000000

uint32_t mr_store_wire_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

uint64_t mr_store_wire_u64(const uint8_t *bytes)
{
    return mr_store_wire_u32(bytes) | (uint64_t)mr_store_wire_u32(bytes + 4) << 32;
}

void mr_store_wire_put_u32(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

void mr_store_wire_put_u64(uint8_t *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

/* Queues of bytes. */

uint8_t *mr_store_wire_reserve(struct mr_store_bytes *bytes, size_t more)
{
    if (bytes->len == 0)
        bytes->start = 0;
    if (bytes->size - bytes->start - bytes->len >= more)
        return bytes->at ? bytes->at + bytes->start + bytes->len : NULL;
    if (bytes->start > 0)
        memmove(bytes->at, bytes->at + bytes->start, bytes->len);
    bytes->start = 0;
    if (bytes->size - bytes->len < more) {
        size_t size = bytes->size < 256 ? 256 : bytes->size;
        while (size - bytes->len < more)
            size *= 2;
        uint8_t *at = realloc(bytes->at, size);
        if (!at)
            return NULL;
        bytes->at = at;
        bytes->size = size;
    }
    return bytes->at + bytes->len;
}

bool mr_store_wire_append(struct mr_store_bytes *bytes, const void *from, size_t len)
{
    uint8_t *to = mr_store_wire_reserve(bytes, len);
    if (!to && len > 0)
        return false;
    if (len > 0)
        memcpy(to, from, len);
    bytes->len += len;
    return true;
}

void mr_store_wire_consume(struct mr_store_bytes *bytes, size_t len)
{
    bytes->start += len;
    bytes->len -= len;
    if (bytes->len == 0 && bytes->size > KEEP_BYTES)
        mr_store_wire_free(bytes);
}

void mr_store_wire_free(struct mr_store_bytes *bytes)
{
    free(bytes->at);
    memset(bytes, 0, sizeof *bytes);
}

long mr_store_wire_recv(int fd, struct mr_store_bytes *bytes, size_t limit)
{
    uint8_t *to = mr_store_wire_reserve(bytes, limit);
    if (!to)
        return -ENOMEM;
    ssize_t n;
    do
        n = recv(fd, to, limit, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    bytes->len += (size_t)n;
    return (long)n;
}

long mr_store_wire_send(int fd, struct mr_store_bytes *bytes)
{
    long total = 0;
    while (bytes->len > 0) {
        ssize_t n = send(fd, bytes->at + bytes->start, bytes->len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0)
            return -errno;
        mr_store_wire_consume(bytes, (size_t)n);
        total += (long)n;
    }
    return total;
}

void mr_store_wire_poll(struct pollfd *fds, nfds_t n, uint64_t until_ns)
{
    uint64_t now = mr_clock_now_ns(), ms = until_ns > now ? (until_ns - now + MS - 1) / MS : 0;
    if (poll(fds, n, ms < MAX_WAIT_MS ? (int)ms : MAX_WAIT_MS) < 0 && errno != EINTR)
        mr_clock_sleep_ms(1);
}

/* Frames. */

int mr_store_wire_next(const struct mr_store_bytes *bytes, struct mr_store_frame *frame_out)
{
    if (bytes->len < MR_STORE_HEAD)
        return 0;
    const uint8_t *head = bytes->at + bytes->start;
    uint32_t len = mr_store_wire_u32(head);
    uint16_t key_len = (uint16_t)(head[6] | head[7] << 8);
    if (head[4] < MR_STORE_SET || head[4] > MR_STORE_BROKEN || key_len > MR_STORE_KEY ||
        key_len > len || len - key_len > MR_STORE_VALUE)
        return -1;
    if (bytes->len - MR_STORE_HEAD < len)
        return 0;
    *frame_out = (struct mr_store_frame){.kind = head[4],
                                         .code = head[5],
                                         .key_len = key_len,
                                         .value_len = len - key_len,
                                         .id = mr_store_wire_u64(head + 8),
                                         .key = head + MR_STORE_HEAD,
                                         .value = head + MR_STORE_HEAD + key_len};
    return 1;
}

size_t mr_store_wire_size(const struct mr_store_frame *frame)
{
    return (size_t)MR_STORE_HEAD + frame->key_len + frame->value_len;
}

bool mr_store_wire_put(struct mr_store_bytes *bytes, const struct mr_store_frame *frame)
{
    uint8_t *to = mr_store_wire_reserve(bytes, mr_store_wire_size(frame));
    if (!to)
        return false;
    mr_store_wire_put_u32(to, frame->key_len + frame->value_len);
    to[4] = frame->kind;
    to[5] = frame->code;
    to[6] = (uint8_t)frame->key_len;
    to[7] = (uint8_t)(frame->key_len >> 8);
    mr_store_wire_put_u64(to + 8, frame->id);
    if (frame->key_len > 0)
        memcpy(to + MR_STORE_HEAD, frame->key, frame->key_len);
    if (frame->value_len > 0)
        memcpy(to + MR_STORE_HEAD + frame->key_len, frame->value, frame->value_len);
    bytes->len += mr_store_wire_size(frame);
    return true;
}

bool mr_store_wire_is_request(const struct mr_store_frame *frame)
{
    switch (frame->kind) {
    case MR_STORE_SET: return frame->key_len > 0;
    case MR_STORE_GET:
    case MR_STORE_REMOVE: return frame->key_len > 0 && frame->value_len == 0;
    case MR_STORE_ADD: return frame->key_len > 0 && frame->value_len == 8;
    case MR_STORE_CANCEL:
    case MR_STORE_BEAT:
    case MR_STORE_BYE: return frame->key_len == 0 && frame->value_len == 0;
    default: return false;
    }
}

bool mr_store_wire_is_reply(const struct mr_store_frame *frame)
{
    if (frame->key_len != 0)
        return false;
    switch (frame->kind) {
    case MR_STORE_BEAT:
    case MR_STORE_BYE:
    case MR_STORE_VERDICT: return frame->value_len == 0;
    case MR_STORE_ANSWER: return true;
    case MR_STORE_BROKEN: return frame->value_len == 4;
    default: return false;
    }
}
