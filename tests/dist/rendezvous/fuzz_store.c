/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds arbitrary bytes to the store: to the frame parser, whole and in pieces, which must give the
 * same result; and to a running server, in place of a greeting and after a good one. The server
 * must still answer afterwards. A sanitizer detects reads past the end.
 */
#include "tests/dist/rendezvous/fuzz_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/dist/rendezvous/store_rig.h"

#define N_PER_SERVER 200 /* inputs per server, because values stay and ranks break */

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_store: %s\n", what);
    abort();
}

static uint64_t mix(uint64_t sum, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ from[i]) * UINT64_C(1099511628211);
    return sum;
}

/* A hash of all frames in the bytes, which arrive step bytes at a time. */
static uint64_t hash_frames(const uint8_t *bytes, size_t len, size_t step)
{
    struct mr_store_bytes in = {0};
    struct mr_store_frame frame;
    uint64_t sum = 1;
    int got = 0;
    for (size_t at = 0; at < len && got >= 0; at += step) {
        require(mr_store_wire_append(&in, bytes + at, len - at < step ? len - at : step),
                "out of memory");
        while ((got = mr_store_wire_next(&in, &frame)) > 0) {
            require(frame.key_len <= MR_STORE_KEY && frame.value_len <= MR_STORE_VALUE,
                    "a length past its limit");
            require(mr_store_wire_size(&frame) <= in.len, "a frame longer than what came");
            require(!mr_store_wire_is_request(&frame) || frame.kind <= MR_STORE_BYE,
                    "a request of no kind");
            sum = mix(sum, frame.key, frame.key_len);
            sum = mix(sum, frame.value, frame.value_len);
            sum = mix(sum, &frame.id, sizeof frame.id) + frame.kind + frame.code;
            mr_store_wire_consume(&in, mr_store_wire_size(&frame));
        }
    }
    mr_store_wire_free(&in);
    return got < 0 ? 0 : sum;
}

static void try_frames(const uint8_t *bytes, size_t len)
{
    uint64_t whole = hash_frames(bytes, len, len > 0 ? len : 1);
    require(whole == hash_frames(bytes, len, 1) && whole == hash_frames(bytes, len, 7),
            "pieces make other frames");
}

/* Sends the bytes as a stranger and as a rank, then closes the connection. */
static void try_server(uint16_t port, const uint8_t *bytes, size_t len,
                       const struct mr_store_identity *identity, uint32_t rank)
{
    static uint32_t n;
    int fd = rig_socket_from(0x7f010000u + n++ % 0x10000, port);
    if (identity)
        require(rig_greet(fd, rank, identity) == MR_STORE_FINE, "a good greeting is refused");
    rig_write(fd, bytes, len);
    shutdown(fd, SHUT_WR);
    require(rig_drain(fd, 20000) >= 0, "the server does not end the connection");
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct mr_store *store;
    static struct mr_store_identity identity;
    static uint32_t rank;
    try_frames(bytes, len);
    if (!store || rank == N_PER_SERVER) {
        mr_store_stop(store);
        identity = rig_identity(N_PER_SERVER);
        store = rig_start(&identity);
        rank = 0;
    }
    try_server(mr_store_port(store), bytes, len, NULL, 0);
    try_server(mr_store_port(store), bytes, len, &identity, rank++);
    return 0;
}
