/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of each collective, computed by every rank alone. Values are small whole numbers, so
 * sums are exact in 16-bit floats too. i64 has large ones, which do not fit into 32 bits. Bytes
 * after each result must not change.
 */
#include "tests/dist/mpi/mpi_oracle.h"

#include "base/clock.h"
#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64u
#define GUARD_BYTE 0xa5
#define UNTOUCHED 0x5a

static const uint32_t dtypes[] = {MR_F16, MR_BF16, MR_F32, MR_F64, MR_I32, MR_I64};

static size_t size_of(uint32_t dtype)
{
    return dtype == MR_F16 || dtype == MR_BF16 ? 2 : dtype == MR_F64 || dtype == MR_I64 ? 8 : 4;
}

static bool is_whole(uint32_t dtype)
{
    return dtype == MR_I32 || dtype == MR_I64;
}

static void encode(uint32_t dtype, void *buffer, uint64_t i, double value)
{
    switch (dtype) {
    case MR_F16: ((uint16_t *)buffer)[i] = mr_half_f16((float)value); break;
    case MR_BF16: ((uint16_t *)buffer)[i] = mr_half_bf16((float)value); break;
    case MR_F32: ((float *)buffer)[i] = (float)value; break;
    case MR_F64: ((double *)buffer)[i] = value; break;
    case MR_I32: ((int32_t *)buffer)[i] = (int32_t)value; break;
    default: ((int64_t *)buffer)[i] = (int64_t)value; break;
    }
}

/* Element i of rank's input. */
static double make_value(uint32_t dtype, uint32_t rank, uint64_t i)
{
    uint64_t mixed = (i * 2654435761u + rank * 40503u + 12345u) ^ (i >> 7);
    double value = (double)(mixed % 31) - 15;
    return dtype == MR_I64 ? value * 1e11 : value;
}

static double combine_values(uint32_t dtype, uint32_t op, uint32_t n, uint64_t i)
{
    double result = make_value(dtype, 0, i);
    for (uint32_t rank = 1; rank < n; rank++) {
        double value = make_value(dtype, rank, i);
        if (op == MR_MIN)
            result = value < result ? value : result;
        else if (op == MR_MAX)
            result = value > result ? value : result;
        else
            result += value;
    }
    return op == MR_MEAN ? result / n : result;
}

/* A buffer with the rank's values, followed by guard bytes that must not change. */
static void *make_buffer(uint32_t dtype, uint32_t rank, uint64_t count)
{
    size_t len = count * size_of(dtype);
    uint8_t *buffer = malloc(len + GUARD);
    if (!buffer)
        abort();
    for (uint64_t i = 0; i < count; i++)
        encode(dtype, buffer, i, make_value(dtype, rank, i));
    memset(buffer + len, GUARD_BYTE, GUARD);
    return buffer;
}

static void *make_blank(uint32_t dtype, uint64_t count)
{
    void *buffer = make_buffer(dtype, 0, count);
    memset(buffer, UNTOUCHED, count * size_of(dtype));
    return buffer;
}

static void report_wrong(struct oracle *oracle, const char *what, uint32_t dtype, uint32_t op,
                         uint64_t count, uint64_t i)
{
    if (oracle->n_wrong++ < 8)
        fprintf(stderr,
                "rank %u of %u: %s, dtype %u, op %u, %llu elements: element %llu is wrong\n",
                oracle->rank, oracle->n, what, dtype, op, (unsigned long long)count,
                (unsigned long long)i);
}

/*
 * The values to compare with: the rank's from element first on, or with op the result of all ranks.
 */
struct expected {
    bool is_combined;
    uint32_t op;
    uint32_t rank;
    uint64_t first;
};

static void check(struct oracle *oracle, const char *what, uint32_t dtype, const void *buffer,
                  uint64_t at, uint64_t count, struct expected expected)
{
    size_t size = size_of(dtype);
    oracle->n_checked++;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t one[1];
        uint64_t from = expected.first + i;
        encode(dtype, one, 0,
               expected.is_combined ? combine_values(dtype, expected.op, oracle->n, from)
                                    : make_value(dtype, expected.rank, from));
        if (memcmp(one, (const uint8_t *)buffer + (at + i) * size, size) != 0) {
            report_wrong(oracle, what, dtype, expected.op, count, i);
            return;
        }
    }
}

static void check_guard(struct oracle *oracle, const char *what, uint32_t dtype, const void *buffer,
                        uint64_t count)
{
    const uint8_t *guard = (const uint8_t *)buffer + count * size_of(dtype);
    for (uint32_t i = 0; i < GUARD; i++)
        if (guard[i] != GUARD_BYTE) {
            report_wrong(oracle, what, dtype, 0, count, count);
            return;
        }
}

int32_t oracle_run(struct oracle *oracle, uint32_t kind, const void *in, void *out, uint64_t count,
                   uint32_t dtype, uint32_t op, uint32_t root, mr_error *error)
{
    static const uint32_t stop = 0;
    const struct mr_collective collective = {.kind = kind,
                                             .root = root,
                                             .in = in,
                                             .out = out,
                                             .count = count,
                                             .dtype = dtype,
                                             .op = op,
                                             .number = oracle->number++};
    return oracle->table->run(oracle->engine, &collective, mr_clock_now_ns() + 60000000000u, &stop,
                              error);
}

static void must_run(struct oracle *oracle, uint32_t kind, const void *in, void *out,
                     uint64_t count, uint32_t dtype, uint32_t op, uint32_t root)
{
    mr_error error = {0};
    if (oracle_run(oracle, kind, in, out, count, dtype, op, root, &error) != MR_OK) {
        fprintf(stderr, "rank %u: collective %u: %s\n", oracle->rank, kind, error.text);
        exit(1);
    }
}

static void try_all_reduce(struct oracle *oracle, uint64_t count, uint32_t dtype, uint32_t op)
{
    const struct expected expected = {.is_combined = true, .op = op};
    void *in = make_buffer(dtype, oracle->rank, count);
    void *out = make_blank(dtype, count);
    must_run(oracle, MR_COLLECTIVE_ALL_REDUCE, in, out, count, dtype, op, 0);
    check(oracle, "all_reduce", dtype, out, 0, count, expected);
    check_guard(oracle, "all_reduce", dtype, out, count);
    must_run(oracle, MR_COLLECTIVE_ALL_REDUCE, in, in, count, dtype, op, 0);
    check(oracle, "all_reduce in place", dtype, in, 0, count, expected);
    check_guard(oracle, "all_reduce in place", dtype, in, count);
    free(in);
    free(out);
}

static void try_reduce(struct oracle *oracle, uint64_t count, uint32_t dtype, uint32_t op,
                       uint32_t root)
{
    void *buffer = make_buffer(dtype, oracle->rank, count);
    must_run(oracle, MR_COLLECTIVE_REDUCE, buffer, buffer, count, dtype, op, root);
    if (oracle->rank == root)
        check(oracle, "reduce", dtype, buffer, 0, count,
              (struct expected){.is_combined = true, .op = op});
    check_guard(oracle, "reduce", dtype, buffer, count);
    free(buffer);
}

static void try_reduce_scatter(struct oracle *oracle, uint64_t count, uint32_t dtype, uint32_t op,
                               bool in_place)
{
    uint64_t first = oracle->rank * count;
    void *in = make_buffer(dtype, oracle->rank, count * oracle->n);
    void *blank = make_blank(dtype, count);
    void *out = in_place ? (uint8_t *)in + first * size_of(dtype) : blank;
    must_run(oracle, MR_COLLECTIVE_REDUCE_SCATTER, in, out, count, dtype, op, 0);
    check(oracle, "reduce_scatter", dtype, out, 0, count,
          (struct expected){.is_combined = true, .op = op, .first = first});
    check_guard(oracle, "reduce_scatter", dtype, blank, count);
    check_guard(oracle, "reduce_scatter's input", dtype, in, count * oracle->n);
    free(in);
    free(blank);
}

static void try_broadcast(struct oracle *oracle, uint64_t count, uint32_t dtype, uint32_t root)
{
    void *buffer =
        oracle->rank == root ? make_buffer(dtype, root, count) : make_blank(dtype, count);
    must_run(oracle, MR_COLLECTIVE_BROADCAST, buffer, buffer, count, dtype, 0, root);
    check(oracle, "broadcast", dtype, buffer, 0, count, (struct expected){.rank = root});
    check_guard(oracle, "broadcast", dtype, buffer, count);
    free(buffer);
}

static void try_all_gather(struct oracle *oracle, uint64_t count, uint32_t dtype, bool in_place)
{
    void *in = make_buffer(dtype, oracle->rank, count);
    void *out = make_blank(dtype, count * oracle->n);
    uint8_t *own = (uint8_t *)out + oracle->rank * count * size_of(dtype);
    if (in_place)
        memcpy(own, in, count * size_of(dtype));
    must_run(oracle, MR_COLLECTIVE_ALL_GATHER, in_place ? own : in, out, count, dtype, 0, 0);
    for (uint32_t rank = 0; rank < oracle->n; rank++)
        check(oracle, "all_gather", dtype, out, rank * count, count,
              (struct expected){.rank = rank});
    check_guard(oracle, "all_gather", dtype, out, count * oracle->n);
    free(in);
    free(out);
}

/*
 * Send to the next rank and receive from the one before. Every second rank sends first, so the ring
 * does not deadlock.
 */
static void try_ring(struct oracle *oracle, uint64_t count, uint32_t dtype)
{
    uint32_t to = (oracle->rank + 1) % oracle->n;
    uint32_t from = (oracle->rank + oracle->n - 1) % oracle->n;
    void *in = make_buffer(dtype, oracle->rank, count);
    void *out = make_blank(dtype, count);
    if (oracle->rank % 2 == 0)
        must_run(oracle, MR_COLLECTIVE_SEND, in, in, count, dtype, 0, to);
    must_run(oracle, MR_COLLECTIVE_RECV, out, out, count, dtype, 0, from);
    if (oracle->rank % 2 == 1)
        must_run(oracle, MR_COLLECTIVE_SEND, in, in, count, dtype, 0, to);
    check(oracle, "recv", dtype, out, 0, count, (struct expected){.rank = from});
    check_guard(oracle, "recv", dtype, out, count);
    free(in);
    free(out);
}

void oracle_try(struct oracle *oracle, uint64_t count)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        uint32_t dtype = dtypes[i];
        for (uint32_t op = MR_SUM; op <= MR_MAX; op++) {
            if (op == MR_MEAN && is_whole(dtype))
                continue;
            try_all_reduce(oracle, count, dtype, op);
            for (uint32_t root = 0; root < oracle->n; root++)
                try_reduce(oracle, count, dtype, op, root);
            try_reduce_scatter(oracle, count, dtype, op, false);
            try_reduce_scatter(oracle, count, dtype, op, true);
        }
        for (uint32_t root = 0; root < oracle->n; root++)
            try_broadcast(oracle, count, dtype, root);
        try_all_gather(oracle, count, dtype, false);
        try_all_gather(oracle, count, dtype, true);
        if (oracle->n > 1)
            try_ring(oracle, count, dtype);
    }
    must_run(oracle, MR_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0, 0);
}
