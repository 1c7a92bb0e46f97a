/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten thousand schedules over the copier and the double of the CUDA runtime must give right bytes
 * and no unordered access. To run one schedule again, give its seed as the program's argument or in
 * MR_SCHEDULE_SEED. MR_SCHEDULE_COUNT sets their number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/pinned/schedule_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW_BUILD 1
#endif
#endif

#ifdef SLOW_BUILD
enum { N_SCHEDULES = 1500 };
#else
enum { N_SCHEDULES = 10000 };
#endif

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static void run_one(uint64_t seed, struct schedule_result *result)
{
    schedule_run(seed, NULL, NULL, result);
    if (!result->ok)
        fail_msg("MR_SCHEDULE_SEED=%llu: %u found, %u wrong, %u failed: %s",
                 (unsigned long long)seed, result->n_found, result->n_wrong, result->n_failed,
                 result->why);
}

static void all_schedules_give_right_bytes_in_order(void **state)
{
    (void)state;
    struct schedule_result result;
    uint64_t n_issued = 0;
    uint64_t n_reads = 0;
    uint32_t n = (uint32_t)number_from("MR_SCHEDULE_COUNT", N_SCHEDULES);
    for (uint64_t seed = 1; seed <= n; seed++) {
        run_one(seed, &result);
        n_issued += result.n_issued;
        n_reads += result.n_reads;
    }
    printf("%u schedules: %llu batches, read by %llu kernels\n", n, (unsigned long long)n_issued,
           (unsigned long long)n_reads);
    assert_true(n_reads > n_issued);
}

/*
 * Counts how often each kind of schedule is drawn: a plan that never draws four GPUs proves nothing
 * about them.
 */
static void the_schedules_cover_all_that_is_drawn(void **state)
{
    (void)state;
    uint32_t parts[SCHEDULE_MAX_PARTS + 1] = {0}, labels[3] = {0}, policies[3] = {0},
                                        dtypes[5] = {0}, plain = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct schedule_plan plan;
        schedule_plan_init(&plan, seed, NULL);
        parts[plan.n_parts]++;
        labels[plan.labels]++;
        policies[plan.policy]++;
        plain += !plan.oracle.finish.needed;
        dtypes[plan.oracle.finish.dtype] += plan.oracle.finish.needed;
    }
    const uint32_t counts[] = {parts[1],       parts[2],       parts[4],      labels[0],
                               labels[1],      labels[2],      plain,         policies[0],
                               policies[1],    policies[2],    dtypes[MR_U8], dtypes[MR_F32],
                               dtypes[MR_F16], dtypes[MR_BF16]};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 50)
            fail_msg("kind %zu is drawn %u times in 1000 schedules", i, counts[i]);
}

static void a_seed_gives_the_same_schedule_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct schedule_result first, again;
        run_one(seed, &first);
        run_one(seed, &again);
        assert_int_equal(first.n_issued, again.n_issued);
        assert_int_equal(first.n_reads, again.n_reads);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        setenv("MR_SCHEDULE_SEED", argv[1], 1);
    if (getenv("MR_SCHEDULE_SEED") != NULL) {
        struct schedule_result result;
        schedule_run(number_from("MR_SCHEDULE_SEED", 1), NULL, NULL, &result);
        printf("%s: %u batches, %u reads, %u found, %u wrong, %u failed: %s\n",
               result.ok ? "good" : "bad", result.n_issued, result.n_reads, result.n_found,
               result.n_wrong, result.n_failed, result.why);
        return result.ok ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_schedules_give_right_bytes_in_order),
        cmocka_unit_test(the_schedules_cover_all_that_is_drawn),
        cmocka_unit_test(a_seed_gives_the_same_schedule_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
