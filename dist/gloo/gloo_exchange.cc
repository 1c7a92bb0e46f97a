/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with a head, between all ranks and between two ranks.
 *
 * Invariant: a receive always has room for a whole place. gloo ends the process if a message is
 * longer than the receive; it may be shorter.
 */
#include "dist/gloo/gloo_exchange.hh"

#include "dist/gloo/gloo_mesh.hh"

#include <gloo/types.h>

#include <cstdio>
#include <cstring>

namespace
{

/* gloo's own collectives use the prefixes 1 to 8. */
constexpr uint8_t slot_pair = 0x42;
constexpr uint8_t slot_all = 0x44;

using std::chrono::milliseconds;

/* "all_reduce (3 f32, op 0, root 0)" */
std::string describe_call(uint64_t count, uint32_t kind, uint32_t root, uint32_t dtype, uint32_t op)
{
    static const char *const kinds[] = {"barrier",    "all_reduce",     "reduce", "broadcast",
                                        "all_gather", "reduce_scatter", "send",   "recv"};
    static const struct {
        uint32_t dtype;
        const char *name;
    } types[] = {{MR_F16, "f16"}, {MR_BF16, "bf16"}, {MR_F32, "f32"},
                 {MR_F64, "f64"}, {MR_I32, "i32"},   {MR_I64, "i64"}};
    static const char *const ops[] = {"sum", "mean", "min", "max"};
    const char *type = "?";
    for (const auto &known : types)
        if (known.dtype == dtype)
            type = known.name;
    if (kind == MR_COLLECTIVE_BARRIER)
        return kinds[0];
    char text[128];
    snprintf(text, sizeof text, "%s (%llu %s",
             kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "?", (unsigned long long)count,
             type);
    std::string words = text;
    if (kind == MR_COLLECTIVE_ALL_REDUCE || kind == MR_COLLECTIVE_REDUCE ||
        kind == MR_COLLECTIVE_REDUCE_SCATTER)
        words += std::string(", ") + (op < 4 ? ops[op] : "?");
    if (kind == MR_COLLECTIVE_REDUCE || kind == MR_COLLECTIVE_BROADCAST)
        words += ", root " + std::to_string(root);
    return words + ")";
}

} // namespace

mr_gloo_exchange::mr_gloo_exchange(std::shared_ptr<gloo::Context> context)
    : context_(std::move(context)), rank_((uint32_t)context_->rank),
      n_ranks_((uint32_t)context_->size), n_places_(n_ranks_ <= max_ranks ? n_ranks_ : 1),
      memory_(n_places_ * place_bytes),
      buffer_(context_->createUnboundBuffer(memory_.data(), memory_.size()))
{
}

/* Sender and receiver make the same head. Fields that a collective does not use are 0. */
mr_gloo_exchange::head mr_gloo_exchange::head_of(const struct mr_collective &c)
{
    head made = {c.count, c.kind, 0, c.dtype, 0};
    if (c.kind == MR_COLLECTIVE_BARRIER)
        made = {0, c.kind, 0, 0, 0};
    if (c.kind == MR_COLLECTIVE_RECV)
        made.kind = MR_COLLECTIVE_SEND;
    if (c.kind == MR_COLLECTIVE_REDUCE || c.kind == MR_COLLECTIVE_BROADCAST)
        made.root = c.root;
    if (c.kind == MR_COLLECTIVE_ALL_REDUCE || c.kind == MR_COLLECTIVE_REDUCE ||
        c.kind == MR_COLLECTIVE_REDUCE_SCATTER)
        made.op = c.op;
    return made;
}

void mr_gloo_exchange::compare_heads(uint32_t rank, const head &own) const
{
    head other;
    memcpy(&other, place(n_places_ == 1 ? 0 : rank), sizeof other);
    if (memcmp(&own, &other, sizeof own) == 0)
        return;
    throw mr_gloo_failure(
        MR_ERR_PEER, "rank " + std::to_string(rank) + " calls " +
                         describe_call(other.count, other.kind, other.root, other.dtype, other.op) +
                         ", rank " + std::to_string(rank_) + " " +
                         describe_call(own.count, own.kind, own.root, own.dtype, own.op));
}

void mr_gloo_exchange::exchange_all(const struct mr_collective &c, const void *data, size_t n_bytes,
                                    uint32_t tag, milliseconds timeout)
{
    const uint64_t slot = gloo::Slot::build(slot_all, tag);
    const head own = head_of(c);
    memcpy(place(rank_), &own, sizeof own);
    if (n_bytes > 0)
        memcpy(place(rank_) + sizeof own, data, n_bytes);
    /* Each rank begins with its neighbour, so that not all send to the same rank first. */
    for (uint32_t i = 1; i < n_ranks_; i++) {
        uint32_t from = (rank_ + n_ranks_ - i) % n_ranks_;
        buffer_->recv((int)from, slot, from * place_bytes, place_bytes);
    }
    for (uint32_t i = 1; i < n_ranks_; i++)
        buffer_->send((int)((rank_ + i) % n_ranks_), slot, rank_ * place_bytes,
                      sizeof own + n_bytes);
    for (uint32_t i = 1; i < n_ranks_; i++)
        buffer_->waitRecv(timeout);
    for (uint32_t i = 1; i < n_ranks_; i++)
        buffer_->waitSend(timeout);
    for (uint32_t rank = 0; rank < n_ranks_; rank++)
        compare_heads(rank, own);
}

void mr_gloo_exchange::send_message(const struct mr_collective &c, size_t n_bytes,
                                    milliseconds timeout)
{
    const uint64_t slot = gloo::Slot::build(slot_pair, 0);
    const uint32_t at = n_places_ == 1 ? 0 : rank_;
    const size_t along = n_bytes <= max_bytes ? n_bytes : 0;
    const head own = head_of(c);
    memcpy(place(at), &own, sizeof own);
    memcpy(place(at) + sizeof own, c.in, along);
    buffer_->send((int)c.root, slot, at * place_bytes, sizeof own + along);
    if (along < n_bytes) {
        /* gloo only reads it */
        auto apart = context_->createUnboundBuffer(const_cast<void *>(c.in), n_bytes);
        apart->send((int)c.root, slot);
        apart->waitSend(timeout);
    }
    buffer_->waitSend(timeout);
}

void mr_gloo_exchange::receive_message(const struct mr_collective &c, size_t n_bytes,
                                       milliseconds timeout)
{
    const uint64_t slot = gloo::Slot::build(slot_pair, 0);
    const uint32_t at = n_places_ == 1 ? 0 : c.root;
    buffer_->recv((int)c.root, slot, at * place_bytes, place_bytes);
    buffer_->waitRecv(timeout);
    compare_heads(c.root, head_of(c));
    if (n_bytes <= max_bytes) {
        memcpy(c.out, place(at) + sizeof(head), n_bytes);
        return;
    }
    auto apart = context_->createUnboundBuffer(c.out, n_bytes);
    apart->recv((int)c.root, slot);
    apart->waitRecv(timeout);
}
