/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends what blocks in gloo. gloo has no cancel, and bounds each wait inside a collective but not
 * the collective. So a thread looks at the time, at the stop flag, and at the connections.
 */
#ifndef DIST_GLOO_GLOO_WATCH_HH
#define DIST_GLOO_GLOO_WATCH_HH

#include "dist/gloo/gloo_context.hh"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

/* CLOCK_MONOTONIC in nanoseconds, as deadlines are given. */
uint64_t mr_gloo_watch_now_ns();

class mr_gloo_watch
{
  public:
    enum verdict { NOBODY, STOPPED, LATE, BROKEN };

    mr_gloo_watch();
    ~mr_gloo_watch();
    mr_gloo_watch(const mr_gloo_watch &) = delete;
    mr_gloo_watch &operator=(const mr_gloo_watch &) = delete;

    /*
     * From now to end_watch() the context is ended at the deadline, soon after *stop (NULL: none)
     * is nonzero, or when is_broken, asked twice a second from the watch's thread, says so (empty:
     * not asked).
     */
    void begin_watch(const std::shared_ptr<mr_gloo_context> &context, uint64_t deadline_ns,
                     const volatile uint32_t *stop, std::function<bool()> is_broken = {});
    /* Has it been ended, and why? The thread no longer touches the context when this returns. */
    verdict end_watch() noexcept;

  private:
    void watch_loop();
    verdict find_verdict();

    std::mutex mutex_;
    std::condition_variable wake_;
    /* All of these under the mutex. */
    std::shared_ptr<mr_gloo_context> context_; /* NULL: no watch */
    uint64_t deadline_ns_ = 0;
    const volatile uint32_t *stop_ = nullptr;
    std::function<bool()> is_broken_;
    verdict verdict_ = NOBODY;
    uint32_t rounds_ = 0; /* of this watch */
    uint32_t idle_ = 0;   /* rounds since the last work */
    bool asleep_ = false;
    bool quit_ = false;
    std::thread thread_; /* the last member: it uses the others */
};

#endif
