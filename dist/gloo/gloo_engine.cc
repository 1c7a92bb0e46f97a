/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gloo engine: collectives between CPUs over TCP. It is the only C++ of the project; no exception leaves it, and
 * the table is its only symbol.
 *
 * A collective of up to 4 KiB is one exchange of every rank with every other one, after which each rank computes the
 * result in the order of the ranks. A longer one begins with an exchange of what each rank is about to do, and is then
 * gloo's own. Above 16 ranks all are gloo's.
 *
 * Invariant: after any failure all connections are closed. If a buffer is gone while others still send to it, gloo's
 * thread spins, and the other ranks wait for this one until their deadlines.
 */
#include "dist/group/engine_table.h"
#include "dist/gloo/gloo_exchange.hh"
#include "dist/gloo/gloo_mesh.hh"
#include "dist/gloo/gloo_reduce.hh"
#include "dist/gloo/gloo_watch.hh"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/common/error.h>
#include <gloo/config.h>
#include <gloo/reduce.h>
#include <gloo/types.h>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <vector>

namespace
{

/* gloo's own collectives have the prefixes 1 to 8; 0x42 and 0x44 are the exchange's. */
constexpr uint8_t slot_scatter = 0x41;

constexpr uint64_t half_part = 1u << 18; /* elements of 16 bits that are made f32 at a time */

using milliseconds = std::chrono::milliseconds;

struct engine {
    uint32_t rank;
    uint32_t world_size;
    decltype(mr_engine_setup::fail) fail;
    mr_gloo_mesh mesh; /* empty in a world of one */
    std::unique_ptr<mr_gloo_exchange> exchange;
    /*
     * Counts the collectives of all ranks; sends and receives, of which other ranks know nothing, are told apart by
     * their pair and their order.
     */
    uint32_t tag = 0;
    bool closed = false;
    mr_gloo_watch watch;
};

/* One collective, checked, with what the functions below need of it. */
struct job {
    engine &e;
    const struct mr_collective &c;
    size_t size;    /* of an element */
    size_t n_bytes; /* count * size */
    mr_gloo_reduce_function reduce;
    milliseconds timeout;
};

const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"barrier",    "all_reduce",     "reduce", "broadcast",
                                        "all_gather", "reduce_scatter", "send",   "recv"};
    return kind < sizeof names / sizeof *names ? names[kind] : "collective";
}

/* gloo sends and receives by pointers that are not const; it only reads what it sends. */
std::unique_ptr<gloo::transport::UnboundBuffer> buffer_of(job &j, const void *data, size_t n_bytes)
{
    return j.e.mesh.context->createUnboundBuffer(const_cast<void *>(data), n_bytes);
}

template <typename Options> void set_common(Options &options, job &j)
{
    options.setTag(j.e.tag);
    options.setTimeout(j.timeout);
}

/* gloo asks for the type of an element, of which it uses the size alone. */
template <typename Options> void set_output(Options &options, job &j)
{
    switch (j.size) {
    case 2: options.setOutput(static_cast<uint16_t *>(j.c.out), j.c.count); break;
    case 4: options.setOutput(static_cast<uint32_t *>(j.c.out), j.c.count); break;
    default: options.setOutput(static_cast<uint64_t *>(j.c.out), j.c.count); break;
    }
}

void copy_into_place(job &j)
{
    if (j.c.in != nullptr && j.c.in != j.c.out)
        memmove(j.c.out, j.c.in, j.n_bytes);
}

void do_barrier(job &j)
{
    gloo::BarrierOptions options(j.e.mesh.context);
    set_common(options, j);
    gloo::barrier(options);
}

void divide_sum(job &j)
{
    if (j.c.op == MR_MEAN)
        mr_gloo_reduce_divide(j.c.dtype, j.c.out, j.c.count, j.e.world_size);
}

void do_all_reduce(job &j)
{
    gloo::AllreduceOptions options(j.e.mesh.context);
    set_common(options, j);
    copy_into_place(j);
    set_output(options, j);
    options.setReduceFunction(j.reduce);
    gloo::allreduce(options);
    divide_sum(j);
}

void do_reduce(job &j)
{
    gloo::ReduceOptions options(j.e.mesh.context);
    set_common(options, j);
    copy_into_place(j);
    set_output(options, j);
    options.setReduceFunction(j.reduce);
    options.setRoot((int)j.c.root);
    gloo::reduce(options);
    if (j.e.rank == j.c.root)
        divide_sum(j);
}

void do_broadcast(job &j)
{
    gloo::BroadcastOptions options(j.e.mesh.context);
    set_common(options, j);
    if (j.e.rank == j.c.root)
        copy_into_place(j);
    set_output(options, j);
    options.setRoot((int)j.c.root);
    gloo::broadcast(options);
}

void do_all_gather(job &j)
{
    gloo::AllgatherOptions options(j.e.mesh.context);
    set_common(options, j);
    auto *out = static_cast<uint8_t *>(j.c.out);
    if (j.c.in != out + j.e.rank * j.n_bytes)
        memmove(out + j.e.rank * j.n_bytes, j.c.in, j.n_bytes);
    options.setOutput(out, j.n_bytes * j.e.world_size);
    gloo::allgather(options);
}

/*
 * gloo has no such collective that works without a setup of its own, so this is the first half of its ring: in each
 * step a rank adds its own part to what it was given and passes that on, and in the last one it keeps it.
 */
void do_reduce_scatter(job &j)
{
    const uint32_t n = j.e.world_size;
    const uint32_t to = (j.e.rank + 1) % n, from = (j.e.rank + n - 1) % n;
    const uint64_t slot = gloo::Slot::build(slot_scatter, j.e.tag);
    auto part = [&](uint32_t back) {
        return static_cast<const uint8_t *>(j.c.in) + (j.e.rank + 2 * n - back) % n * j.n_bytes;
    };
    std::vector<uint8_t> memory[2];
    memory[0].resize(j.n_bytes);
    memory[1].resize(n > 2 ? j.n_bytes : 0);

    const void *passed = part(1);
    for (uint32_t step = 1; step < n; step++) {
        void *given = memory[step & 1 ? 0 : 1].data();
        auto sending = buffer_of(j, passed, j.n_bytes);
        auto receiving = buffer_of(j, given, j.n_bytes);
        receiving->recv((int)from, slot);
        sending->send((int)to, slot);
        receiving->waitRecv(j.timeout);
        sending->waitSend(j.timeout);
        j.reduce(step + 1 < n ? given : j.c.out, part(step + 1), given, j.c.count);
        passed = given;
    }
    divide_sum(j);
}

void do_send(job &j)
{
    j.e.exchange->send(j.c, j.n_bytes, j.timeout);
}

void do_recv(job &j)
{
    j.e.exchange->recv(j.c, j.n_bytes, j.timeout);
}

using doer = void (*)(job &);
constexpr doer doers[] = {do_barrier,    do_all_reduce,     do_reduce, do_broadcast,
                          do_all_gather, do_reduce_scatter, do_send,   do_recv};

bool is_reduction(const struct mr_collective &c)
{
    return c.kind == MR_COLLECTIVE_ALL_REDUCE || c.kind == MR_COLLECTIVE_REDUCE ||
           c.kind == MR_COLLECTIVE_REDUCE_SCATTER;
}

/* In the exchange: what every rank sends of one element after the other. */
size_t bytes_to_all(const job &j)
{
    return j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.n_bytes * j.e.world_size : j.n_bytes;
}

/* The result, of what all ranks have sent. */
void finish_exchange(job &j)
{
    const mr_gloo_exchange &given = *j.e.exchange;
    auto *out = static_cast<uint8_t *>(j.c.out);
    if (is_reduction(j.c) && (j.c.kind != MR_COLLECTIVE_REDUCE || j.e.rank == j.c.root)) {
        const uint8_t *in[mr_gloo_exchange::max_ranks];
        size_t own = j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.e.rank * j.n_bytes : 0;
        for (uint32_t rank = 0; rank < j.e.world_size; rank++)
            in[rank] = given.of_rank(rank) + own;
        mr_gloo_reduce_find_all(j.c.dtype, j.c.op)(out, in, j.e.world_size, j.c.count, j.c.op == MR_MEAN);
    }
    if (j.c.kind == MR_COLLECTIVE_BROADCAST)
        memcpy(out, given.of_rank(j.c.root), j.n_bytes);
    for (uint32_t rank = 0; rank < j.e.world_size && j.c.kind == MR_COLLECTIVE_ALL_GATHER; rank++)
        memcpy(out + rank * j.n_bytes, given.of_rank(rank), j.n_bytes);
}

/* Sums of 16-bit floats, in f32: a mean that fits does not overflow on the way. */
void do_halves(job &j)
{
    const uint32_t parts = j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.e.world_size : 1;
    const bool has_result = j.c.kind != MR_COLLECTIVE_REDUCE || j.e.rank == j.c.root;
    std::vector<float> memory((size_t)std::min(j.c.count, half_part) * (parts == 1 ? 1 : parts + 1));
    for (uint64_t first = 0; first < j.c.count; first += half_part) {
        const uint64_t count = std::min(j.c.count - first, half_part);
        float *out = parts == 1 ? memory.data() : memory.data() + parts * count;
        for (uint32_t part = 0; part < parts; part++)
            mr_gloo_reduce_widen(j.c.dtype, static_cast<const uint8_t *>(j.c.in) + 2 * (part * j.c.count + first),
                                 memory.data() + part * count, count);
        struct mr_collective c = j.c;
        c.in = memory.data();
        c.out = out;
        c.count = count;
        c.dtype = MR_F32;
        c.op = MR_SUM;
        job wide = {j.e,      c, sizeof(float), (size_t)count * sizeof(float), mr_gloo_reduce_find(MR_F32, MR_SUM),
                    j.timeout};
        j.e.tag++;
        doers[c.kind](wide);
        if (has_result)
            mr_gloo_reduce_narrow(j.c.dtype, out, j.c.op == MR_MEAN ? (float)j.e.world_size : 1,
                                  static_cast<uint8_t *>(j.c.out) + 2 * first, count);
    }
}

/* A collective of all ranks. */
void do_by_all(job &j)
{
    const bool is_short = bytes_to_all(j) <= mr_gloo_exchange::max_bytes;
    j.e.tag++;
    if (j.e.exchange->is_for_all()) {
        bool gives = is_short && (j.c.kind != MR_COLLECTIVE_BROADCAST || j.e.rank == j.c.root);
        j.e.exchange->all(j.c, j.c.in, gives ? bytes_to_all(j) : 0, j.e.tag, j.timeout);
        if (is_short) {
            finish_exchange(j);
            return;
        }
    }
    bool sums_halves = is_reduction(j.c) && j.size == 2 && (j.c.op == MR_SUM || j.c.op == MR_MEAN);
    sums_halves ? do_halves(j) : doers[j.c.kind](j);
}

/* gloo bounds single waits; the watch bounds the whole, and is the first to act. */
milliseconds gloo_timeout(uint64_t deadline_ns)
{
    uint64_t now_ns = mr_gloo_watch_now_ns();
    uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 : 0;
    return milliseconds(std::min<uint64_t>(left_ms, 100u * 24 * 3600 * 1000) + 5000);
}

void close_connections(engine &e) noexcept
{
    if (!e.closed && e.mesh.transport != nullptr)
        e.mesh.transport->close();
    e.closed = true;
}

/* The words of a failure, after the connections are closed. */
int32_t fail_collective(engine &e, const struct mr_collective &c, mr_gloo_watch::verdict verdict, int32_t status,
                        const char *what, mr_error *error)
{
    unsigned long long number = c.number;
    close_connections(e);
    if (verdict == mr_gloo_watch::STOPPED)
        return e.fail(error, MR_ERR_CANCELED, "gloo: %s %llu was stopped", kind_name(c.kind), number);
    if (verdict == mr_gloo_watch::LATE)
        return e.fail(error, MR_ERR_TIMEOUT, "gloo: %s %llu did not end by its deadline", kind_name(c.kind), number);
    return e.fail(error, status, "gloo: %s %llu: %s", kind_name(c.kind), number, what);
}

void do_watched(job &j, uint64_t deadline_ns, const volatile uint32_t *stop)
{
    bool by_two = j.c.kind == MR_COLLECTIVE_SEND || j.c.kind == MR_COLLECTIVE_RECV;
    j.e.watch.arm(j.e.mesh.transport, deadline_ns, stop);
    by_two ? doers[j.c.kind](j) : do_by_all(j);
}

int32_t run_watched(job &j, uint64_t deadline_ns, const volatile uint32_t *stop, mr_error *error)
{
    engine &e = j.e;
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
    mr_gloo_watch::verdict verdict = e.watch.disarm();
    if (status == MR_OK && verdict == mr_gloo_watch::NOBODY)
        return MR_OK;
    return fail_collective(e, j.c, verdict, status, words.c_str(), error);
}

/* In a world of one every result is the own part. */
int32_t run_alone(const struct mr_collective &c, size_t n_bytes)
{
    bool to_oneself = c.kind == MR_COLLECTIVE_SEND || c.kind == MR_COLLECTIVE_RECV;
    if (to_oneself)
        return MR_ERR_INVALID;
    if (n_bytes != 0 && c.in != nullptr && c.in != c.out)
        memmove(c.out, c.in, n_bytes);
    return MR_OK;
}

int32_t check_job(const job &j, mr_error *error)
{
    const struct mr_collective &c = j.c;
    size_t total;
    if (c.kind > MR_COLLECTIVE_RECV)
        return j.e.fail(error, MR_ERR_INVALID, "gloo: no collective has the number %u", c.kind);
    if (c.kind != MR_COLLECTIVE_BARRIER && j.size == 0)
        return j.e.fail(error, MR_ERR_INVALID, "gloo: dtype %u is not one of collectives", c.dtype);
    if (__builtin_mul_overflow(c.count, j.size * j.e.world_size, &total))
        return j.e.fail(error, MR_ERR_INVALID, "gloo: count %llu is too large", (unsigned long long)c.count);
    bool integer_mean = c.op == MR_MEAN && (c.dtype == MR_I32 || c.dtype == MR_I64);
    if (is_reduction(c) && (j.reduce == nullptr || integer_mean))
        return j.e.fail(error, MR_ERR_INVALID, "gloo: operation %u is not one of dtype %u", c.op, c.dtype);
    return MR_OK;
}

int32_t run_checked(engine &e, const struct mr_collective &c, uint64_t deadline_ns, const volatile uint32_t *stop,
                    mr_error *error)
{
    size_t size = c.kind == MR_COLLECTIVE_BARRIER ? 0 : mr_gloo_reduce_size(c.dtype);
    job j = {e, c, size, (size_t)c.count * size, mr_gloo_reduce_find(c.dtype, c.op), gloo_timeout(deadline_ns)};
    int32_t status = check_job(j, error);
    if (status != MR_OK)
        return status;
    if (e.world_size == 1)
        return run_alone(c, j.n_bytes);
    if (c.count == 0 && c.kind != MR_COLLECTIVE_BARRIER)
        return MR_OK; /* of all ranks: nothing to wait for */
    if (e.closed)
        return e.fail(error, MR_ERR_PEER, "gloo: the connections are closed since an earlier failure");
    if (stop != nullptr && __atomic_load_n(stop, __ATOMIC_ACQUIRE) != 0)
        return fail_collective(e, c, mr_gloo_watch::STOPPED, MR_ERR_CANCELED, "", error);
    return run_watched(j, deadline_ns, stop, error);
}

/*
 * gloo writes to connections that the other end may have closed. In a thread of ours signals are blocked, but a
 * blocking call runs in the program's, where SIGPIPE would end the process. A write that fails in the caller's thread
 * throws there, so that after a success there is nothing to take back.
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
    engine &e = *static_cast<engine *>(self);
    no_sigpipe quiet;
    try {
        int32_t status = run_checked(e, *collective, deadline_ns, stop, error);
        quiet.may_be_pending = status != MR_OK;
        return status;
    } catch (...) {
        e.watch.disarm();
        return fail_collective(e, *collective, mr_gloo_watch::NOBODY, MR_ERR_NO_MEMORY, "not enough memory", error);
    }
}

/* gloo's threads and ours inherit the mask of the one that makes them: no handler of the program shall run in them. */
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
    no_sigpipe quiet; /* outermost: what was pending is taken after the mask is as it was */
    all_signals_blocked blocked;
    auto made = std::make_unique<engine>();
    made->rank = setup.rank;
    made->world_size = setup.world_size;
    made->fail = setup.fail;
    if (setup.world_size > 1) {
        made->mesh = mr_gloo_mesh_connect(setup, made->watch, error);
        made->exchange = std::make_unique<mr_gloo_exchange>(made->mesh.context);
    }
    return made.release();
}

/* Who has connected to all might leave at once, while others are still connecting: so all wait for the last one. */
int32_t meet_ranks(engine &e, const struct mr_engine_setup &setup, mr_error *error)
{
    const struct mr_collective barrier = {};
    const volatile uint32_t never = 0;
    return setup.world_size > 1 ? engine_run(&e, &barrier, setup.deadline_ns, &never, error) : MR_OK;
}

int32_t engine_create(const struct mr_engine_setup *setup, void **engine_out, mr_error *error)
{
    *engine_out = nullptr;
    if (setup->abi != MR_ENGINE_ABI)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "gloo: the module is of engine version %u, the library of %u",
                           MR_ENGINE_ABI, setup->abi);
    try {
        std::unique_ptr<engine> made(static_cast<engine *>(make_engine(*setup, error)));
        int32_t status = meet_ranks(*made, *setup, error);
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
        return setup->fail(error, MR_ERR_IO, "gloo: while connecting: %s", mr_gloo_mesh_words(failure.what()).c_str());
    } catch (...) {
        return setup->fail(error, MR_ERR_IO, "gloo: while connecting: an exception of an unknown kind");
    }
}

/* Closing waits for nobody in either case: what a collective has sent is the kernel's, which still delivers it. */
void engine_destroy(void *self, bool healthy)
{
    auto *e = static_cast<engine *>(self);
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
