/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames, greetings and addresses of the rendezvous store. Everything here looks at bytes of strangers.
 *
 * Easy to get wrong: a length that a frame claims is only believed up to its limit, and memory is taken for bytes that
 * have come, never for bytes that are claimed.
 */
#include "comm/store_wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

#define LOOK_UP_NS UINT64_C(30000000000)
#define KEEP_BYTES (64u << 10) /* an empty queue keeps no larger block */

static const uint8_t magic[8] = {'M', 'R', 'S', 'T', 'O', 'R', 'E', '\n'};

uint32_t mr_store_wire_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
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

/* Frames. */

int mr_store_wire_next(const struct mr_store_bytes *bytes, struct mr_store_frame *frame_out)
{
    if (bytes->len < MR_STORE_HEAD)
        return 0;
    const uint8_t *head = bytes->at + bytes->start;
    uint32_t len = mr_store_wire_u32(head);
    uint16_t key_len = (uint16_t)(head[6] | head[7] << 8);
    if (head[4] < MR_STORE_SET || head[4] > MR_STORE_BROKEN || key_len > MR_STORE_KEY || key_len > len ||
        len - key_len > MR_STORE_VALUE)
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
    case MR_STORE_BYE: return frame->value_len == 0;
    case MR_STORE_VERDICT: return frame->value_len == MR_STORE_PROOF;
    case MR_STORE_ANSWER: return true;
    case MR_STORE_BROKEN: return frame->value_len == 4;
    default: return false;
    }
}

/* Greetings. */

void mr_store_wire_write_greeting(const struct mr_store_greeting *greeting, uint8_t *bytes_out)
{
    memcpy(bytes_out, magic, sizeof magic);
    mr_store_wire_put_u32(bytes_out + 8, greeting->version);
    mr_store_wire_put_u32(bytes_out + 12, greeting->world_size);
    mr_store_wire_put_u64(bytes_out + 16, greeting->run);
    mr_store_wire_put_u32(bytes_out + 24, greeting->restart);
    mr_store_wire_put_u32(bytes_out + 28, greeting->rank);
    memcpy(bytes_out + 32, greeting->nonce, MR_STORE_NONCE);
}

bool mr_store_wire_read_greeting(const uint8_t *bytes, size_t len, struct mr_store_greeting *greeting_out)
{
    if (memcmp(bytes, magic, len < sizeof magic ? len : sizeof magic) != 0)
        return false;
    if (len < MR_STORE_HELLO)
        return true;
    greeting_out->version = mr_store_wire_u32(bytes + 8);
    greeting_out->world_size = mr_store_wire_u32(bytes + 12);
    greeting_out->run = mr_store_wire_u64(bytes + 16);
    greeting_out->restart = mr_store_wire_u32(bytes + 24);
    greeting_out->rank = mr_store_wire_u32(bytes + 28);
    memcpy(greeting_out->nonce, bytes + 32, MR_STORE_NONCE);
    return true;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

/* SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012; the public reference's form). */
void mr_store_wire_hash(const uint8_t key[16], const void *bytes, size_t len, uint8_t hash_out[16])
{
    const uint8_t *in = bytes;
    uint64_t k0 = mr_store_wire_u64(key), k1 = mr_store_wire_u64(key + 8);
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    size_t left = len;
    for (; left >= 8; left -= 8, in += 8) {
        uint64_t word = mr_store_wire_u64(in);
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)in[i] << 8 * i;
    v[3] ^= last;
    sip_rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xee;
    sip_rounds(v, 4);
    mr_store_wire_put_u64(hash_out, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    sip_rounds(v, 4);
    mr_store_wire_put_u64(hash_out + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

void mr_store_wire_prove(const char *token, char side, const uint8_t *hello, const uint8_t *greeting,
                         uint8_t proof_out[MR_STORE_PROOF])
{
    static const uint8_t plain[] = "millrace's token";
    uint8_t key[16], text[1 + 2 * MR_STORE_HELLO];
    mr_store_wire_hash(plain, token ? token : "", token ? strlen(token) : 0, key);
    text[0] = (uint8_t)side;
    memcpy(text + 1, hello, MR_STORE_HELLO);
    memcpy(text + 1 + MR_STORE_HELLO, greeting, MR_STORE_HELLO);
    mr_store_wire_hash(key, text, sizeof text, proof_out);
}

bool mr_store_wire_same(const uint8_t *a, const uint8_t *b, size_t len)
{
    volatile uint8_t differs = 0;
    for (size_t i = 0; i < len; i++)
        differs = (uint8_t)(differs | (a[i] ^ b[i]));
    return differs == 0;
}

int mr_store_wire_random(void *bytes_out, size_t len)
{
    ssize_t n;
    do
        n = getrandom(bytes_out, len, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

void mr_store_wire_refuse(const struct mr_store_greeting *theirs, const struct mr_store_identity *ours, uint8_t code,
                          mr_error *error_out)
{
    uint32_t rank = theirs->rank;
    switch (code) {
    case MR_STORE_OTHER_VERSION:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: its store has version %u, not %u", rank,
                     theirs->version, MR_STORE_VERSION);
        break;
    case MR_STORE_OTHER_RUN:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: it is of run %llx, not %llx", rank,
                     (unsigned long long)theirs->run, (unsigned long long)ours->run);
        break;
    case MR_STORE_OTHER_RESTART:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: it is of restart %u, not %u", rank, theirs->restart,
                     ours->restart);
        break;
    case MR_STORE_OTHER_TOKEN:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: its token differs", rank);
        break;
    case MR_STORE_OTHER_WORLD:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: its world size is %u, not %u", rank,
                     theirs->world_size, ours->world_size);
        break;
    case MR_STORE_NO_SUCH_RANK:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: the world size is %u", rank, ours->world_size);
        break;
    default:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u was refused: a rank %u is, or was, there already", rank, rank);
        break;
    }
}

void mr_store_wire_tell(uint32_t rank, uint8_t how, uint32_t silence_ms, mr_error *error_out)
{
    switch (how) {
    case MR_STORE_SILENT:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u fell silent: nothing heard from it for %.1f s", rank,
                     silence_ms / 1e3);
        break;
    case MR_STORE_NONSENSE:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u broke off: what came from it is not the store's protocol", rank);
        break;
    case MR_STORE_DEAF:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u broke off: it did not read for %.1f s", rank, silence_ms / 1e3);
        break;
    default:
        mr_error_set(error_out, MR_ERR_PEER, "rank %u broke off: its connection ended without a goodbye", rank);
        break;
    }
}

/* Addresses. */

/* Shared by the caller and the thread that asks the resolver; the last one frees it. */
struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t done_cond;
    bool done;
    int n_holders;
    int rc;
    struct addrinfo *list;
    char host[256];
};

static int look_up(const char *host, int flags, struct addrinfo **list_out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    *list_out = NULL;
    return getaddrinfo(host, NULL, &hints, list_out);
}

static void let_go(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    bool last = --lookup->n_holders == 0;
    pthread_mutex_unlock(&lookup->lock);
    if (!last)
        return;
    if (lookup->list)
        freeaddrinfo(lookup->list);
    pthread_cond_destroy(&lookup->done_cond);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup);
}

static void *look_up_main(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo *list;
    int rc = look_up(lookup->host, 0, &list);
    pthread_mutex_lock(&lookup->lock);
    lookup->rc = rc;
    lookup->list = list;
    lookup->done = true;
    pthread_cond_signal(&lookup->done_cond);
    pthread_mutex_unlock(&lookup->lock);
    let_go(lookup);
    return NULL;
}

static struct lookup *begin_lookup(const char *host)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    snprintf(lookup->host, sizeof lookup->host, "%s", host);
    lookup->n_holders = 2;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&lookup->done_cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&lookup->lock, NULL);
    pthread_t thread;
    if (mr_thread_start(&thread, look_up_main, lookup) != 0) {
        lookup->n_holders = 1;
        let_go(lookup);
        return NULL;
    }
    pthread_detach(thread);
    return lookup;
}

static void take_addresses(const struct addrinfo *list, struct mr_store_addresses *addresses_out)
{
    addresses_out->n = 0;
    for (; list && addresses_out->n < MR_STORE_ADDRESSES; list = list->ai_next) {
        if ((list->ai_family != AF_INET && list->ai_family != AF_INET6) ||
            list->ai_addrlen > sizeof addresses_out->at[0])
            continue;
        memcpy(&addresses_out->at[addresses_out->n], list->ai_addr, list->ai_addrlen);
        addresses_out->len[addresses_out->n++] = list->ai_addrlen;
    }
}

static mr_status look_up_in_thread(const char *host, uint64_t deadline_ns, struct mr_store_addresses *addresses_out,
                                   mr_error *error)
{
    struct lookup *lookup = begin_lookup(host);
    if (!lookup)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "cannot start a thread to look '%s' up", host);
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&lookup->lock);
    while (!lookup->done && rc == 0)
        rc = pthread_cond_timedwait(&lookup->done_cond, &lookup->lock, &until);
    bool done = lookup->done;
    int found = lookup->rc;
    if (done)
        take_addresses(lookup->list, addresses_out);
    pthread_mutex_unlock(&lookup->lock);
    let_go(lookup);
    if (!done)
        return mr_error_set(error, MR_ERR_TIMEOUT, "host '%s' is still being looked up", host);
    if (found != 0)
        return mr_error_set(error, MR_ERR_IO, "host '%s': %s", host, gai_strerror(found));
    return MR_OK;
}

mr_status mr_store_wire_resolve(const char *host, uint64_t deadline_ns, struct mr_store_addresses *addresses_out,
                                mr_error *error)
{
    addresses_out->n = 0;
    if (!host || host[0] == '\0' || strlen(host) > 255)
        return mr_error_set(error, MR_ERR_INVALID, "host '%.40s' is empty or longer than 255 bytes", host ? host : "");
    struct addrinfo *list;
    mr_status status = MR_OK;
    if (look_up(host, AI_NUMERICHOST, &list) == 0) {
        take_addresses(list, addresses_out);
        freeaddrinfo(list);
    } else {
        status = look_up_in_thread(host, deadline_ns, addresses_out, error);
    }
    if (status == MR_OK && addresses_out->n == 0)
        return mr_error_set(error, MR_ERR_IO, "host '%s' has no IPv4 or IPv6 address", host);
    return status;
}

void mr_store_wire_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

uint16_t mr_store_wire_port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void mr_store_wire_name_of(const struct sockaddr_storage *address, char *text_out, size_t size)
{
    struct sockaddr_in plain = {.sin_family = AF_INET};
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    const struct sockaddr *from = (const struct sockaddr *)address;
    socklen_t len = address->ss_family == AF_INET6 ? sizeof *six : sizeof plain;
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(&plain.sin_addr, six->sin6_addr.s6_addr + 12, 4);
        from = (const struct sockaddr *)&plain;
        len = sizeof plain;
    }
    if (getnameinfo(from, len, text_out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text_out, size, "?");
}

/* A listening socket, or -errno. Alone: may an IPv6 address of no host take IPv4 too? */
static int listen_at(struct sockaddr_storage *address, socklen_t len, bool alone)
{
    int one = 1, only = !alone;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (bind(fd, (const struct sockaddr *)address, len) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &len) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

mr_status mr_store_wire_listen(const char *host, uint16_t *port, int fds_out[MR_STORE_ADDRESSES], uint32_t *n_out,
                               mr_error *error)
{
    struct mr_store_addresses addresses;
    bool any_port = *port == 0;
    int failed = 0;
    *n_out = 0;
    mr_status status = mr_store_wire_resolve(host, mr_clock_now_ns() + LOOK_UP_NS, &addresses, error);
    if (status != MR_OK)
        return status;
    for (uint32_t i = 0; i < addresses.n; i++) {
        mr_store_wire_set_port(&addresses.at[i], *port);
        int fd = listen_at(&addresses.at[i], addresses.len[i], addresses.n == 1);
        if (fd >= 0) {
            *port = mr_store_wire_port_of(&addresses.at[i]);
            fds_out[(*n_out)++] = fd;
        } else if (failed == 0 || fd == -EADDRINUSE) {
            failed = -fd;
        }
    }
    if (*n_out > 0 && (failed != EADDRINUSE || any_port))
        return MR_OK;
    while (*n_out > 0)
        close(fds_out[--*n_out]);
    return mr_error_os(error, MR_ERR_IO, failed, "cannot listen on %s port %u", host, *port);
}
