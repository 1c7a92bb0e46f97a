/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport context whose waits can be ended.
 *
 * A connection may end normally: the other rank has all its data and leaves, while this rank has
 * not yet counted the last bytes that it received. So a wait is ended only when its connection is
 * found closed in two rounds.
 */
#include "dist/gloo/gloo_context.hh"

#include <gloo/common/error.h>
#include <gloo/types.h>

#include <algorithm>
#include <chrono>

namespace
{

using gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;

constexpr uint8_t slot_sentinel = 0x43;

class rank_buffers : public UnboundBuffer
{
  public:
    rank_buffers(mr_gloo_context &context, gloo::transport::Context &real, void *data,
                 size_t n_bytes)
        : UnboundBuffer(data, n_bytes), context_(context), real_(real)
    {
    }

    bool waitRecv(int *other, milliseconds timeout) override
    {
        return wait_posted(receiving_, true, other, timeout);
    }
    bool waitSend(int *other, milliseconds timeout) override
    {
        return wait_posted(sending_, false, other, timeout);
    }
    void abortWaitRecv() override { context_.abort_all(); }
    void abortWaitSend() override { context_.abort_all(); }

    void send(int to, uint64_t slot, size_t offset, size_t n_bytes) override
    {
        buffer_for(to).send(to, slot, offset, n_bytes);
        sending_.push_back(to);
    }
    void recv(int from, uint64_t slot, size_t offset, size_t n_bytes) override
    {
        buffer_for(from).recv(from, slot, offset, n_bytes);
        receiving_.push_back(from);
    }
    void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t n_bytes) override
    {
        if (from.size() != 1)
            throw gloo::InvalidOperationException("a receive from one of several ranks");
        recv(from[0], slot, offset, n_bytes);
    }

  private:
    struct part {
        int other;
        std::unique_ptr<UnboundBuffer> real;
    };

    UnboundBuffer &buffer_for(int other)
    {
        for (part &known : parts_)
            if (known.other == other)
                return *known.real;
        parts_.push_back({other, real_.createUnboundBuffer(ptr, size)});
        return *parts_.back().real;
    }

    bool wait_posted(std::vector<int> &posted, bool receives, int *other_out, milliseconds timeout)
    {
        if (posted.empty())
            throw gloo::InvalidOperationException("a wait without a send or receive before it");
        int other = posted.front();
        posted.erase(posted.begin());
        UnboundBuffer &real = buffer_for(other);
        context_.begin_wait(other, &real, receives);
        bool done;
        try {
            done = receives ? real.waitRecv(nullptr, timeout) : real.waitSend(nullptr, timeout);
        } catch (...) {
            context_.end_wait();
            throw;
        }
        context_.end_wait();
        if (!done && !has_arrived(real, receives))
            throw gloo::IoException(context_.describe_end());
        if (other_out != nullptr)
            *other_out = other;
        return true;
    }

    /*
     * gloo reports an abort even if all data have arrived and only the waiting thread has not run
     * since.
     */
    static bool has_arrived(UnboundBuffer &real, bool receives) noexcept
    {
        try {
            return receives ? real.waitRecv(nullptr, milliseconds(0))
                            : real.waitSend(nullptr, milliseconds(0));
        } catch (...) {
            return false;
        }
    }

    mr_gloo_context &context_;
    gloo::transport::Context &real_;
    std::vector<part> parts_;
    std::vector<int> sending_, receiving_; /* ranks, in the order of their calls */
};

} // namespace

mr_gloo_context::mr_gloo_context(std::shared_ptr<gloo::transport::Context> real)
    : gloo::transport::Context(real->rank, real->size), real_(std::move(real))
{
}

std::unique_ptr<gloo::transport::Pair> &mr_gloo_context::getPair(int other)
{
    return real_->getPair(other);
}

std::unique_ptr<gloo::transport::Pair> &mr_gloo_context::createPair(int other)
{
    real_->setTimeout(getTimeout());
    return real_->createPair(other);
}

std::unique_ptr<UnboundBuffer> mr_gloo_context::createUnboundBuffer(void *data, size_t n_bytes)
{
    return std::make_unique<rank_buffers>(*this, *real_, data, n_bytes);
}

void mr_gloo_context::post_sentinels()
{
    std::lock_guard<std::mutex> lock(mutex_);
    sentinels_.resize((size_t)size);
    for (int other = 0; other < size; other++) {
        if (other == rank)
            continue;
        sentinels_[(size_t)other] = real_->createUnboundBuffer(nothing_, sizeof nothing_);
        sentinels_[(size_t)other]->recv(other, gloo::Slot::build(slot_sentinel, 0));
    }
}

void mr_gloo_context::begin_wait(int other, UnboundBuffer *buffer, bool receives)
{
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_)
        throw gloo::IoException("the connections are closed");
    waiting_ = buffer;
    receives_ = receives;
    waits_for_ = other;
    number_++;
}

void mr_gloo_context::end_wait() noexcept
{
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = nullptr;
}

std::string mr_gloo_context::describe_end()
{
    std::lock_guard<std::mutex> lock(mutex_);
    return words_;
}

void mr_gloo_context::abort_wait()
{
    if (waiting_ == nullptr)
        return;
    if (receives_)
        waiting_->abortWaitRecv();
    else
        waiting_->abortWaitSend();
}

/*
 * An aborted wait returns at once, and throws if the connection has ended. So this does not block.
 */
bool mr_gloo_context::has_ended(int other)
{
    if (sentinels_.empty() || sentinels_[(size_t)other] == nullptr)
        return false;
    try {
        sentinels_[(size_t)other]->abortWaitRecv();
        sentinels_[(size_t)other]->waitRecv(nullptr, milliseconds(60000));
        return false;
    } catch (const std::exception &failure) {
        words_ = failure.what();
        return true;
    }
}

void mr_gloo_context::check_wait()
{
    std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_ == nullptr || !has_ended(waits_for_))
        return;
    if (suspect_ == number_)
        abort_wait();
    suspect_ = number_;
}

void mr_gloo_context::abort_all() noexcept
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
        abort_wait();
    }
    close_pairs();
}

void mr_gloo_context::close_pairs() noexcept
{
    try {
        char nothing;
        real_->createUnboundBuffer(&nothing, sizeof nothing)->waitRecv(milliseconds(0));
    } catch (...) {
        /* gloo closes all connections and then throws. */
    }
}
