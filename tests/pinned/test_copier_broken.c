/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that the schedules can fail: each test breaks one ordering rule on purpose and expects the
 * double to report an unordered access, while the same schedules pass unbroken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/pinned/broken_table.h"

enum { N_SEEDS = 60 };

static void expect_noticed(const struct schedule_wish *wish, const struct schedule_faults *faults)
{
    struct schedule_result result;
    uint32_t n_noticed = 0;
    uint32_t n_wrong = 0;
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        schedule_run(seed, wish, faults, &result);
        /* For pageable memory the double judges no order, but it takes the bytes late. */
        n_noticed += result.n_unordered > 0 || (wish && wish->pageable && result.n_wrong > 0);
        n_wrong += result.n_wrong > 0;
    }
    printf("noticed in %u of %d schedules, wrong bytes in %u\n", n_noticed, N_SEEDS, n_wrong);
    assert_true(n_noticed > 0);
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        schedule_run(seed, wish, NULL, &result);
        if (!result.ok)
            fail_msg("seed %llu, unbroken: %s", (unsigned long long)seed, result.why);
    }
}

static void expect_rule_noticed(enum broken_rule rule, const struct schedule_wish *wish)
{
    const struct schedule_faults faults = {.cuda = broken_table(rule), .phase = broken_table_phase};
    expect_noticed(wish, &faults);
}

static void a_table_that_breaks_nothing_is_good(void **state)
{
    (void)state;
    const struct schedule_faults faults = {.cuda = broken_table(BROKEN_NOTHING),
                                           .phase = broken_table_phase};
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        struct schedule_result result;
        schedule_run(seed, NULL, &faults, &result);
        if (!result.ok)
            fail_msg("seed %llu: %s", (unsigned long long)seed, result.why);
    }
}

static void a_copy_that_does_not_wait_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_COPY_DOES_NOT_WAIT, NULL);
}

static void a_copy_that_waits_for_one_stream_of_several_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_COPY_WAITS_FOR_ONE, NULL);
}

static void a_stream_that_does_not_wait_for_the_copy_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_STREAM_DOES_NOT_WAIT, NULL);
}

static void a_stream_that_waits_for_one_device_of_two_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_STREAM_WAITS_FOR_ONE_DEVICE,
                        &(struct schedule_wish){.n_parts = 1, .labels = 1 + LABELS_ON_ANOTHER_GPU});
}

static void a_release_that_records_nothing_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_RELEASE_RECORDS_NOTHING, NULL);
}

static void a_release_that_forgets_a_second_stream_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_RELEASE_RECORDS_ONE, NULL);
}

static void a_release_that_is_recorded_after_the_wait_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_RELEASE_RECORDS_LATE, NULL);
}

static void filled_recorded_before_the_copy_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_FILLED_BEFORE_COPY, NULL);
}

static void filled_recorded_before_the_finish_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_FILLED_BEFORE_FINISH, &(struct schedule_wish){.finished = true});
}

static void a_finish_on_another_stream_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_FINISH_ON_ANOTHER_STREAM, &(struct schedule_wish){.finished = true});
}

static void the_small_block_on_another_stream_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_SMALL_ON_ANOTHER_STREAM, NULL);
}

/* ---- the finish on its own stream ---- */

static const struct schedule_wish overlapped = {.finished = true, .overlaps = true};

static void a_finish_that_does_not_wait_for_its_copy_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_FINISH_WAITS_FOR_NO_COPY, &overlapped);
}

static void a_copy_into_a_staging_that_is_still_read_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_COPY_WAITS_FOR_NO_FINISH, &overlapped);
}

static void filled_recorded_after_the_copy_only_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_FILLED_BEFORE_OTHER_FINISH, &overlapped);
}

static void an_await_that_does_not_sleep_is_noticed(void **state)
{
    (void)state;
    expect_rule_noticed(BROKEN_AWAIT_DOES_NOT_SLEEP, NULL);
}

static void a_slot_that_is_free_at_issue_is_noticed(void **state)
{
    (void)state;
    expect_noticed(NULL, &(struct schedule_faults){.refill_at_issue = true});
}

static void a_pageable_slot_that_is_free_at_issue_is_noticed(void **state)
{
    (void)state;
    expect_noticed(&(struct schedule_wish){.pageable = true, .plain = true},
                   &(struct schedule_faults){.refill_at_issue = true});
}

static void a_buffer_that_is_issued_before_its_release_is_noticed(void **state)
{
    (void)state;
    expect_noticed(NULL, &(struct schedule_faults){.reissue_unreleased = true});
}

static void a_stream_that_reads_without_use_is_noticed(void **state)
{
    (void)state;
    expect_noticed(NULL, &(struct schedule_faults){.read_without_use = true});
}

static void a_stream_that_is_not_named_at_release_is_noticed(void **state)
{
    (void)state;
    expect_noticed(NULL, &(struct schedule_faults){.forget_reader = true});
}

static void a_release_for_the_host_before_the_reads_have_ended_is_noticed(void **state)
{
    (void)state;
    expect_noticed(NULL, &(struct schedule_faults){.release_unsynced = true});
}

static void a_batch_taken_for_the_host_before_await_is_noticed(void **state)
{
    (void)state;
    expect_noticed(NULL, &(struct schedule_faults){.take_early = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_breaks_nothing_is_good),
        cmocka_unit_test(a_copy_that_does_not_wait_is_noticed),
        cmocka_unit_test(a_copy_that_waits_for_one_stream_of_several_is_noticed),
        cmocka_unit_test(a_stream_that_does_not_wait_for_the_copy_is_noticed),
        cmocka_unit_test(a_stream_that_waits_for_one_device_of_two_is_noticed),
        cmocka_unit_test(a_release_that_records_nothing_is_noticed),
        cmocka_unit_test(a_release_that_forgets_a_second_stream_is_noticed),
        cmocka_unit_test(a_release_that_is_recorded_after_the_wait_is_noticed),
        cmocka_unit_test(filled_recorded_before_the_copy_is_noticed),
        cmocka_unit_test(filled_recorded_before_the_finish_is_noticed),
        cmocka_unit_test(a_finish_on_another_stream_is_noticed),
        cmocka_unit_test(the_small_block_on_another_stream_is_noticed),
        cmocka_unit_test(a_finish_that_does_not_wait_for_its_copy_is_noticed),
        cmocka_unit_test(a_copy_into_a_staging_that_is_still_read_is_noticed),
        cmocka_unit_test(filled_recorded_after_the_copy_only_is_noticed),
        cmocka_unit_test(an_await_that_does_not_sleep_is_noticed),
        cmocka_unit_test(a_slot_that_is_free_at_issue_is_noticed),
        cmocka_unit_test(a_pageable_slot_that_is_free_at_issue_is_noticed),
        cmocka_unit_test(a_buffer_that_is_issued_before_its_release_is_noticed),
        cmocka_unit_test(a_stream_that_reads_without_use_is_noticed),
        cmocka_unit_test(a_stream_that_is_not_named_at_release_is_noticed),
        cmocka_unit_test(a_release_for_the_host_before_the_reads_have_ended_is_noticed),
        cmocka_unit_test(a_batch_taken_for_the_host_before_await_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
