/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective of the gloo engine.
 *
 * One of up to 4 KiB is one exchange of every rank with every other one, after which each rank
 * computes the result in the order of the ranks. A longer one begins with an exchange of what each
 * rank is about to do, and is then gloo's own. Above 16 ranks all are gloo's.
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

/* gloo's own collectives have the prefixes 1 to 8; 0x42 and 0x44 are the exchange's. */
constexpr uint8_t slot_scatter = 0x41;

constexpr uint64_t half_part = 1u << 18; /* elements of 16 bits that are made f32 at a time */

/* gloo sends and receives by pointers that are not const; it only reads what it sends. */
std::unique_ptr<gloo::transport::UnboundBuffer> buffer_of(mr_gloo_job &j, const void *data,
                                                          size_t n_bytes)
{
    return j.e.mesh.context->createUnboundBuffer(const_cast<void *>(data), n_bytes);
}

template <typename Options> void set_common(Options &options, mr_gloo_job &j)
{
    options.setTag(j.e.tag);
    options.setTimeout(j.timeout);
}

/* gloo asks for the type of an element, of which it uses the size alone. */
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
 * gloo has no such collective that works without a setup of its own, so this is the first half of
 * its ring: in each step a rank adds its own part to what it was given and passes that on, and in
 * the last one it keeps it.
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

void do_send(mr_gloo_job &j)
{
    j.e.exchange->send_message(j.c, j.n_bytes, j.timeout);
}

void do_recv(mr_gloo_job &j)
{
    j.e.exchange->receive_message(j.c, j.n_bytes, j.timeout);
}

using doer = void (*)(mr_gloo_job &);
constexpr doer doers[] = {do_barrier,    do_all_reduce,     do_reduce, do_broadcast,
                          do_all_gather, do_reduce_scatter, do_send,   do_recv};

/* In the exchange: what every rank sends of one element after the other. */
size_t bytes_to_all(const mr_gloo_job &j)
{
    return j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.n_bytes * j.e.world_size : j.n_bytes;
}

/* The result, of what all ranks have sent. */
void finish_exchange(mr_gloo_job &j)
{
    const mr_gloo_exchange &given = *j.e.exchange;
    auto *out = static_cast<uint8_t *>(j.c.out);
    if (mr_gloo_collectives_is_reduction(j.c) &&
        (j.c.kind != MR_COLLECTIVE_REDUCE || j.e.rank == j.c.root)) {
        const uint8_t *in[mr_gloo_exchange::max_ranks];
        size_t own = j.c.kind == MR_COLLECTIVE_REDUCE_SCATTER ? j.e.rank * j.n_bytes : 0;
        for (uint32_t rank = 0; rank < j.e.world_size; rank++)
            in[rank] = given.of_rank(rank) + own;
        mr_gloo_reduce_find_all(j.c.dtype, j.c.op)(out, in, j.e.world_size, j.c.count,
                                                   j.c.op == MR_MEAN);
    }
    if (j.c.kind == MR_COLLECTIVE_BROADCAST)
        memcpy(out, given.of_rank(j.c.root), j.n_bytes);
    for (uint32_t rank = 0; rank < j.e.world_size && j.c.kind == MR_COLLECTIVE_ALL_GATHER; rank++)
        memcpy(out + rank * j.n_bytes, given.of_rank(rank), j.n_bytes);
}

/* Sums of 16-bit floats, in f32: a mean that fits does not overflow on the way. */
void do_halves(mr_gloo_job &j)
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
        doers[c.kind](wide);
        if (has_result)
            mr_gloo_reduce_narrow(j.c.dtype, out, j.c.op == MR_MEAN ? (float)j.e.world_size : 1,
                                  static_cast<uint8_t *>(j.c.out) + 2 * first, count);
    }
}

/* A collective of all ranks. */
void do_by_all(mr_gloo_job &j)
{
    const bool is_short = bytes_to_all(j) <= mr_gloo_exchange::max_bytes;
    j.e.tag++;
    if (j.e.exchange->is_for_all()) {
        bool gives = is_short && (j.c.kind != MR_COLLECTIVE_BROADCAST || j.e.rank == j.c.root);
        j.e.exchange->exchange_all(j.c, j.c.in, gives ? bytes_to_all(j) : 0, j.e.tag, j.timeout);
        if (is_short) {
            finish_exchange(j);
            return;
        }
    }
    bool sums_halves = mr_gloo_collectives_is_reduction(j.c) && j.size == 2 &&
                       (j.c.op == MR_SUM || j.c.op == MR_MEAN);
    sums_halves ? do_halves(j) : doers[j.c.kind](j);
}

} // namespace

bool mr_gloo_collectives_is_reduction(const struct mr_collective &c)
{
    return c.kind == MR_COLLECTIVE_ALL_REDUCE || c.kind == MR_COLLECTIVE_REDUCE ||
           c.kind == MR_COLLECTIVE_REDUCE_SCATTER;
}

void mr_gloo_collectives_do(mr_gloo_job &j)
{
    bool by_two = j.c.kind == MR_COLLECTIVE_SEND || j.c.kind == MR_COLLECTIVE_RECV;
    by_two ? doers[j.c.kind](j) : do_by_all(j);
}
