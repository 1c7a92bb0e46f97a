/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with a head that describes the call, from every rank to every other rank or between two
 * ranks. If a rank calls another collective, the error names it; gloo itself would end the process.
 * And a few bytes need one message each way, not a ring of messages.
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
    /* above this a ring needs fewer messages */
    static constexpr uint32_t max_ranks = 16;

    explicit mr_gloo_exchange(std::shared_ptr<gloo::Context> context);

    bool is_for_all() const { return n_ranks_ <= max_ranks; }

    /*
     * Every rank sends its call's description and up to max_bytes of data to all others. Throws
     * mr_gloo_failure if the calls differ. Afterwards, until the next call, of_rank() returns a
     * rank's data.
     */
    void exchange_all(const struct mr_collective &c, const void *data, size_t n_bytes, uint32_t tag,
                      std::chrono::milliseconds timeout);
    const uint8_t *of_rank(uint32_t rank) const { return place(rank) + sizeof(head); }

    /* Send to c.root, or receive from it: the description and any number of bytes. */
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
    /* one place for each rank; above max_ranks a single one, for pairs */
    std::vector<uint8_t> memory_;
    /* over memory_; declared after it, so destroyed first */
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

#endif
