/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that watches one engine's collectives. It must not slow down a collective of a few
 * microseconds. So it runs 50 rounds a second while there is work, and after a second without work
 * it sleeps until the next collective wakes it.
 */
#include "dist/gloo/gloo_watch.hh"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace
{

constexpr uint64_t round_ns = 20 * 1000 * 1000;
constexpr uint32_t idle_rounds = 50;
constexpr uint32_t broken_rounds = 25; /* between two calls of is_broken() */

} // namespace

uint64_t mr_gloo_watch_now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

mr_gloo_watch::mr_gloo_watch() : thread_([this] { watch_loop(); }) {}

mr_gloo_watch::~mr_gloo_watch()
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        quit_ = true;
        wake_.notify_one();
    }
    thread_.join();
}

void mr_gloo_watch::begin_watch(const std::shared_ptr<mr_gloo_context> &context,
                                uint64_t deadline_ns, const volatile uint32_t *stop,
                                std::function<bool()> is_broken)
{
    std::lock_guard<std::mutex> lock(mutex_);
    context_ = context;
    deadline_ns_ = deadline_ns;
    stop_ = stop;
    is_broken_ = std::move(is_broken);
    rounds_ = 0;
    verdict_ = NONE;
    idle_ = 0;
    if (asleep_)
        wake_.notify_one();
}

mr_gloo_watch::verdict mr_gloo_watch::end_watch() noexcept
{
    std::lock_guard<std::mutex> lock(mutex_);
    context_.reset();
    stop_ = nullptr;
    is_broken_ = nullptr;
    return verdict_;
}

mr_gloo_watch::verdict mr_gloo_watch::find_verdict()
{
    if (stop_ != nullptr && __atomic_load_n(stop_, __ATOMIC_ACQUIRE) != 0)
        return STOPPED;
    if (mr_gloo_watch_now_ns() >= deadline_ns_)
        return LATE;
    if (is_broken_ && ++rounds_ % broken_rounds == 0 && is_broken_())
        return BROKEN;
    return NONE;
}

void mr_gloo_watch::watch_loop()
{
    std::unique_lock<std::mutex> lock(mutex_);
    while (!quit_) {
        uint64_t wait_ns = round_ns;
        if (context_ != nullptr) {
            /*
             * The mutex is held, so that the thread that waits in gloo cannot destroy what is being
             * closed here.
             */
            verdict_ = find_verdict();
            if (verdict_ != NONE) {
                context_->abort_all();
                context_.reset();
                continue;
            }
            context_->check_wait();
            uint64_t now_ns = mr_gloo_watch_now_ns();
            wait_ns = std::min(round_ns, deadline_ns_ > now_ns ? deadline_ns_ - now_ns : 0);
        } else if (++idle_ > idle_rounds) {
            asleep_ = true;
            wake_.wait(lock);
            asleep_ = false;
            continue;
        }
        wake_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
    }
}
