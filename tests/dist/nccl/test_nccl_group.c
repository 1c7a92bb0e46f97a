/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services of groups over nccl: splits, fingerprints, signals, metrics with values on the device,
 * adoption.
 */
#include "tests/dist/nccl/nccl_world.h"
#include "tests/support/assert_words.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <millrace/metrics.h>
#include <millrace/run.h>

enum { N = 5000 };

/*
 * Run f with each policy of the double, with communicators whose calls are in progress for a while.
 */
static void run_all(uint32_t n_ranks, nccl_main *f)
{
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        struct nccl_world world = {
            .n_ranks = n_ranks, .policy = (enum double_policy)policy, .seed = 11, .f = f};
        world.nccl.progress_us = policy == DOUBLE_EARLY ? 0 : 300;
        nccl_world_run(&world);
    }
}

static void work_in_halves(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    float *mine = nccl_world_floats(group, N, (float)rank);
    float *all = nccl_world_floats(group, N, (float)rank);
    mr_group *half = NULL;
    (void)arg;
    NCCL_CHECK(group, mr_group_split(group, rank % 2, 100 - rank, &half) == MR_OK);
    NCCL_CHECK(group, mr_group_world_size(half) == 2 && mr_group_rank(half) == (rank < 2));
    NCCL_CHECK(half, mr_group_all_reduce(half, mine, N, MR_F32, MR_SUM) == MR_OK);
    NCCL_CHECK(group, mr_group_all_reduce(group, all, N, MR_F32, MR_MEAN) == MR_OK);
    NCCL_EXPECT(half, mine, N, rank % 2 ? 4 : 2);
    NCCL_EXPECT(group, all, N, 1.5f);
    mr_group_destroy(half);
    NCCL_CHECK(group, mr_group_barrier(group) == MR_OK);
    NCCL_CHECK(group, cudaFree(mine) == cudaSuccess && cudaFree(all) == cudaSuccess);
}

static void halves_of_a_group_work_beside_it(void **state)
{
    (void)state;
    run_all(4, work_in_halves);
}

static void compare_and_agree(mr_group *group, void *arg)
{
    int got = -1;
    (void)arg;
    NCCL_CHECK(group, mr_group_same(group, 77, "the training set") == MR_OK);
    NCCL_CHECK(group, mr_signals_watch(NULL) == MR_OK);
    NCCL_CHECK(group, mr_signals_agree(group, &got) == MR_OK && got == 0);
    if (mr_group_rank(group) == 1)
        raise(SIGUSR1);
    NCCL_CHECK(group, mr_signals_agree(group, &got) == MR_OK && got == SIGUSR1);
    NCCL_CHECK(group, mr_signals_agree(group, &got) == MR_OK && got == 0);
    NCCL_CHECK(group, mr_group_rank0_first_begin(group) == MR_OK &&
                          mr_group_rank0_first_end(group) == MR_OK);
    NCCL_CHECK(group,
               mr_group_same(group, mr_group_rank(group), "the training set") == MR_ERR_PEER);
    NCCL_SAYS(group, "rank 1");
    NCCL_SAYS(group, "the training set");
}

static void fingerprints_and_signals_are_agreed_on(void **state)
{
    (void)state;
    run_all(3, compare_and_agree);
}

/* Each rank gets the result of the comparison at another time, and leaves when it has it. */
static void differ_and_leave(mr_group *group, void *arg)
{
    (void)arg;
    NCCL_CHECK(group,
               mr_group_same(group, mr_group_rank(group) == 1, "the training set") == MR_ERR_PEER);
    NCCL_SAYS(group, "the training set of rank 1 differs from rank 0's");
}

static void a_rank_that_leaves_after_the_agreement_does_not_disturb_late_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct nccl_world world = {
            .n_ranks = 3, .policy = DOUBLE_RANDOM, .seed = seed, .f = differ_and_leave};
        world.nccl = (struct double_nccl_options){.seed = seed, .delay_us = 300000, .strict = true};
        nccl_world_run(&world);
    }
}

/*
 * A loss of every type, copied to the device in the user's stream just before. It may be read late,
 * so value must not change.
 */
static void add_losses(mr_group *group, mr_metrics *metrics, cudaStream_t stream, float *loss,
                       const float *value)
{
    NCCL_CHECK(group, cudaMemcpyAsync(loss, value, sizeof *value, cudaMemcpyHostToDevice, stream) ==
                          cudaSuccess);
    NCCL_CHECK(group, mr_metrics_add_device(metrics, "loss", loss, MR_F32, 2, stream) == MR_OK);
    NCCL_CHECK(group, mr_metrics_add(metrics, "correct", 3, 4) == MR_OK);
}

static void collect(mr_group *group, void *arg)
{
    static const float values[] = {0, 1, 2, 3, 4};
    mr_metrics *metrics = NULL;
    cudaStream_t stream;
    uint32_t rank = mr_group_rank(group), n = mr_group_world_size(group);
    float *loss = nccl_world_floats(group, 1, 0);
    (void)arg;
    NCCL_CHECK(group, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    NCCL_CHECK(group, mr_metrics_create(group, &metrics, NULL) == MR_OK);
    for (int epoch = 1; epoch <= 4; epoch++) {
        for (uint32_t step = 0; step <= rank; step++) /* uneven */
            add_losses(group, metrics, stream, loss, &values[epoch]);
        NCCL_CHECK(group, (epoch % 2 ? mr_metrics_reduce(metrics)
                                     : mr_metrics_reduce_async(metrics)) == MR_OK);
        NCCL_CHECK(group, mr_metrics_sync(metrics) == MR_OK);
        double steps = n * (n + 1) / 2.0;
        NCCL_CHECK(group, mr_metrics_sum(metrics, "loss") == steps * epoch);
        NCCL_CHECK(group, mr_metrics_count(metrics, "loss") == steps * 2);
        NCCL_CHECK(group, mr_metrics_mean(metrics, "correct") == 0.75);
    }
    NCCL_CHECK(group,
               mr_metrics_reduce(metrics) == MR_OK && isnan(mr_metrics_mean(metrics, "loss")));
    mr_metrics_destroy(metrics);
    NCCL_CHECK(group, cudaStreamDestroy(stream) == cudaSuccess && cudaFree(loss) == cudaSuccess);
}

static void metrics_add_values_on_the_device(void **state)
{
    (void)state;
    run_all(1, collect);
    run_all(3, collect);
}

static void add_up(mr_group *group, void *arg)
{
    float *values = nccl_world_floats(group, N, 2);
    float n = (float)mr_group_world_size(group);
    (void)arg;
    NCCL_CHECK(group, mr_group_all_reduce(group, values, N, MR_F32, MR_SUM) == MR_OK);
    NCCL_EXPECT(group, values, N, 2 * n);
    NCCL_CHECK(group, cudaFree(values) == cudaSuccess);
}

/* In the group, and in a group split from it. */
static void add_up_twice(mr_group *group, void *arg)
{
    mr_group *all = NULL;
    add_up(group, arg);
    NCCL_CHECK(group, mr_group_split(group, 0, 0, &all) == MR_OK);
    add_up(all, arg);
    mr_group_destroy(all);
}

static void an_adopted_communicator_still_belongs_to_its_owner(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        struct nccl_world world = {.n_ranks = 3,
                                   .policy = (enum double_policy)policy,
                                   .seed = 5,
                                   .adopts = true,
                                   .no_device = policy == DOUBLE_EARLY,
                                   .f = add_up_twice};
        nccl_world_run(&world);
    }
}

static void two_ranks_on_one_gpu_are_refused_and_both_named(void **state)
{
    (void)state;
    mr_error words[NCCL_RANKS];
    int results[NCCL_RANKS];
    struct nccl_world world = {.n_ranks = 2, .same_device = true, .f = add_up};
    nccl_world_fork(&world, results, words);
    for (uint32_t r = 0; r < 2; r++) {
        print_message("%s\n", words[r].text);
        assert_int_equal(results[r], NCCL_NO_GROUP);
        assert_words(words[r].text, "ranks 0 and 1");
        assert_words(words[r].text, "cuda:0");
    }
}

/* Host memory is refused, and the group still works. */
static void give_host_memory(mr_group *group, void *arg)
{
    add_up(group, arg);
    NCCL_CHECK(group, mr_group_all_reduce(group, NULL, 1, MR_F32, MR_SUM) == MR_ERR_INVALID);
    NCCL_CHECK(group, mr_group_all_reduce(group, NULL, 0, MR_F32, MR_SUM) == MR_OK);
    add_up(group, arg);
}

static void a_wrong_argument_leaves_the_group_as_it_is(void **state)
{
    (void)state;
    run_all(2, give_host_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_of_a_group_work_beside_it),
        cmocka_unit_test(fingerprints_and_signals_are_agreed_on),
        cmocka_unit_test(a_rank_that_leaves_after_the_agreement_does_not_disturb_late_ranks),
        cmocka_unit_test(metrics_add_values_on_the_device),
        cmocka_unit_test(an_adopted_communicator_still_belongs_to_its_owner),
        cmocka_unit_test(two_ranks_on_one_gpu_are_refused_and_both_named),
        cmocka_unit_test(a_wrong_argument_leaves_the_group_as_it_is),
    };
    nccl_world_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
