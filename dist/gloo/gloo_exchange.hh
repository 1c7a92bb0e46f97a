/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with a head that says what they are: from every rank to every other one, and between
 * two. So a rank that calls another collective is an error that names it, where gloo itself would
 * end the process; and a few bytes need one message each way instead of a ring of them.
 */
#ifndef DIST_GLOO_GLOO_EXCHANGE_HH
#define DIST_GLOO_GLOO_EXCHANGE_HH

#include "dist/group/engine_table.h"

#include <gloo/context.h>

#include <chrono>
#include <memory>
#include <vector>

class mr_gloo_exchange
{
  public:
    static constexpr size_t max_bytes = 4096; /* of one rank */
    /* of everybody with everybody; a ring is better for more */
    static constexpr uint32_t max_ranks = 16;

    explicit mr_gloo_exchange(std::shared_ptr<gloo::Context> context);

    bool is_for_all() const { return n_ranks_ <= max_ranks; }

    /*
     * All ranks tell each other what they do, and up to max_bytes. Throws mr_gloo_failure when one
     * differs. From then to the next call of_rank() are that rank's bytes.
     */
    void exchange_all(const struct mr_collective &c, const void *data, size_t n_bytes, uint32_t tag,
                      std::chrono::milliseconds timeout);
    const uint8_t *of_rank(uint32_t rank) const { return place(rank) + sizeof(head); }

    /* To and from c.root: what it is, and the bytes, whatever their number. */
    void send_message(const struct mr_collective &c, size_t n_bytes,
                      std::chrono::milliseconds timeout);
    void receive_message(const struct mr_collective &c, size_t n_bytes,
                         std::chrono::milliseconds timeout);

  private:
    struct head {
        uint64_t count;
        uint32_t kind;
        uint32_t root;
        uint32_t dtype;
        uint32_t op;
    };
    static constexpr size_t place_bytes = sizeof(head) + max_bytes;

    static head head_of(const struct mr_collective &c);
    void compare_heads(uint32_t rank, const head &own) const;
    uint8_t *place(uint32_t i) { return memory_.data() + i * place_bytes; }
    const uint8_t *place(uint32_t i) const { return memory_.data() + i * place_bytes; }

    const std::shared_ptr<gloo::Context> context_;
    const uint32_t rank_;
    const uint32_t n_ranks_;
    const uint32_t n_places_;
    /* a place for each rank, or one for pairs where there is no exchange of all */
    std::vector<uint8_t> memory_;
    /* of that memory, and gone before it */
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

#endif
