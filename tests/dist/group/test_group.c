/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A healthy group: every collective over 2 and 4 ranks, in order, in the background, and with wrong
 * arguments.
 */
#include "tests/dist/group/group_rig.h"

#include <millrace/loader.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"

#define MANY 9000 /* elements: several chunks of the double */

static void check_rank_and_size(mr_group *group, void *arg)
{
    uint32_t n = *(uint32_t *)arg;
    RIG_CHECK(group, mr_group_world_size(group) == n);
    RIG_CHECK(group, mr_group_rank(group) < n);
    RIG_CHECK(group, mr_group_local_world_size(group) == n);
    RIG_CHECK(group, mr_group_local_rank(group) == mr_group_rank(group));
    RIG_CHECK(group, mr_group_node(group) == 0);
    RIG_CHECK(group, strcmp(mr_group_backend(group), "double") == 0);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
}

static void all_reduces(mr_group *group, void *arg)
{
    uint32_t n = mr_group_world_size(group);
    uint32_t rank = mr_group_rank(group);
    double *x = malloc(MANY * sizeof *x);
    int32_t i32[3] = {(int32_t)rank, -(int32_t)rank, 7};
    int64_t i64 = (int64_t)1 << (40 + rank);
    float f32 = 0.5f * (float)(rank + 1);
    (void)arg;
    for (uint32_t i = 0; i < MANY; i++)
        x[i] = (double)(rank + 1) * i;
    RIG_CHECK(group, mr_group_all_reduce(group, x, MANY, MR_F64, MR_SUM) == MR_OK);
    for (uint32_t i = 0; i < MANY; i++)
        RIG_CHECK(group, x[i] == (double)(n * (n + 1) / 2) * i);
    free(x);
    RIG_CHECK(group, mr_group_all_reduce(group, i32, 3, MR_I32, MR_MAX) == MR_OK);
    RIG_CHECK(group, i32[0] == (int32_t)n - 1 && i32[1] == 0 && i32[2] == 7);
    RIG_CHECK(group, mr_group_all_reduce(group, &i64, 1, MR_I64, MR_SUM) == MR_OK);
    RIG_CHECK(group, i64 == (((int64_t)1 << n) - 1) << 40);
    RIG_CHECK(group, mr_group_all_reduce(group, &f32, 1, MR_F32, MR_MIN) == MR_OK);
    RIG_CHECK(group, f32 == 0.5f);
}

/* 1 / 3 + 2 / 3 and so on: one sum and one division. */
static void means(mr_group *group, void *arg)
{
    uint32_t n = mr_group_world_size(group);
    double sum = 0;
    double own = (mr_group_rank(group) + 1) / 3.0;
    double root = own;
    float f32[2] = {(float)mr_group_rank(group), 3};
    uint16_t half[2] = {mr_half_f16((float)mr_group_rank(group)), mr_half_f16(-6.103515625e-05f)};
    uint16_t brain = mr_half_bf16(-2.0f * (float)mr_group_rank(group));
    double each[4];
    double scattered;
    (void)arg;
    for (uint32_t r = 0; r < n; r++)
        sum += (r + 1) / 3.0;
    for (uint32_t r = 0; r < n; r++)
        each[r] = own + r;
    RIG_CHECK(group, mr_group_all_reduce(group, &own, 1, MR_F64, MR_MEAN) == MR_OK);
    RIG_CHECK(group, own == sum / n);
    RIG_CHECK(group, mr_group_reduce(group, &root, 1, MR_F64, MR_MEAN, n - 1) == MR_OK);
    RIG_CHECK(group, mr_group_rank(group) != n - 1 || root == sum / n);
    RIG_CHECK(group, mr_group_all_reduce(group, f32, 2, MR_F32, MR_MEAN) == MR_OK);
    RIG_CHECK(group, f32[0] == (float)(n - 1) / 2 && f32[1] == 3);
    RIG_CHECK(group, mr_group_all_reduce(group, half, 2, MR_F16, MR_MEAN) == MR_OK);
    RIG_CHECK(group, half[0] == mr_half_f16((float)(n - 1) / 2) &&
                         half[1] == mr_half_f16(-6.103515625e-05f));
    uint16_t large = mr_half_f16(60000); /* whose sum does not fit into f16 */
    RIG_CHECK(group, mr_group_all_reduce(group, &large, 1, MR_F16, MR_MEAN) == MR_OK &&
                         large == mr_half_f16(60000));
    RIG_CHECK(group, mr_group_all_reduce(group, &brain, 1, MR_BF16, MR_MEAN) == MR_OK);
    RIG_CHECK(group, brain == mr_half_bf16(-(float)(n - 1)));
    RIG_CHECK(group, mr_group_reduce_scatter(group, each, &scattered, 1, MR_F64, MR_MEAN) == MR_OK);
    double expected = 0;
    for (uint32_t r = 0; r < n; r++)
        expected += (r + 1) / 3.0 + mr_group_rank(group);
    RIG_CHECK(group, scattered == expected / n);
}

static void other_collectives(mr_group *group, void *arg)
{
    uint32_t n = mr_group_world_size(group);
    uint32_t rank = mr_group_rank(group);
    int64_t in[2] = {rank, 10 * rank};
    int64_t out[8];
    int32_t blocks[4] = {0};
    int32_t own = -1;
    (void)arg;
    RIG_CHECK(group, mr_group_all_gather(group, in, out, 2, MR_I64) == MR_OK);
    for (uint32_t r = 0; r < n; r++)
        RIG_CHECK(group, out[2 * r] == r && out[2 * r + 1] == 10 * r);
    RIG_CHECK(group, mr_group_broadcast(group, in, 2, MR_I64, n - 1) == MR_OK);
    RIG_CHECK(group, in[0] == n - 1 && in[1] == 10 * (n - 1));
    for (uint32_t r = 0; r < n; r++)
        blocks[r] = (int32_t)(100 * r + rank);
    RIG_CHECK(group, mr_group_reduce_scatter(group, blocks, &own, 1, MR_I32, MR_MAX) == MR_OK);
    RIG_CHECK(group, own == (int32_t)(100 * rank + n - 1));
    int32_t reduced = (int32_t)rank + 1;
    RIG_CHECK(group, mr_group_reduce(group, &reduced, 1, MR_I32, MR_SUM, 1) == MR_OK);
    RIG_CHECK(group, rank != 1 || reduced == (int32_t)(n * (n + 1) / 2));
}

/* A ring: messages and collectives are numbered separately. */
static void messages(mr_group *group, void *arg)
{
    uint32_t n = mr_group_world_size(group);
    uint32_t rank = mr_group_rank(group);
    float *x = malloc(MANY * sizeof *x);
    (void)arg;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MANY; i++)
            x[i] = (float)(rank * 100000 + i + round);
        if (rank == 0)
            RIG_CHECK(group, mr_group_send(group, x, MANY, MR_F32, 1) == MR_OK);
        RIG_CHECK(group, mr_group_recv(group, x, MANY, MR_F32, (rank + n - 1) % n) == MR_OK);
        for (uint32_t i = 0; i < MANY; i++)
            RIG_CHECK(group, x[i] == (float)((rank + n - 1) % n * 100000 + i + round));
        for (uint32_t i = 0; i < MANY; i++)
            x[i] = (float)(rank * 100000 + i + round);
        if (rank != 0)
            RIG_CHECK(group, mr_group_send(group, x, MANY, MR_F32, (rank + 1) % n) == MR_OK);
    }
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    free(x);
}

/*
 * The double refuses collectives whose numbers differ, so this fails unless they run in program
 * order.
 */
static void in_the_background(mr_group *group, void *arg)
{
    enum { N = 40 };
    mr_group_work *works[N];
    double x[N];
    double sum = mr_group_world_size(group) * (mr_group_world_size(group) + 1) / 2;
    (void)arg;
    for (int i = 0; i < N; i++) {
        x[i] = (mr_group_rank(group) + 1) * (i + 1);
        RIG_CHECK(group, mr_group_all_reduce_async(group, &x[i], 1, MR_F64, MR_SUM, NULL,
                                                   &works[i]) == MR_OK);
        if (i % 7 == 0) {
            double y = 1;
            RIG_CHECK(group, mr_group_all_reduce(group, &y, 1, MR_F64, MR_SUM) == MR_OK);
            RIG_CHECK(group, y == mr_group_world_size(group));
            RIG_CHECK(group, mr_group_work_test(works[i]) == MR_OK); /* ended before */
        }
    }
    RIG_CHECK(group, mr_group_work_sync(works[N - 1], MR_FOREVER) == MR_OK);
    for (int i = 0; i < N; i++) {
        RIG_CHECK(group, mr_group_work_test(works[i]) == MR_OK);
        RIG_CHECK(group, mr_group_work_wait(works[i], NULL) == MR_OK);
        RIG_CHECK(group, x[i] == sum * (i + 1));
        mr_group_work_destroy(works[i]);
    }
}

/* Every asynchronous collective; only freeing waits for them. */
static void all_in_the_background(mr_group *group, void *arg)
{
    mr_group_work *works[6];
    uint32_t n = mr_group_world_size(group);
    uint32_t rank = mr_group_rank(group);
    int32_t a = 1;
    int32_t b = (int32_t)rank;
    int32_t in[4] = {1, 1, 1, 1};
    int32_t gathered[4];
    int32_t scattered = 0;
    (void)arg;
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &works[0]) == MR_OK);
    RIG_CHECK(group,
              mr_group_reduce_async(group, &a, 1, MR_I32, MR_SUM, 0, NULL, &works[1]) == MR_OK);
    RIG_CHECK(group, mr_group_broadcast_async(group, &b, 1, MR_I32, 1, NULL, &works[2]) == MR_OK);
    RIG_CHECK(group,
              mr_group_all_gather_async(group, in, gathered, 1, MR_I32, NULL, &works[3]) == MR_OK);
    RIG_CHECK(group, mr_group_reduce_scatter_async(group, in, &scattered, 1, MR_I32, MR_SUM, NULL,
                                                   &works[4]) == MR_OK);
    if (rank < 2)
        RIG_CHECK(group, (rank == 0 ? mr_group_send_async(group, in, 2, MR_I32, 1, NULL, &works[5])
                                    : mr_group_recv_async(group, in + 2, 2, MR_I32, 0, NULL,
                                                          &works[5])) == MR_OK);
    for (int i = 0; i < (rank < 2 ? 6 : 5); i++)
        mr_group_work_destroy(works[i]);
    RIG_CHECK(group, (rank != 0 || a == (int32_t)n) && b == 1 && scattered == (int32_t)n &&
                         gathered[n - 1] == 1);
}

/* Rank 1 is 1 s late in its first call. The other ranks continue meanwhile. */
static void while_another_is_late(mr_group *group, void *arg)
{
    mr_group_work *work;
    uint64_t start = rig_now_ms();
    (void)arg;
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &work) == MR_OK);
    RIG_CHECK(group, rig_now_ms() - start < 700);
    RIG_CHECK(group, mr_group_work_test(work) == MR_PENDING);
    RIG_CHECK(group, mr_group_work_sync(work, 10) == MR_PENDING);
    RIG_CHECK(group, mr_group_work_sync(work, 5000) == MR_OK);
    mr_group_work_destroy(work);
}

/* The input is inside the output, and the other way round. */
static void in_place(mr_group *group, void *arg)
{
    enum { N = 3000 };
    uint32_t rank = mr_group_rank(group);
    uint32_t n = mr_group_world_size(group);
    static _Thread_local double x[RIG_RANKS * N];
    (void)arg;
    memset(x, 0, sizeof x);
    for (uint32_t i = 0; i < N; i++)
        x[rank * N + i] = rank * 10000 + i;
    RIG_CHECK(group, mr_group_all_gather(group, x + rank * N, x, N, MR_F64) == MR_OK);
    for (uint32_t i = 0; i < n * N; i++)
        RIG_CHECK(group, x[i] == i / N * 10000 + i % N);
    RIG_CHECK(group, mr_group_reduce_scatter(group, x, x + rank * N, N, MR_F64, MR_SUM) == MR_OK);
    for (uint32_t i = 0; i < N; i++)
        RIG_CHECK(group, x[rank * N + i] == n * (rank * 10000.0 + i));
}

static void wrong_arguments(mr_group *group, void *arg)
{
    float x[8] = {0};
    int32_t i[4] = {0};
    mr_group_work *work = (mr_group_work *)x;
    (void)arg;
    RIG_CHECK(group, mr_group_all_reduce(group, x, 1, MR_U8, MR_SUM) == MR_ERR_INVALID);
    RIG_SAYS(group, "dtype u8 is not f16, bf16, f32, f64, i32 or i64");
    RIG_CHECK(group, mr_group_all_reduce(group, x, 1, (mr_dtype)99, MR_SUM) == MR_ERR_INVALID);
    RIG_CHECK(group, mr_group_all_reduce(group, i, 1, MR_I32, MR_MEAN) == MR_ERR_INVALID);
    RIG_SAYS(group, "MR_MEAN of i32");
    RIG_CHECK(group, mr_group_all_reduce(group, x, 1, MR_F32, (mr_reduction)4) == MR_ERR_INVALID);
    RIG_SAYS(group, "op 4");
    RIG_CHECK(group, mr_group_all_reduce(group, NULL, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_SAYS(group, "buffer is NULL, but count is 1");
    RIG_CHECK(group, mr_group_all_gather(group, x, NULL, 1, MR_F32) == MR_ERR_INVALID);
    RIG_SAYS(group, "out is NULL");
    RIG_CHECK(group, mr_group_all_gather(group, x, x + 1, 1, MR_F32) == MR_OK);
    uint32_t other = (mr_group_rank(group) + 1) % mr_group_world_size(group);
    RIG_CHECK(group, mr_group_all_gather(group, x + other, x, 1, MR_F32) == MR_ERR_INVALID);
    RIG_SAYS(group, "overlap");
    RIG_CHECK(group,
              mr_group_reduce_scatter(group, x, x + other, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_CHECK(group, mr_group_broadcast(group, x, UINT64_MAX / 4 + 2, MR_F32, 0) == MR_ERR_INVALID);
    RIG_SAYS(group, "more than fits into memory");
    RIG_CHECK(group, mr_group_all_gather(group, x, i, UINT64_MAX / 16, MR_F32) == MR_ERR_INVALID);
    RIG_CHECK(group, mr_group_broadcast(group, x, 1, MR_F32, mr_group_world_size(group)) ==
                         MR_ERR_INVALID);
    RIG_SAYS(group, "is not below the world size");
    RIG_CHECK(group, mr_group_send(group, x, 1, MR_F32, mr_group_rank(group)) == MR_ERR_INVALID);
    RIG_SAYS(group, "cannot send to itself");
    RIG_CHECK(group, mr_group_recv(group, x, 1, MR_F32, 99) == MR_ERR_INVALID);
    RIG_CHECK(group, mr_group_all_reduce(group, (void *)64, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    RIG_SAYS(group, "memory of a device");
    RIG_CHECK(group, mr_group_all_reduce_async(group, NULL, 1, MR_F32, MR_SUM, NULL, &work) ==
                         MR_ERR_INVALID);
    RIG_CHECK(group, work == NULL);
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, NULL) == MR_ERR_INVALID);
    RIG_SAYS(group, "work_out is NULL");
    /* the group still works, with equal numbers on all ranks */
    x[0] = 1;
    RIG_CHECK(group, mr_group_all_reduce(group, x, 1, MR_F32, MR_SUM) == MR_OK);
    RIG_CHECK(group, x[0] == (float)mr_group_world_size(group));
}

static void nothing(mr_group *group, void *arg)
{
    mr_group_work *work = NULL;
    (void)arg;
    RIG_CHECK(group, mr_group_all_reduce(group, NULL, 0, MR_F32, MR_SUM) == MR_OK);
    RIG_CHECK(group, mr_group_all_gather(group, NULL, NULL, 0, MR_I64) == MR_OK);
    RIG_CHECK(group, mr_group_broadcast_async(group, NULL, 0, MR_F64, 0, NULL, &work) == MR_OK);
    RIG_CHECK(group, mr_group_work_sync(work, 5000) == MR_OK);
    mr_group_work_destroy(work);
    RIG_CHECK(group, mr_group_send(group, NULL, 0, MR_F32, !mr_group_rank(group)) == MR_OK);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
}

static void run_with_2_and_4(rig_main f)
{
    for (uint32_t n = 2; n <= 4; n += 2)
        rig_run(n, 10000, f, &n);
}

#define OVER_RANKS(name, f)                                                                        \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        run_with_2_and_4(f);                                                                       \
    }
OVER_RANKS(ranks_know_who_they_are, check_rank_and_size)
OVER_RANKS(all_reduce_adds_and_compares, all_reduces)
OVER_RANKS(a_mean_is_the_sum_divided_once, means)
OVER_RANKS(a_part_may_lie_in_its_place_of_the_whole, in_place)
OVER_RANKS(the_other_collectives_place_what_they_should, other_collectives)
OVER_RANKS(messages_pass_between_two_ranks, messages)
OVER_RANKS(works_end_in_the_order_of_the_program, in_the_background)
OVER_RANKS(every_form_runs_in_the_background, all_in_the_background)
OVER_RANKS(wrong_arguments_leave_the_group_usable, wrong_arguments)
OVER_RANKS(a_count_of_zero_is_legal, nothing)

static void a_work_makes_progress_while_its_rank_computes(void **state)
{
    (void)state;
    rig_tell("rank=1,at=1,do=delay,ms=1000");
    rig_run(2, 10000, while_another_is_late, NULL);
    rig_tell(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_know_who_they_are),
        cmocka_unit_test(all_reduce_adds_and_compares),
        cmocka_unit_test(a_mean_is_the_sum_divided_once),
        cmocka_unit_test(a_part_may_lie_in_its_place_of_the_whole),
        cmocka_unit_test(the_other_collectives_place_what_they_should),
        cmocka_unit_test(messages_pass_between_two_ranks),
        cmocka_unit_test(works_end_in_the_order_of_the_program),
        cmocka_unit_test(every_form_runs_in_the_background),
        cmocka_unit_test(a_work_makes_progress_while_its_rank_computes),
        cmocka_unit_test(wrong_arguments_leave_the_group_usable),
        cmocka_unit_test(a_count_of_zero_is_legal),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
