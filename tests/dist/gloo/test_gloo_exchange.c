/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gloo module adds to gloo: ranks whose calls differ are named, 16-bit sums are rounded
 * once, and buffers may have any address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dist/gloo/gloo_rig.h"

#define RUN_MS 20000
#define F16_60000 0x7b53 /* 60000 */

/* One engine, and the error of its last call. */
struct caller {
    const struct rig_rank *rank;
    void *engine;
    mr_error error;
};

static bool join(struct caller *caller, struct rig_rank *rank)
{
    *caller = (struct caller){.rank = rank};
    if (rank->table->create(&rank->setup, &caller->engine, &caller->error) == MR_OK)
        return true;
    printf("rank %u: %s\n", rank->setup.rank, caller->error.text);
    return false;
}

static void leave(struct caller *caller, bool healthy)
{
    caller->rank->table->destroy(caller->engine, healthy);
}

static int32_t call(struct caller *caller, const struct mr_collective *c)
{
    volatile uint32_t stop = 0;
    return rig_run(caller->rank->table, caller->engine, c, RUN_MS, &stop, &caller->error);
}

static int32_t all_reduce(struct caller *caller, void *buffer, uint64_t count, uint32_t dtype,
                          uint32_t op)
{
    struct mr_collective c = {.kind = MR_COLLECTIVE_ALL_REDUCE,
                              .in = buffer,
                              .out = buffer,
                              .count = count,
                              .dtype = dtype,
                              .op = op};
    return call(caller, &c);
}

/* user: two counts, for rank 0 and for the others. */
static int reduce_another_count(struct rig_rank *rank)
{
    const uint64_t *counts = rank->user;
    uint64_t count = counts[rank->setup.rank > 0];
    struct caller caller;
    char own[64];
    double *values = calloc(count, sizeof *values);
    if (!values || !join(&caller, rank))
        return 1;
    int32_t status = all_reduce(&caller, values, count, MR_F64, MR_SUM);
    snprintf(own, sizeof own, "rank %u all_reduce (%llu f64, sum)", rank->setup.rank,
             (unsigned long long)count);
    int wrong = status != MR_ERR_PEER || !strstr(caller.error.text, "calls all_reduce (") ||
                !strstr(caller.error.text, own);
    if (wrong)
        printf("rank %u: status %d, %s\n", rank->setup.rank, status, caller.error.text);
    leave(&caller, false);
    free(values);
    return wrong;
}

static void ranks_that_differ_in_the_count_are_named_and_no_process_ends(void **state)
{
    (void)state;
    static uint64_t counts[][2] = {{2, 3},      {3, 2},           {2, 100000},
                                   {100000, 2}, {100000, 100001}, {500001, 500000}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        assert_int_equal(rig_threads(3, reduce_another_count, counts[i]), 0);
}

static int call_another_collective(struct rig_rank *rank)
{
    struct caller caller;
    float values[8] = {0};
    if (!join(&caller, rank))
        return 1;
    struct mr_collective c = {.kind = MR_COLLECTIVE_BROADCAST,
                              .in = values,
                              .out = values,
                              .count = 8,
                              .dtype = MR_F32,
                              .root = 1};
    if (rank->setup.rank == 1)
        c.kind = MR_COLLECTIVE_BARRIER;
    int32_t status = call(&caller, &c);
    const char *said = rank->setup.rank == 1
                           ? "rank 0 calls broadcast (8 f32, root 1), rank 1 barrier"
                           : "rank 1 calls barrier, rank 0 broadcast (8 f32, root 1)";
    int wrong = status != MR_ERR_PEER || !strstr(caller.error.text, said);
    if (wrong)
        printf("status %d, %s\n", status, caller.error.text);
    leave(&caller, false);
    return wrong;
}

static void ranks_that_differ_in_the_collective_are_named(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, call_another_collective, NULL), 0);
}

static int send_another_count(struct rig_rank *rank)
{
    const uint64_t *counts = rank->user;
    bool sends = rank->setup.rank == 0;
    uint64_t count = counts[!sends];
    struct caller caller;
    int32_t *values = calloc(count, sizeof *values);
    if (!values || !join(&caller, rank))
        return 1;
    struct mr_collective c = {.kind = sends ? MR_COLLECTIVE_SEND : MR_COLLECTIVE_RECV,
                              .root = sends,
                              .in = values,
                              .out = values,
                              .count = count,
                              .dtype = MR_I32};
    int32_t status = call(&caller, &c);
    int wrong =
        !sends && (status != MR_ERR_PEER || !strstr(caller.error.text, "rank 0 calls send ("));
    if (wrong)
        printf("status %d, %s\n", status, caller.error.text);
    leave(&caller, false); /* this ends the sender, which would wait forever */
    free(values);
    return wrong;
}

static void a_receiver_of_another_count_reports_it(void **state)
{
    (void)state;
    static uint64_t counts[][2] = {{5, 3}, {3, 5}, {100000, 5}, {5, 100000}, {100000, 99999}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        assert_int_equal(rig_threads(2, send_another_count, counts[i]), 0);
}

/*
 * The mean of large numbers whose sum does not fit into the type, and 2048 + 1 + 1 = 2050, for few
 * and for many elements.
 */
static int average_halves(struct rig_rank *rank)
{
    static const uint64_t counts[] = {2, 2000, 2100, 300000};
    struct caller caller;
    uint32_t n_wrong = 0;
    uint16_t *values = malloc(300000 * sizeof *values);
    if (!values || !join(&caller, rank))
        return 1;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (uint64_t at = 0; at < counts[i]; at++)
            values[at] = F16_60000;
        n_wrong += all_reduce(&caller, values, counts[i], MR_F16, MR_MEAN) != MR_OK;
        for (uint64_t at = 0; at < counts[i]; at++)
            n_wrong += values[at] != F16_60000;
        for (uint64_t at = 0; at < counts[i]; at++)
            values[at] = rank->setup.rank == 0 ? 0x6800 : 0x3c00; /* 2048, 1 */
        n_wrong += all_reduce(&caller, values, counts[i], MR_F16, MR_SUM) != MR_OK;
        for (uint64_t at = 0; at < counts[i]; at++)
            n_wrong += values[at] != 0x6801; /* 2050 */
    }
    leave(&caller, n_wrong == 0);
    free(values);
    if (n_wrong > 0)
        printf("rank %u: %u wrong\n", rank->setup.rank, n_wrong);
    return n_wrong > 0;
}

static void halves_are_summed_in_f32_and_rounded_once(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(3, average_halves, NULL), 0);
}

/* reduce and reduce_scatter, with more elements than are widened to f32 at a time. */
static int scatter_halves(struct rig_rank *rank)
{
    const uint32_t n = rank->setup.world_size;
    const uint64_t count = 270001;
    struct caller caller;
    uint32_t n_wrong = 0;
    uint16_t *in = malloc(n * count * sizeof *in);
    uint16_t *out = malloc(count * sizeof *out);
    if (!in || !out || !join(&caller, rank))
        return 1;
    for (uint64_t i = 0; i < n * count; i++)
        in[i] = (uint16_t)(0x3f80 + i / count); /* bf16: about 1, different for each rank's part */
    struct mr_collective c = {
        .kind = MR_COLLECTIVE_REDUCE_SCATTER, .in = in, .out = out, .count = count, .op = MR_MEAN};
    c.dtype = MR_BF16;
    n_wrong += call(&caller, &c) != MR_OK;
    for (uint64_t i = 0; i < count; i++)
        n_wrong += out[i] != 0x3f80 + rank->setup.rank;
    memset(in, 0x11, count * sizeof *in);
    c = (struct mr_collective){.kind = MR_COLLECTIVE_REDUCE,
                               .in = in,
                               .out = in,
                               .count = count,
                               .dtype = MR_BF16,
                               .op = MR_MEAN,
                               .root = 1};
    n_wrong += call(&caller, &c) != MR_OK;
    for (uint64_t i = 0; i < count; i++)
        n_wrong += in[i] != 0x1111;
    leave(&caller, n_wrong == 0);
    free(in);
    free(out);
    if (n_wrong > 0)
        printf("rank %u: %u wrong\n", rank->setup.rank, n_wrong);
    return n_wrong > 0;
}

static void halves_are_rounded_once_in_reduce_and_reduce_scatter(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, scatter_halves, NULL), 0);
    assert_int_equal(rig_threads(3, scatter_halves, NULL), 0);
}

/* Short and long buffers at odd addresses. */
static int reduce_unaligned(struct rig_rank *rank)
{
    static const uint64_t counts[] = {3, 511, 512, 513, 40001};
    const double n = rank->setup.world_size;
    struct caller caller;
    uint32_t n_wrong = 0;
    char *memory = malloc(40002 * sizeof(double));
    if (!memory || !join(&caller, rank))
        return 1;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (uint32_t op = MR_SUM; op <= MR_MAX; op++) {
            double value = rank->setup.rank + 1.0;
            double wanted = op == MR_SUM    ? n * (n + 1) / 2
                            : op == MR_MEAN ? (n + 1) / 2
                            : op == MR_MIN  ? 1
                                            : n;
            for (uint64_t at = 0; at < counts[i]; at++)
                memcpy(memory + 1 + at * sizeof value, &value, sizeof value);
            n_wrong += all_reduce(&caller, memory + 1, counts[i], MR_F64, op) != MR_OK;
            for (uint64_t at = 0; at < counts[i]; at++)
                n_wrong += memcmp(memory + 1 + at * sizeof wanted, &wanted, sizeof wanted) != 0;
        }
    leave(&caller, n_wrong == 0);
    free(memory);
    if (n_wrong > 0)
        printf("rank %u of %u: %u wrong\n", rank->setup.rank, rank->setup.world_size, n_wrong);
    return n_wrong > 0;
}

static void two_to_eight_ranks_reduce_at_any_address(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n++)
        assert_int_equal(rig_threads(n, reduce_unaligned, NULL), 0);
}

/* 64 MiB of f32. */
static int reduce_64_mib(struct rig_rank *rank)
{
    const uint64_t count = 16u << 20;
    struct caller caller;
    uint32_t n_wrong = 0;
    float *values = malloc(count * sizeof *values);
    if (!values || !join(&caller, rank))
        return 1;
    for (uint64_t i = 0; i < count; i++)
        values[i] = (float)(i % 1000);
    n_wrong += all_reduce(&caller, values, count, MR_F32, MR_SUM) != MR_OK;
    for (uint64_t i = 0; i < count; i++)
        n_wrong += values[i] != (float)(i % 1000) * (float)rank->setup.world_size;
    leave(&caller, n_wrong == 0);
    free(values);
    return n_wrong > 0;
}

static void sixty_four_mebibytes_are_reduced(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, reduce_64_mib, NULL), 0);
    assert_int_equal(rig_threads(3, reduce_64_mib, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_differ_in_the_count_are_named_and_no_process_ends),
        cmocka_unit_test(ranks_that_differ_in_the_collective_are_named),
        cmocka_unit_test(a_receiver_of_another_count_reports_it),
        cmocka_unit_test(halves_are_summed_in_f32_and_rounded_once),
        cmocka_unit_test(halves_are_rounded_once_in_reduce_and_reduce_scatter),
        cmocka_unit_test(two_to_eight_ranks_reduce_at_any_address),
        cmocka_unit_test(sixty_four_mebibytes_are_reduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
