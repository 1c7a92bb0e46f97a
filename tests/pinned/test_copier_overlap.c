/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finish on its own stream, in the double's virtual time: a batch is finished while the next
 * one is copied.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/pinned/copier_fixture.h"

enum { N_BATCHES = 20, KERNEL_NS = 800000 };

static void expect_ok(mr_status status, const struct copier_fixture *f)
{
    if (status != MR_OK)
        fail_msg("%s: %s", mr_status_name(status), f->error.text);
}

/* Virtual time of some batches, two of which are in progress at a time. */
static uint64_t take_time(bool overlaps)
{
    struct copier_fixture f;
    uint32_t buffers[2];
    /* A byte takes a microsecond, so a batch takes about as long as its kernel. */
    fixture_open(
        &f,
        &(struct double_options){.h2d_mb_per_s = 1, .kernel_ns = KERNEL_NS, .policy = DOUBLE_EARLY},
        NULL);
    f.overlaps = overlaps;
    expect_ok(fixture_create(&f), &f);
    expect_ok(fixture_pin(&f), &f);
    uint64_t begin_ns = double_now_ns();
    expect_ok(fixture_issue(&f, &buffers[0]), &f);
    for (uint32_t i = 1; i <= N_BATCHES; i++) {
        if (i < N_BATCHES)
            expect_ok(fixture_issue(&f, &buffers[i % 2]), &f);
        uint32_t buffer = buffers[(i - 1) % 2];
        expect_ok(fixture_await(&f, buffer), &f);
        fixture_check(&f, buffer, i - 1);
        expect_ok(fixture_release(&f, buffer), &f);
    }
    uint64_t ns = double_now_ns() - begin_ns;
    assert_int_equal(fixture_close(&f), 0);
    return ns;
}

static void the_next_batch_is_copied_while_one_is_finished(void **state)
{
    (void)state;
    uint64_t one_ns = take_time(false), two_ns = take_time(true);
    printf("%d batches: %.1f ms on one stream, %.1f on two\n", N_BATCHES, (double)one_ns / 1e6,
           (double)two_ns / 1e6);
    assert_true(one_ns > UINT64_C(2) * N_BATCHES * KERNEL_NS * 8 / 10);
    assert_true(two_ns * 10 < one_ns * 7);
}

/* If it is off, it costs nothing. */
static void without_it_there_is_one_stream_and_one_staging(void **state)
{
    (void)state;
    uint64_t n_streams[2], n_allocations[2];
    for (unsigned overlaps = 0; overlaps < 2; overlaps++) {
        struct copier_fixture f;
        fixture_open(&f, &(struct double_options){0}, NULL);
        f.overlaps = overlaps;
        expect_ok(fixture_create(&f), &f);
        n_streams[overlaps] = double_calls("cudaStreamCreateWithPriority");
        n_allocations[overlaps] = double_calls("cudaMalloc");
        assert_int_equal(fixture_close(&f), 0);
    }
    assert_int_equal(n_streams[0], 1);
    assert_int_equal(n_streams[1], 2);
    assert_int_equal(n_allocations[1], n_allocations[0] + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_batch_is_copied_while_one_is_finished),
        cmocka_unit_test(without_it_there_is_one_stream_and_one_staging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
