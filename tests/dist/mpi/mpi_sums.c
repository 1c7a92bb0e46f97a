/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions whose results are not whole numbers or are near the end of a type's range, and buffers
 * at odd addresses. An inexact sum depends on MPI's order of additions, so it is compared with a
 * bound, but all ranks must have the same bits.
 */
#include "tests/dist/mpi/mpi_sums.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F16_60000 0x7b53

#define must(oracle, condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u: %s:%d: %s does not hold\n", (oracle)->rank, __FILE__,        \
                    __LINE__, #condition);                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double uniform(uint32_t seed)
{
    uint32_t mixed = (seed * 2654435761u) ^ (seed >> 5);
    mixed = (mixed ^ mixed >> 15) * 2246822519u;
    return (double)(mixed >> 8) / (1 << 24) * 2 - 1;
}

enum { N_ROUNDED = 4096 };

static void encode(uint32_t dtype, void *buffer, uint32_t i, double value)
{
    if (dtype == MR_F32)
        ((float *)buffer)[i] = (float)value;
    else
        ((uint16_t *)buffer)[i] =
            dtype == MR_F16 ? mr_half_f16((float)value) : mr_half_bf16((float)value);
}

static double decode(uint32_t dtype, const void *buffer, uint32_t i)
{
    if (dtype == MR_F32)
        return ((const float *)buffer)[i];
    uint32_t bits = ((const uint16_t *)buffer)[i];
    int width = dtype == MR_F16 ? 10 : 7; /* bits of the mantissa */
    int bias = dtype == MR_F16 ? 15 : 127;
    int exponent = (int)(bits & 0x7fff) >> width;
    double mantissa = (double)(bits & ((1u << width) - 1)) + (exponent ? exp2(width) : 0);
    return ldexp(bits & 0x8000 ? -mantissa : mantissa, (exponent ? exponent : 1) - bias - width);
}

/*
 * Inexact sums: n inputs and n - 1 additions, each rounded by half a unit of at most n. All ranks
 * get the same bits.
 */
static void try_rounding(struct oracle *oracle, uint32_t dtype, double half_unit)
{
    static double buffer[N_ROUNDED];
    static double all[N_ROUNDED * 8];
    mr_error error = {0};
    size_t len = N_ROUNDED * (dtype == MR_F32 ? 4 : 2);
    for (uint32_t i = 0; i < N_ROUNDED; i++)
        encode(dtype, buffer, i, uniform(oracle->rank * N_ROUNDED + i));
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_REDUCE, buffer, buffer, N_ROUNDED, dtype,
                            MR_SUM, 0, &error) == MR_OK);
    for (uint32_t i = 0; i < N_ROUNDED; i++) {
        double exact = 0;
        for (uint32_t rank = 0; rank < oracle->n; rank++)
            exact += uniform(rank * N_ROUNDED + i);
        must(oracle, fabs(decode(dtype, buffer, i) - exact) <= oracle->n * oracle->n * half_unit);
    }
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_GATHER, buffer, all, N_ROUNDED, dtype, 0, 0,
                            &error) == MR_OK);
    for (uint32_t rank = 0; rank < oracle->n; rank++)
        must(oracle, memcmp((char *)all + rank * len, buffer, len) == 0);
    oracle->n_checked++;
}

static void fill_halves(uint16_t *halves, uint64_t count, uint16_t half)
{
    for (uint64_t i = 0; i < count; i++)
        halves[i] = half;
}

static void must_be_halves(const struct oracle *oracle, const uint16_t *halves, uint64_t count,
                           uint16_t half)
{
    for (uint64_t i = 0; i < count; i++)
        must(oracle, halves[i] == half);
}

/* The mean of 60000 by each reduction, with more elements than are widened to f32 at a time. */
static void average_large(struct oracle *oracle, uint64_t count)
{
    mr_error error = {0};
    uint16_t *in = malloc(count * oracle->n * sizeof *in);
    uint16_t *out = malloc(count * sizeof *out);
    must(oracle, in && out);
    fill_halves(in, count * oracle->n, F16_60000);
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_REDUCE, in, out, count, MR_F16, MR_MEAN, 0,
                            &error) == MR_OK);
    must_be_halves(oracle, out, count, F16_60000);
    fill_halves(out, count, 0);
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_REDUCE_SCATTER, in, out, count, MR_F16, MR_MEAN,
                            0, &error) == MR_OK);
    must_be_halves(oracle, out, count, F16_60000);
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_REDUCE, out, out, count, MR_F16, MR_MEAN, 1,
                            &error) == MR_OK);
    must(oracle, oracle->rank != 1 || out[count - 1] == F16_60000);
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_REDUCE, in, in, count, MR_F16, MR_SUM, 0,
                            &error) == MR_OK);
    must_be_halves(oracle, in, count, 0x7c00); /* the sum does not fit into the type: infinity */
    free(in);
    free(out);
    oracle->n_checked++;
}

/* Doubles and whole numbers that begin at odd addresses, in place and between two buffers. */
static void try_unaligned(struct oracle *oracle, uint32_t shift, uint64_t count)
{
    mr_error error = {0};
    char *in = malloc(count * oracle->n * sizeof(double) + shift);
    char *out = malloc(count * oracle->n * sizeof(double) + shift);
    const double own = oracle->rank + 1.0;
    const double sum = oracle->n * (oracle->n + 1) / 2.0;
    must(oracle, in && out);
    for (uint64_t i = 0; i < count * oracle->n; i++)
        memcpy(in + shift + i * sizeof own, &own, sizeof own);
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_GATHER, in + shift, out + shift, count,
                            MR_F64, 0, 0, &error) == MR_OK);
    for (uint64_t i = 0; i < count * oracle->n; i++) {
        double given = (double)(i / count) + 1;
        must(oracle, memcmp(out + shift + i * sizeof given, &given, sizeof given) == 0);
    }
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_REDUCE_SCATTER, in + shift, out + shift, count,
                            MR_F64, MR_SUM, 0, &error) == MR_OK);
    must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_REDUCE, in + shift, in + shift, count, MR_F64,
                            MR_MEAN, 0, &error) == MR_OK);
    for (uint64_t i = 0; i < count; i++) {
        const double mean = sum / oracle->n;
        must(oracle, memcmp(out + shift + i * sizeof sum, &sum, sizeof sum) == 0);
        must(oracle, memcmp(in + shift + i * sizeof mean, &mean, sizeof mean) == 0);
    }
    free(in);
    free(out);
    oracle->n_checked++;
}

/* The same for 16-bit floats, whose minima use the module's own operation. */
static void try_unaligned_halves(struct oracle *oracle, uint64_t count)
{
    mr_error error = {0};
    char *buffer = malloc(count * 2 + 1);
    must(oracle, buffer);
    for (uint32_t op = MR_SUM; op <= MR_MAX; op++) {
        double n = oracle->n;
        double wanted = op == MR_SUM    ? n * (n + 1) / 2
                        : op == MR_MEAN ? (n + 1) / 2
                        : op == MR_MIN  ? 1
                                        : n;
        uint16_t own = mr_half_f16((float)oracle->rank + 1);
        uint16_t result = mr_half_f16((float)wanted);
        for (uint64_t i = 0; i < count; i++)
            memcpy(buffer + 1 + i * sizeof own, &own, sizeof own);
        must(oracle, oracle_run(oracle, MR_COLLECTIVE_ALL_REDUCE, buffer + 1, buffer + 1, count,
                                MR_F16, op, 0, &error) == MR_OK);
        for (uint64_t i = 0; i < count; i++)
            must(oracle, memcmp(buffer + 1 + i * sizeof result, &result, sizeof result) == 0);
    }
    free(buffer);
}

void mpi_sums_try_rounding(struct oracle *oracle)
{
    must(oracle, oracle->n <= 8);
    try_rounding(oracle, MR_F16, 0x1p-11);
    try_rounding(oracle, MR_BF16, 0x1p-8);
    try_rounding(oracle, MR_F32, 0x1p-24);
}

void mpi_sums_try_overflow(struct oracle *oracle)
{
    average_large(oracle, 3);
    average_large(oracle, 300000);
}

void mpi_sums_try_unaligned(struct oracle *oracle)
{
    static const uint64_t counts[] = {1, 3, 1000, 70001};
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        try_unaligned(oracle, 1, counts[i]);
        try_unaligned(oracle, 4, counts[i]);
        try_unaligned_halves(oracle, counts[i]);
    }
}
