/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order that streams and events make, and that the double reports unordered accesses. Each rule
 * is tested from both sides: with it nothing is reported, without it something is.
 */
#include "tests/double/double_fixture.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LEN = 100 };

static const enum double_policy policies[] = {DOUBLE_LATE, DOUBLE_EARLY, DOUBLE_RANDOM};

static void a_stream_runs_in_order(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        fixture_open(policies[p]);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream();
        OK(double_launch_fill(stream, memory, LEN, 1));
        OK(double_launch_add_one(stream, memory, LEN));
        OK(double_launch_add_one(stream, memory, LEN / 2));
        OK(cudaStreamSynchronize(stream));
        fixture_expect(memory, LEN / 2, 3);
        fixture_expect(memory + LEN / 2, LEN / 2, 2);
        fixture_close();
    }
}

static void late_runs_only_what_a_wait_needs(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t needed = fixture_stream(), other = fixture_stream();
    OK(cudaMemset(memory, 0, LEN));
    OK(cudaDeviceSynchronize());
    OK(double_launch_fill(needed, memory, 10, 1));
    OK(double_launch_fill(other, memory + 10, 10, 1));
    fixture_expect(memory, LEN, 0);
    OK(cudaStreamSynchronize(needed));
    fixture_expect(memory, 10, 1);
    fixture_expect(memory + 10, 10, 0);
    OK(cudaStreamSynchronize(other));
    fixture_expect(memory + 10, 10, 1);
    fixture_close();
}

/* Writes on one stream, reads on another, with or without a wait between them. */
static void write_then_read(bool waits)
{
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t writer = fixture_stream(), reader = fixture_stream();
    cudaEvent_t written = fixture_event();
    uint64_t sum = 0;
    OK(double_launch_fill(writer, memory, LEN, 7));
    OK(cudaEventRecord(written, writer));
    if (waits)
        OK(cudaStreamWaitEvent(reader, written, 0));
    OK(double_launch_sum(reader, memory, LEN, &sum));
    OK(cudaStreamSynchronize(reader));
    uint8_t expected[LEN];
    memset(expected, 7, LEN);
    if (waits)
        assert_int_equal(sum, double_sum(expected, LEN));
}

static void a_wait_orders_two_streams(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        fixture_open(policies[p]);
        write_then_read(true);
        fixture_close();
    }
}

static void without_a_wait_it_is_reported_in_any_timing(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        fixture_open(policies[p]);
        write_then_read(false);
        assert_words(double_report(),
                     "sum (stream 2, step 1) reads bytes 0 to 100 of 100 of device 0's");
        fixture_close_with(DOUBLE_UNORDERED, 1);
    }
}

static void a_write_after_an_unordered_read_is_reported(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t one = fixture_stream(), two = fixture_stream();
    OK(double_launch_read(one, memory, LEN, NULL, NULL));
    OK(double_launch_fill(two, memory, LEN, 1));
    fixture_close_with(DOUBLE_UNORDERED, 1);
}

static void two_reads_need_no_order(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t one = fixture_stream(), two = fixture_stream();
    OK(double_launch_read(one, memory, LEN, NULL, NULL));
    OK(double_launch_read(two, memory, LEN, NULL, NULL));
    fixture_close();
}

static void other_bytes_need_no_order(void **state)
{
    (void)state;
    for (size_t begin = 49; begin <= 50; begin++) {
        fixture_open(DOUBLE_EARLY);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t one = fixture_stream(), two = fixture_stream();
        OK(double_launch_fill(one, memory, 50, 1));
        OK(double_launch_fill(two, memory + begin, 10, 1));
        fixture_close_with(DOUBLE_UNORDERED, begin < 50);
    }
}

static void each_of_several_readers_counts(void **state)
{
    (void)state;
    for (int forgotten = -1; forgotten < 3; forgotten++) {
        fixture_open(DOUBLE_RANDOM);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t writer = fixture_stream();
        for (int i = 0; i < 3; i++) {
            cudaStream_t reader = fixture_stream();
            cudaEvent_t read = fixture_event();
            OK(double_launch_read(reader, memory + 10 * i, LEN - 10 * (size_t)i, NULL, NULL));
            OK(cudaEventRecord(read, reader));
            if (i != forgotten)
                OK(cudaStreamWaitEvent(writer, read, 0));
        }
        OK(double_launch_fill(writer, memory, LEN, 1));
        fixture_close_with(DOUBLE_UNORDERED, forgotten >= 0);
    }
}

static void an_event_that_was_not_recorded_orders_nothing(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t writer = fixture_stream(), reader = fixture_stream();
    cudaEvent_t never = fixture_event();
    OK(double_launch_fill(writer, memory, LEN, 1));
    OK(cudaStreamWaitEvent(reader, never, 0));
    OK(cudaEventQuery(never));
    OK(cudaEventSynchronize(never));
    OK(double_launch_read(reader, memory, LEN, NULL, NULL));
    fixture_close_with(DOUBLE_UNORDERED, 1);
}

static void a_wait_takes_what_was_recorded_at_the_call(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t writer = fixture_stream(), reader = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaMemset(memory, 0, LEN));
    OK(cudaDeviceSynchronize());
    OK(double_launch_fill(writer, memory, 10, 1));
    OK(cudaEventRecord(event, writer));
    OK(cudaStreamWaitEvent(reader, event, 0));
    OK(double_launch_fill(writer, memory + 10, 10, 1));
    OK(cudaEventRecord(event, writer));
    OK(double_launch_read(reader, memory, 10, NULL, NULL));
    OK(cudaStreamSynchronize(reader));
    fixture_expect(memory, 10, 1);
    fixture_expect(memory + 10, 10, 0); /* the wait does not include the second record */
    assert_int_equal(double_found(DOUBLE_UNORDERED), 0);
    OK(double_launch_read(reader, memory, 20, NULL, NULL));
    fixture_close_with(DOUBLE_UNORDERED, 1);
}

static void a_wait_outlives_its_event(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t writer = fixture_stream(), reader = fixture_stream();
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    OK(double_launch_fill(writer, memory, LEN, 1));
    OK(cudaEventRecord(event, writer));
    OK(cudaStreamWaitEvent(reader, event, 0));
    OK(cudaEventDestroy(event));
    OK(double_launch_read(reader, memory, LEN, NULL, NULL));
    OK(cudaStreamSynchronize(reader));
    fixture_expect(memory, LEN, 1);
    fixture_close();
}

static void an_event_is_recorded_on_its_device_and_waited_for_on_any(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    uint8_t *pinned = fixture_pinned(LEN);
    cudaStream_t here = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaSetDevice(1));
    uint8_t *there_memory = fixture_device(LEN);
    cudaStream_t there = fixture_stream();
    assert_int_equal(cudaEventRecord(event, there), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    OK(cudaMemcpyAsync(pinned, memory, LEN, cudaMemcpyDeviceToHost, here));
    OK(cudaEventRecord(event, here));
    OK(cudaStreamWaitEvent(there, event, 0));
    OK(cudaMemcpyAsync(there_memory, pinned, LEN, cudaMemcpyHostToDevice, there));
    OK(cudaStreamSynchronize(there));
    fixture_close();
}

/* One access on the default stream and one on another, in either order. */
static void access_with_the_default_stream(bool blocking, bool default_first)
{
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t other = blocking ? fixture_blocking_stream() : fixture_stream();
    cudaStream_t first = default_first ? NULL : other, second = default_first ? other : NULL;
    OK(double_launch_fill(first, memory, LEN, 1));
    OK(double_launch_add_one(second, memory, LEN));
    OK(cudaStreamSynchronize(second));
    if (blocking)
        fixture_expect(memory, LEN, 2);
}

static void the_default_stream_is_ordered_with_blocking_ones_only(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        fixture_open(DOUBLE_LATE);
        bool blocking = i & 1;
        access_with_the_default_stream(blocking, i & 2);
        fixture_close_with(DOUBLE_UNORDERED, !blocking);
    }
}

static void blocking_streams_are_ordered_through_the_default_one(void **state)
{
    (void)state;
    for (int between = 0; between < 2; between++) {
        fixture_open(DOUBLE_LATE);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t one = fixture_blocking_stream(), two = fixture_blocking_stream();
        OK(double_launch_fill(one, memory, LEN, 1));
        if (between)
            OK(double_launch_spin(NULL, 1));
        OK(double_launch_fill(two, memory, LEN, 2));
        fixture_close_with(DOUBLE_UNORDERED, !between);
    }
}

static void each_device_has_a_default_stream(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *pinned = fixture_pinned(LEN);
    uint8_t *memory = fixture_device(LEN);
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, NULL));
    OK(cudaSetDevice(1));
    uint8_t *other = fixture_device(LEN);
    OK(cudaMemcpyAsync(pinned, other, LEN, cudaMemcpyDeviceToHost, NULL));
    fixture_close_with(DOUBLE_UNORDERED, 1);
}

static void the_per_thread_default_stream_is_a_blocking_one(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        fixture_open(DOUBLE_LATE);
        uint8_t *memory = fixture_device(LEN);
        OK(double_launch_fill(cudaStreamPerThread, memory, LEN, 1));
        double_handoff(0, 1);
        double_as_thread(1);
        OK(double_launch_fill(other ? cudaStreamPerThread : cudaStreamLegacy, memory, LEN, 1));
        double_as_thread(0);
        fixture_close_with(DOUBLE_UNORDERED, other);
    }
}

static void what_the_device_was_given_is_waited_for(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(double_launch_fill(stream, memory, LEN, 1));
    OK(cudaStreamDestroy(stream)); /* returns at once, and the fill still runs */
    OK(cudaDeviceSynchronize());
    fixture_expect(memory, LEN, 1);
    fixture_close();
}

static int ran_after = 0;

static void note_bytes(void *user)
{
    const uint8_t *view = user;
    ran_after = view[0];
}

static void host_functions_run_in_their_stream(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    ran_after = -1;
    OK(double_launch_fill(stream, memory, LEN, 5));
    OK(cudaLaunchHostFunc(stream, note_bytes, double_host_view(memory)));
    OK(double_launch_fill(stream, memory, LEN, 6));
    assert_int_equal(ran_after, -1);
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(ran_after, 5);
    fixture_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_runs_in_order),
        cmocka_unit_test(late_runs_only_what_a_wait_needs),
        cmocka_unit_test(a_wait_orders_two_streams),
        cmocka_unit_test(without_a_wait_it_is_reported_in_any_timing),
        cmocka_unit_test(a_write_after_an_unordered_read_is_reported),
        cmocka_unit_test(two_reads_need_no_order),
        cmocka_unit_test(other_bytes_need_no_order),
        cmocka_unit_test(each_of_several_readers_counts),
        cmocka_unit_test(an_event_that_was_not_recorded_orders_nothing),
        cmocka_unit_test(a_wait_takes_what_was_recorded_at_the_call),
        cmocka_unit_test(a_wait_outlives_its_event),
        cmocka_unit_test(an_event_is_recorded_on_its_device_and_waited_for_on_any),
        cmocka_unit_test(the_default_stream_is_ordered_with_blocking_ones_only),
        cmocka_unit_test(blocking_streams_are_ordered_through_the_default_one),
        cmocka_unit_test(each_device_has_a_default_stream),
        cmocka_unit_test(the_per_thread_default_stream_is_a_blocking_one),
        cmocka_unit_test(what_the_device_was_given_is_waited_for),
        cmocka_unit_test(host_functions_run_in_their_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
