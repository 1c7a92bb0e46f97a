/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gloo engine: its table, and how it begins, ends and fails. No exception leaves the module,
 * and the table is its only symbol.
 *
 * Invariant: after any failure all connections are closed. If a buffer were freed while other ranks
 * still send to it, gloo's thread would spin, and the other ranks would wait until their deadlines.
 */
#include "dist/gloo/gloo_collectives.hh"

#include <gloo/common/error.h>
#include <gloo/config.h>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <string>

namespace
{

using milliseconds = std::chrono::milliseconds;

const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"barrier",    "all_reduce",     "reduce", "broadcast",
                                        "all_gather", "reduce_scatter", "send",   "recv"};
    return kind < sizeof names / sizeof *names ? names[kind] : "collective";
}

/* gloo's timeout is for a single wait. The watch bounds the whole collective, and acts first. */
milliseconds gloo_timeout(uint64_t deadline_ns)
{
    uint64_t now_ns = mr_gloo_watch_now_ns();
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 : 0;
    return milliseconds(std::min<uint64_t>(left_ms, 100u * 24 * 3600 * 1000) + 5000);
}

void close_connections(mr_gloo_engine &e) noexcept
{
    if (!e.closed && e.mesh.transport != nullptr)
        e.mesh.transport->close_pairs();
    e.closed = true;
}

/* Close the connections, then write the error. */
int32_t fail_collective(mr_gloo_engine &e, const struct mr_collective &c,
                        mr_gloo_watch::verdict verdict, int32_t status, const char *what,
                        mr_error *error)
{
    unsigned long long number = c.number;
    close_connections(e);
    if (verdict == mr_gloo_watch::STOPPED)
        return e.fail(error, MR_ERR_CANCELED, "gloo: %s %llu was stopped", kind_name(c.kind),
                      number);
    if (verdict == mr_gloo_watch::LATE)
        return e.fail(error, MR_ERR_TIMEOUT, "gloo: %s %llu did not end by its deadline",
                      kind_name(c.kind), number);
    return e.fail(error, status, "gloo: %s %llu: %s", kind_name(c.kind), number, what);
}

void do_watched(mr_gloo_job &j, uint64_t deadline_ns, const volatile uint32_t *stop)
{
    j.e.watch.begin_watch(j.e.mesh.transport, deadline_ns, stop);
    mr_gloo_collectives_do(j);
}

int32_t run_watched(mr_gloo_job &j, uint64_t deadline_ns, const volatile uint32_t *stop,
                    mr_error *error)
{
    mr_gloo_engine &e = j.e;
    int32_t status = MR_OK;
    std::string words;
    try {
        do_watched(j, deadline_ns, stop);
    } catch (const mr_gloo_failure &failure) {
        status = failure.status;
        words = failure.words;
    } catch (const gloo::IoException &failure) {
        status = MR_ERR_PEER;
        words = mr_gloo_mesh_words(failure.what());
    } catch (const std::bad_alloc &) {
        status = MR_ERR_NO_MEMORY;
        words = "not enough memory";
    } catch (const std::exception &failure) {
        status = MR_ERR_IO;
        words = mr_gloo_mesh_words(failure.what());
    }
    mr_gloo_watch::verdict verdict = e.watch.end_watch();
    if (status == MR_OK && verdict == mr_gloo_watch::NONE)
        return MR_OK;
    return fail_collective(e, j.c, verdict, status, words.c_str(), error);
}

/* With one rank every result is the rank's own data. */
int32_t run_alone(const struct mr_collective &c, size_t n_bytes)
{
    bool to_oneself = c.kind == MR_COLLECTIVE_SEND || c.kind == MR_COLLECTIVE_RECV;
    if (to_oneself)
        return MR_ERR_INVALID;
    if (n_bytes != 0 && c.in != nullptr && c.in != c.out)
        memmove(c.out, c.in, n_bytes);
    return MR_OK;
}

int32_t check_job(const mr_gloo_job &j, mr_error *error)
{
    const struct mr_collective &c = j.c;
    size_t total;
    if (c.kind > MR_COLLECTIVE_RECV)
        return j.e.fail(error, MR_ERR_INVALID, "gloo: collective %u does not exist", c.kind);
    if (c.kind != MR_COLLECTIVE_BARRIER && j.size == 0)
        return j.e.fail(error, MR_ERR_INVALID, "gloo: collectives have no dtype %u", c.dtype);
    if (__builtin_mul_overflow(c.count, j.size * j.e.world_size, &total))
        return j.e.fail(error, MR_ERR_INVALID, "gloo: count %llu is too large",
                        (unsigned long long)c.count);
    bool integer_mean = c.op == MR_MEAN && (c.dtype == MR_I32 || c.dtype == MR_I64);
    if (mr_gloo_collectives_is_reduction(c) && (j.reduce == nullptr || integer_mean))
        return j.e.fail(error, MR_ERR_INVALID, "gloo: dtype %u has no operation %u", c.dtype, c.op);
    return MR_OK;
}

int32_t run_checked(mr_gloo_engine &e, const struct mr_collective &c, uint64_t deadline_ns,
                    const volatile uint32_t *stop, mr_error *error)
{
    size_t size = c.kind == MR_COLLECTIVE_BARRIER ? 0 : mr_gloo_reduce_size(c.dtype);
    mr_gloo_job j = {e,
                     c,
                     size,
                     (size_t)c.count * size,
                     mr_gloo_reduce_find(c.dtype, c.op),
                     gloo_timeout(deadline_ns)};
    int32_t status = check_job(j, error);
    if (status != MR_OK)
        return status;
    if (e.world_size == 1)
        return run_alone(c, j.n_bytes);
    if (c.count == 0 && c.kind != MR_COLLECTIVE_BARRIER)
        return MR_OK; /* count is 0 on all ranks: nothing to wait for */
    if (e.closed)
        return e.fail(error, MR_ERR_PEER,
                      "gloo: the connections are closed since an earlier failure");
    if (stop != nullptr && __atomic_load_n(stop, __ATOMIC_ACQUIRE) != 0)
        return fail_collective(e, c, mr_gloo_watch::STOPPED, MR_ERR_CANCELED, "", error);
    return run_watched(j, deadline_ns, stop, error);
}

/*
 * Blocks SIGPIPE in the caller's thread. gloo writes to connections that the other end may have
 * closed, and a blocking call runs in the program's thread, where SIGPIPE would end the process. A
 * write that fails in this thread throws, so after a success no signal can be pending.
 */
class no_sigpipe
{
  public:
    no_sigpipe()
    {
        sigset_t before;
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_, &before);
        was_blocked_ = sigismember(&before, SIGPIPE) == 1;
    }
    ~no_sigpipe()
    {
        if (was_blocked_)
            return;
        const struct timespec at_once = {};
        while (may_be_pending && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR)
            ;
        pthread_sigmask(SIG_UNBLOCK, &pipe_, nullptr);
    }

    bool may_be_pending = true;

  private:
    sigset_t pipe_;
    bool was_blocked_;
};

int32_t engine_run(void *self, const struct mr_collective *collective, uint64_t deadline_ns,
                   const volatile uint32_t *stop, mr_error *error)
{
    mr_gloo_engine &e = *static_cast<mr_gloo_engine *>(self);
    no_sigpipe quiet;
    try {
        int32_t status = run_checked(e, *collective, deadline_ns, stop, error);
        quiet.may_be_pending = status != MR_OK;
        return status;
    } catch (...) {
        e.watch.end_watch();
        return fail_collective(e, *collective, mr_gloo_watch::NONE, MR_ERR_NO_MEMORY,
                               "not enough memory", error);
    }
}

/* gloo's threads and ours inherit this mask, so no signal handler of the program runs in them. */
class all_signals_blocked
{
  public:
    all_signals_blocked()
    {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~all_signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
};

void *make_engine(const struct mr_engine_setup &setup, mr_error *error)
{
    no_sigpipe quiet; /* outermost: a pending SIGPIPE is taken after the old mask is back */
    all_signals_blocked blocked;
    auto made = std::make_unique<mr_gloo_engine>();
    made->rank = setup.rank;
    made->world_size = setup.world_size;
    made->fail = setup.fail;
    if (setup.world_size > 1) {
        made->mesh = mr_gloo_mesh_connect(setup, made->watch, error);
        made->exchange = std::make_unique<mr_gloo_exchange>(made->mesh.context);
    }
    return made.release();
}

/*
 * Wait until all ranks have connected. Otherwise a rank could leave while others are still
 * connecting.
 */
int32_t wait_for_all(mr_gloo_engine &e, const struct mr_engine_setup &setup, mr_error *error)
{
    const struct mr_collective barrier = {};
    const volatile uint32_t never = 0;
    return setup.world_size > 1 ? engine_run(&e, &barrier, setup.deadline_ns, &never, error)
                                : MR_OK;
}

int32_t engine_create(const struct mr_engine_setup *setup, void **engine_out, mr_error *error)
{
    *engine_out = nullptr;
    if (setup->abi != MR_ENGINE_ABI)
        return setup->fail(error, MR_ERR_UNSUPPORTED,
                           "gloo: the module has interface %u, the library %u", MR_ENGINE_ABI,
                           setup->abi);
    try {
        std::unique_ptr<mr_gloo_engine> made(
            static_cast<mr_gloo_engine *>(make_engine(*setup, error)));
        int32_t status = wait_for_all(*made, *setup, error);
        if (status == MR_OK)
            *engine_out = made.release();
        return status;
    } catch (const mr_gloo_failure &failure) {
        if (failure.words.empty())
            return failure.status;
        return setup->fail(error, failure.status, "%s", failure.what());
    } catch (const gloo::IoException &failure) {
        return setup->fail(error, MR_ERR_PEER, "gloo: while connecting: %s",
                           mr_gloo_mesh_words(failure.what()).c_str());
    } catch (const std::bad_alloc &) {
        return setup->fail(error, MR_ERR_NO_MEMORY, "gloo: not enough memory to connect");
    } catch (const std::exception &failure) {
        return setup->fail(error, MR_ERR_IO, "gloo: while connecting: %s",
                           mr_gloo_mesh_words(failure.what()).c_str());
    } catch (...) {
        return setup->fail(error, MR_ERR_IO, "gloo: while connecting: unknown exception");
    }
}

/* Closing never blocks. The kernel still delivers what a collective has sent. */
void engine_destroy(void *self, bool healthy)
{
    auto *e = static_cast<mr_gloo_engine *>(self);
    if (e == nullptr)
        return;
    if (!healthy)
        close_connections(*e);
    delete e;
}

} // namespace

#define MR_TEXT_OF(x) #x
#define MR_TEXT(x) MR_TEXT_OF(x)

extern "C" {
extern MR_API const struct mr_engine_table mr_engine_table;

const struct mr_engine_table mr_engine_table = {
    MR_ENGINE_ABI,
    "gloo",
    MR_TEXT(GLOO_VERSION_MAJOR) "." MR_TEXT(GLOO_VERSION_MINOR) "." MR_TEXT(GLOO_VERSION_PATCH),
    false,
    engine_create,
    engine_destroy,
    engine_run,
    nullptr,
    nullptr,
    nullptr,
};
}
