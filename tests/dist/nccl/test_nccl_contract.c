/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The suite that gloo and mpi pass too, over nccl with device memory: one to four ranks, with each
 * policy.
 */
#include "tests/dist/nccl/nccl_world.h"

#include <stdio.h>
#include <string.h>

#include "tests/dist/group/contract_collectives.h"

static void *allocate_memory(void *user, size_t n_bytes)
{
    void *memory = NULL;
    (void)user;
    return cudaMalloc(&memory, n_bytes) == cudaSuccess ? memory : NULL;
}

static void free_memory(void *user, void *memory)
{
    NCCL_CHECK(user, cudaFree(memory) == cudaSuccess);
}

static void write_memory(void *user, void *memory, const void *host, size_t n_bytes)
{
    NCCL_CHECK(user, cudaMemcpy(memory, host, n_bytes, cudaMemcpyHostToDevice) == cudaSuccess);
}

static void read_memory(void *user, void *host, const void *memory, size_t n_bytes)
{
    NCCL_CHECK(user, cudaMemcpy(host, memory, n_bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
}

static void meet_contract(mr_group *group, void *arg)
{
    struct contract_memory memory = {group, allocate_memory, free_memory, write_memory,
                                     read_memory};
    char words[CONTRACT_WORDS];
    (void)arg;
    NCCL_CHECK(group, strcmp(mr_group_backend(group), "nccl") == 0);
    uint32_t n_wrong = contract_group_run(group, &memory, words);
    if (n_wrong > 0)
        fprintf(stderr, "%u wrong; %s\n", n_wrong, words);
    NCCL_CHECK(group, n_wrong == 0);
}

static void run(uint32_t n_ranks, enum double_policy policy, uint64_t seed,
                struct double_nccl_options nccl)
{
    struct nccl_world world = {
        .n_ranks = n_ranks, .policy = policy, .seed = seed, .nccl = nccl, .f = meet_contract};
    nccl_world_run(&world);
}

static void one_rank_meets_the_contract(void **state)
{
    (void)state;
    run(1, DOUBLE_LATE, 1, (struct double_nccl_options){0});
}

static void two_ranks_meet_the_contract_when_the_device_is_late(void **state)
{
    (void)state;
    run(2, DOUBLE_LATE, 1, (struct double_nccl_options){.delay_us = 200});
}

static void three_ranks_meet_the_contract_when_the_device_is_early(void **state)
{
    (void)state;
    run(3, DOUBLE_EARLY, 1, (struct double_nccl_options){.progress_us = 200});
}

static void four_ranks_meet_the_contract_in_any_order(void **state)
{
    (void)state;
    run(4, DOUBLE_RANDOM, 2, (struct double_nccl_options){.seed = 3});
    run(2, DOUBLE_RANDOM, 3,
        (struct double_nccl_options){.delay_us = 200, .progress_us = 100, .seed = 4});
}

static void ranks_that_leave_together_meet_the_contract(void **state)
{
    (void)state;
    run(2, DOUBLE_RANDOM, 5, (struct double_nccl_options){.together = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_meets_the_contract),
        cmocka_unit_test(two_ranks_meet_the_contract_when_the_device_is_late),
        cmocka_unit_test(three_ranks_meet_the_contract_when_the_device_is_early),
        cmocka_unit_test(four_ranks_meet_the_contract_in_any_order),
        cmocka_unit_test(ranks_that_leave_together_meet_the_contract),
    };
    nccl_world_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
