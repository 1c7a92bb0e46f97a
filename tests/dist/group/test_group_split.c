/* SPDX-License-Identifier: Apache-2.0 */
/* Groups split from a group: their ranks, the order of ranks, and that each works on its own. */
#include "tests/dist/group/group_rig.h"

#include <string.h>

/* Of four ranks: even and odd ones, in reverse order. */
static void evens_and_odds(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    mr_group *part = NULL;
    int64_t x = rank;
    int64_t all[2];
    (void)arg;
    RIG_CHECK(group, mr_group_split(group, rank % 2, 10 - rank, &part) == MR_OK);
    RIG_CHECK(group, mr_group_world_size(part) == 2);
    RIG_CHECK(group, mr_group_rank(part) == 1 - rank / 2);
    RIG_CHECK(group, mr_group_local_rank(part) == mr_group_rank(part));
    RIG_CHECK(group, mr_group_local_world_size(part) == 2 && mr_group_node(part) == 0);
    RIG_CHECK(group, mr_group_all_gather(part, &x, all, 1, MR_I64) == MR_OK);
    RIG_CHECK(group, all[0] == rank % 2 + 2 && all[1] == rank % 2);
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_I64, MR_SUM) == MR_OK);
    RIG_CHECK(group, x == 6);
    mr_group_destroy(part);
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
}

static void ranks_are_ordered_by_key(void **state)
{
    (void)state;
    rig_run(4, 10000, evens_and_odds, NULL);
}

/*
 * Equal keys keep the order. A rank without a color is in no group. A group of one needs no engine.
 */
static void some_are_in_none(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    mr_group *part = NULL;
    (void)arg;
    RIG_CHECK(group, mr_group_split(group,
                                    rank == 1   ? MR_NO_COLOR
                                    : rank == 3 ? 9
                                                : 5,
                                    0, &part) == MR_OK);
    RIG_CHECK(group, (part == NULL) == (rank == 1));
    if (rank == 3)
        RIG_CHECK(group,
                  mr_group_world_size(part) == 1 && strcmp(mr_group_backend(part), "none") == 0);
    if (rank % 2 == 0)
        RIG_CHECK(group, mr_group_world_size(part) == 2 && mr_group_rank(part) == rank / 2);
    if (part)
        RIG_CHECK(group, mr_group_barrier(part) == MR_OK);
    mr_group_destroy(part);
}

static void a_rank_without_a_color_is_in_none(void **state)
{
    (void)state;
    rig_run(4, 10000, some_are_in_none, NULL);
}

/* Splits parts repeatedly, while a work is under way. */
static void splits_deep(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    (void)arg;
    for (int i = 0; i < 5; i++) {
        mr_group *half = NULL;
        mr_group *pair = NULL;
        mr_group_work *work = NULL;
        float x = 1;
        RIG_CHECK(group, mr_group_barrier_async(group, NULL, &work) == MR_OK);
        RIG_CHECK(group, mr_group_split(group, rank / 2, 0, &half) == MR_OK);
        RIG_CHECK(group, mr_group_split(half, 0, 0, &pair) == MR_OK);
        RIG_CHECK(group, mr_group_all_reduce(pair, &x, 1, MR_F32, MR_SUM) == MR_OK && x == 2);
        RIG_CHECK(group, mr_group_all_reduce(half, &x, 1, MR_F32, MR_SUM) == MR_OK && x == 4);
        RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F32, MR_SUM) == MR_OK && x == 16);
        mr_group_work_destroy(work);
        mr_group_destroy(half);
        RIG_CHECK(group, mr_group_barrier(pair) == MR_OK);
        mr_group_destroy(pair);
    }
}

static void parts_split_further_and_work_on_their_own(void **state)
{
    (void)state;
    rig_run(4, 10000, splits_deep, NULL);
}

/* The part outlives its parent. */
static void outlives(mr_group *group, void *arg)
{
    mr_group **parts = arg;
    RIG_CHECK(group, mr_group_split(group, 0, 0, &parts[mr_group_rank(group)]) == MR_OK);
}

static void a_part_outlives_its_parent(void **state)
{
    (void)state;
    mr_group *parts[2] = {NULL, NULL};
    mr_group_work *works[2];
    int32_t x[2] = {1, 2};
    rig_run(2, 10000, outlives, parts);
    for (int r = 0; r < 2; r++)
        assert_int_equal(
            mr_group_all_reduce_async(parts[r], &x[r], 1, MR_I32, MR_SUM, NULL, &works[r]), MR_OK);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(mr_group_work_sync(works[r], 10000), MR_OK);
        assert_int_equal(x[r], 3);
        mr_group_work_destroy(works[r]);
    }
    mr_group_destroy(parts[1]);
    mr_group_destroy(parts[0]);
}

/* Rank 1 cannot make its part: all other ranks get the error, even those of other parts. */
static void cannot_split(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    mr_group *part = (mr_group *)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    mr_status status = mr_group_split(group, rank / 2, 0, &part);
    RIG_CHECK(group, part == NULL);
    RIG_CHECK(group, status == (rank == 1 ? MR_ERR_IO : MR_ERR_PEER));
    RIG_SAYS(group, rank == 1 ? "the double was told not to begin"
                              : "rank 1 cannot split the group: MR_ERR_IO");
    RIG_CHECK(group, mr_group_barrier(group) == status);
}

static void a_split_that_fails_ends_the_group(void **state)
{
    (void)state;
    rig_tell("rank=1,of=2,create=error");
    rig_run(3, 2000, cannot_split, state);
    rig_tell(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_ordered_by_key),
        cmocka_unit_test(a_rank_without_a_color_is_in_none),
        cmocka_unit_test(parts_split_further_and_work_on_their_own),
        cmocka_unit_test(a_part_outlives_its_parent),
        cmocka_unit_test(a_split_that_fails_ends_the_group),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
