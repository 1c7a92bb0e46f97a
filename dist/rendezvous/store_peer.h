/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the store's server. */
#ifndef DIST_RENDEZVOUS_STORE_PEER_H
#define DIST_RENDEZVOUS_STORE_PEER_H

#include "dist/rendezvous/store_wire.h"

#define MR_STORE_NO_RANK UINT32_MAX

struct mr_store_peer {
    struct mr_store_peer *next;
    struct mr_store_peer *previous;
    int fd;
    uint32_t rank; /* MR_STORE_NO_RANK until greeted */
    uint32_t events;
    uint32_t n_waits;
    uint64_t since_ns;
    uint64_t heard_ns;
    uint64_t moved_ns; /* when bytes were last sent, or when none were queued */
    struct mr_store_bytes in;
    struct mr_store_bytes out;
    bool doomed;
    bool refused; /* removed once the verdict is sent */
    uint8_t how;  /* why it is doomed: enum mr_store_code; MR_STORE_FINE after a goodbye */
};

static inline void mr_store_peer_doom(struct mr_store_peer *peer, uint8_t how)
{
    if (!peer->doomed) {
        peer->doomed = true;
        peer->how = how;
    }
}

/* Queue a frame. Without memory the peer is doomed. */
static inline void mr_store_peer_put(struct mr_store_peer *peer, const struct mr_store_frame *frame)
{
    if (!peer->doomed && !mr_store_wire_put(&peer->out, frame))
        mr_store_peer_doom(peer, MR_STORE_LOST);
}

static inline void mr_store_peer_answer(struct mr_store_peer *peer, uint64_t id, uint8_t code,
                                        const uint8_t *value, uint32_t len)
{
    mr_store_peer_put(
        peer,
        &(struct mr_store_frame){
            .kind = MR_STORE_ANSWER, .code = code, .id = id, .value = value, .value_len = len});
}

#endif
