/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a collective that blocks in gloo. gloo cannot cancel one, and its timeout is for each wait
 * inside a collective, not for the whole. So a thread checks the time, the stop flag and the
 * connections.
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

/* CLOCK_MONOTONIC in nanoseconds, the clock of all deadlines. */
uint64_t mr_gloo_watch_now_ns();

class mr_gloo_watch
{
  public:
    enum verdict { NONE, STOPPED, LATE, BROKEN };

    mr_gloo_watch();
    ~mr_gloo_watch();
    mr_gloo_watch(const mr_gloo_watch &) = delete;
    mr_gloo_watch &operator=(const mr_gloo_watch &) = delete;

    /*
     * Watch the context until end_watch(). Its waits are ended at the deadline, soon after *stop
     * becomes nonzero (stop may be NULL), or when is_broken returns true. The watch's thread calls
     * is_broken twice a second; it may be empty.
     */
    void begin_watch(const std::shared_ptr<mr_gloo_context> &context, uint64_t deadline_ns,
                     const volatile uint32_t *stop, std::function<bool()> is_broken = {});
    /*
     * Returns why the waits were ended, or NONE. The thread does not touch the context afterwards.
     */
    verdict end_watch() noexcept;

  private:
    void watch_loop();
    verdict find_verdict();

    std::mutex mutex_;
    std::condition_variable wake_;
    /* All fields below are under the mutex. */
    std::shared_ptr<mr_gloo_context> context_; /* NULL: no watch */
    uint64_t deadline_ns_ = 0;
    const volatile uint32_t *stop_ = nullptr;
    std::function<bool()> is_broken_;
    verdict verdict_ = NONE;
    uint32_t rounds_ = 0; /* since begin_watch() */
    uint32_t idle_ = 0;   /* rounds since the last work */
    bool asleep_ = false;
    bool quit_ = false;
    std::thread thread_; /* the last member, because it uses all others */
};

#endif
