/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo's transport context with two additions: another thread can end a wait, and a wait ends when
 * its connection ends. gloo itself ends a wait for a message that has not begun, but not for one
 * that is half sent or half received. It reports an aborted wait as a finished one, and a wait that
 * times out closes all connections.
 *
 * It uses gloo's public interfaces only. A buffer here has one gloo buffer for each other rank, and
 * waits in the order in which sends and receives were started. So the rank that each wait depends
 * on is known.
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

    /* Called once, after connecting. From then on a connection that ends is noticed. */
    void post_sentinels();

    /* Threads: any thread may call the next three functions. */

    /* End the current wait if its connection has ended. Called in each round of the watch. */
    void check_wait();
    /*
     * End the current wait and all later ones, and close all connections. The other ranks notice.
     */
    void abort_all() noexcept;
    void close_pairs() noexcept;

    /*
     * Called by the buffers around each wait, in the thread that runs collectives. Throws after
     * abort_all().
     */
    void begin_wait(int other, gloo::transport::UnboundBuffer *buffer, bool receives);
    void end_wait() noexcept;
    /* The reason why a wait was ended. */
    std::string describe_end();

  private:
    void abort_wait();
    bool has_ended(int other);

    const std::shared_ptr<gloo::transport::Context> real_;
    std::mutex mutex_;
    /* All fields below are under the mutex. */
    /* receives that no rank ever sends to */
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sentinels_;
    gloo::transport::UnboundBuffer *waiting_ = nullptr;
    bool receives_ = false;
    int waits_for_ = -1;
    uint64_t number_ = 0;  /* number of the current wait */
    uint64_t suspect_ = 0; /* number of the wait whose connection was closed in the last round */
    bool ended_ = false;
    std::string words_;
    char nothing_[1] = {0};
};

#endif
