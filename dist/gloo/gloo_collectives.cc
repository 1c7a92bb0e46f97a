/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives of the gloo engine.
 *
 * In a collective of up to 4 KiB every rank sends its data to every other rank, and each rank
 * computes the result in the order of the ranks. In a longer one the ranks first exchange only a
 * description of the call, then gloo's own collective runs. With more than 16 ranks all collectives
 * are gloo's own.
 */
#include "dist/gloo/gloo_collectives.hh"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>
#include <gloo/types.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace
{

/* gloo's own collectives use the prefixes 1 to 8; gloo_exchange.cc uses 0x42 and 0x44. */
constexpr uint8_t slot_scatter = 0x41;

constexpr uint64_t half_part = 1u << 18; /* 16-bit elements that are widened to f32 at a time */

/* gloo takes pointers that are not const, but only reads what it sends. */
std::unique_ptr<gloo::transport::UnboundBuffer> make_buffer(mr_gloo_job &j, const void *data,
                                                            size_t n_bytes)
{
    return j.e.mesh.context->createUnboundBuffer(const_cast<void *>(data), n_bytes);
}

template <typename Options> void set_common(Options &options, mr_gloo_job &j)
{
    options.setTag(j.e.tag);
    options.setTimeout(j.timeout);
}

/* gloo asks for an element's type, but uses only its size. */
template <typename Options> void set_output(Options &options, mr_gloo_job &j)
{
    switch (j.size) {
    case 2: options.setOutput(static_cast<uint16_t *>(j.c.out), j.c.count); break;
    case 4: options.setOutput(static_cast<uint32_t *>(j.c.out), j.c.count); break;
    default: options.setOutput(static_cast<uint64_t *>(j.c.out), j.c.count); break;
    }
}

void copy_into_place(mr_gloo_job &j)
{
    if (j.c.in != nullptr && j.c.in != j.c.out)
        memmove(j.c.out, j.c.in, j.n_bytes);
}

void do_barrier(mr_gloo_job &j)
{
    gloo::BarrierOptions options(j.e.mesh.context);
    set_common(options, j);
    gloo::barrier(options);
}

void divide_sum(mr_gloo_job &j)
{
    if (j.c.op == MR_MEAN)
        mr_gloo_reduce_divide(j.c.dtype, j.c.out, j.c.count, j.e.world_size);
}

void do_all_reduce(mr_gloo_job &j)
{
    gloo::AllreduceOptions options(j.e.mesh.context);
    set_common(options, j);
    copy_into_place(j);
    set_output(options, j);
    options.setReduceFunction(j.reduce);
    gloo::allreduce(options);
    divide_sum(j);
}

void do_reduce(mr_gloo_job &j)
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

void do_broadcast(mr_gloo_job &j)
{
    gloo::BroadcastOptions options(j.e.mesh.context);
    set_common(options, j);
    if (j.e.rank == j.c.root)
        copy_into_place(j);
    set_output(options, j);
    options.setRoot((int)j.c.root);
    gloo::broadcast(options);
}

void do_all_gather(mr_gloo_job &j)
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
 * gloo's reduce_scatter needs a setup for each call, so this is the first half of a ring. In each
 * step a rank adds its own part to the sum it received and passes the result on. In the last step
 * it stores the result.
 */
void do_reduce_scatter(mr_gloo_job &j)
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

    const void *to_send = part(1);
    for (uint32_t step = 1; step < n; step++) {
        void *received = memory[step & 1 ? 0 : 1].data();
        auto sending = make_buffer(j, to_send, j.n_bytes);
        auto receiving = make_buffer(j, received, j.n_bytes);
        receiving->recv((int)from, slot);
        sending->send((int)to, slot);
        receiving->waitRecv(j.timeout);
        sending->waitSend(j.timeout);
        j.reduce(step + 1 < n ? received : j.c.out, part(step + 1), received, j.c.count);
        to_send = received;
    }
    divide_sum(j);
}

void do_send(mr_gloo_job &j)
{
    j.e.exchange->send_message(j.c, j.n_bytes, j.timeout);
}

void do_recv(mr_gloo_job &j)
{
    j.e.exchange->receive_message(j.c, j.n_bytes, j.timeout);
}

using collective_function = void (*)(mr_gloo_job &);
constexpr collective_function functions[] = {do_barrier,   do_all_reduce, do_reduce,
                                             do_broadcast, do_all_gather, do_reduce_scatter,
                                             do_send,      do_recv};

/* Bytes that a rank sends in a short collective. */
size_t bytes_to_all(const mr_gloo_job &j)
{
    return j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.n_bytes * j.e.world_size : j.n_bytes;
}

/* Compute the result from the data of all ranks. */
void finish_exchange(mr_gloo_job &j)
{
    const mr_gloo_exchange &received = *j.e.exchange;
    auto *out = static_cast<uint8_t *>(j.c.out);
    if (mr_gloo_collectives_is_reduction(j.c) &&
        (j.c.kind != MR_COLLECTIVE_REDUCE || j.e.rank == j.c.root)) {
        const uint8_t *in[mr_gloo_exchange::max_ranks];
        size_t own = j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.e.rank * j.n_bytes : 0;
        for (uint32_t rank = 0; rank < j.e.world_size; rank++)
            in[rank] = received.of_rank(rank) + own;
        mr_gloo_reduce_find_all(j.c.dtype, j.c.op)(out, in, j.e.world_size, j.c.count,
                                                   j.c.op == MR_MEAN);
    }
    if (j.c.kind == MR_COLLECTIVE_BROADCAST)
        memcpy(out, received.of_rank(j.c.root), j.n_bytes);
    for (uint32_t rank = 0; rank < j.e.world_size && j.c.kind == MR_COLLECTIVE_ALL_GATHER; rank++)
        memcpy(out + rank * j.n_bytes, received.of_rank(rank), j.n_bytes);
}

/* Sum 16-bit floats in f32, so that a mean that fits into 16 bits does not overflow on the way. */
void sum_halves(mr_gloo_job &j)
{
    const uint32_t parts = j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.e.world_size : 1;
    const bool has_result = j.c.kind != MR_COLLECTIVE_REDUCE || j.e.rank == j.c.root;
    std::vector<float> memory((size_t)std::min(j.c.count, half_part) *
                              (parts == 1 ? 1 : parts + 1));
    for (uint64_t first = 0; first < j.c.count; first += half_part) {
        const uint64_t count = std::min(j.c.count - first, half_part);
        float *out = parts == 1 ? memory.data() : memory.data() + parts * count;
        for (uint32_t part = 0; part < parts; part++)
            mr_gloo_reduce_widen(
                j.c.dtype, static_cast<const uint8_t *>(j.c.in) + 2 * (part * j.c.count + first),
                memory.data() + part * count, count);
        struct mr_collective c = j.c;
        c.in = memory.data();
        c.out = out;
        c.count = count;
        c.dtype = MR_F32;
        c.op = MR_SUM;
        mr_gloo_job wide = {j.e,
                            c,
                            sizeof(float),
                            (size_t)count * sizeof(float),
                            mr_gloo_reduce_find(MR_F32, MR_SUM),
                            j.timeout};
        j.e.tag++;
        functions[c.kind](wide);
        if (has_result)
            mr_gloo_reduce_narrow(j.c.dtype, out, j.c.op == MR_MEAN ? (float)j.e.world_size : 1,
                                  static_cast<uint8_t *>(j.c.out) + 2 * first, count);
    }
}

void run_on_all(mr_gloo_job &j)
{
    const bool is_short = bytes_to_all(j) <= mr_gloo_exchange::max_bytes;
    j.e.tag++;
    if (j.e.exchange->is_for_all()) {
        bool sends_data = is_short && (j.c.kind != MR_COLLECTIVE_BROADCAST || j.e.rank == j.c.root);
        j.e.exchange->exchange_all(j.c, j.c.in, sends_data ? bytes_to_all(j) : 0, j.e.tag,
                                   j.timeout);
        if (is_short) {
            finish_exchange(j);
            return;
        }
    }
    bool sums_halves = mr_gloo_collectives_is_reduction(j.c) && j.size == 2 &&
                       (j.c.op == MR_SUM || j.c.op == MR_MEAN);
    sums_halves ? sum_halves(j) : functions[j.c.kind](j);
}

} // namespace

bool mr_gloo_collectives_is_reduction(const struct mr_collective &c)
{
    return c.kind == MR_COLLECTIVE_ALL_REDUCE || c.kind == MR_COLLECTIVE_REDUCE ||
           c.kind == MR_COLLECTIVE_REDUCE_SCATTER;
}

void mr_gloo_collectives_do(mr_gloo_job &j)
{
    bool is_pair = j.c.kind == MR_COLLECTIVE_SEND || j.c.kind == MR_COLLECTIVE_RECV;
    is_pair ? functions[j.c.kind](j) : run_on_all(j);
}
