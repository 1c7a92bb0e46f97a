/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo's transport context with two additions: a wait that can be ended from another thread, and a
 * wait that ends when its connection does. gloo ends a wait for a message that has not begun, but
 * not for one that is half sent or half received; it takes an aborted wait for a finished one; and
 * a wait that runs out of time closes every connection.
 *
 * It uses gloo's public interfaces only. A buffer here is one of gloo's for each rank that it talks
 * to, waited for in the order of posting, so that the rank behind each wait is known.
 */
#ifndef DIST_GLOO_GLOO_CONTEXT_HH
#define DIST_GLOO_GLOO_CONTEXT_HH

#include <gloo/transport/context.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

class mr_gloo_context : public gloo::transport::Context
{
  public:
    explicit mr_gloo_context(std::shared_ptr<gloo::transport::Context> real);

    std::unique_ptr<gloo::transport::Pair> &getPair(int other) override;
    std::unique_ptr<gloo::transport::Pair> &createPair(int other) override;
    std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void *data,
                                                                        size_t n_bytes) override;

    /* Once connected: from now on a connection that ends is noticed. */
    void post_sentinels();

    /* Threads: any, for these three. */

    /*
     * If the connection of the wait under way has ended, end the wait. To be called again and
     * again.
     */
    void check_wait();
    /*
     * Ends the wait under way and all to come, and closes all connections; the other ranks notice.
     */
    void abort_all() noexcept;
    void close_pairs() noexcept;

    /*
     * A wait of the thread that runs collectives: throws where all has ended. Used by the buffers.
     */
    void begin_wait(int other, gloo::transport::UnboundBuffer *buffer, bool receives);
    void end_wait() noexcept;
    /* Why a wait was ended. */
    std::string describe_end();

  private:
    void abort_wait();
    bool has_ended(int other);

    const std::shared_ptr<gloo::transport::Context> real_;
    std::mutex mutex_;
    /* All of these under the mutex. */
    /* a receive that nothing comes for */
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sentinels_;
    gloo::transport::UnboundBuffer *waiting_ = nullptr;
    bool receives_ = false;
    int waits_for_ = -1;
    uint64_t number_ = 0;  /* of the wait */
    uint64_t suspect_ = 0; /* the one whose connection had ended when last seen */
    bool ended_ = false;
    std::string words_;
    char nothing_[1] = {0};
};

#endif
