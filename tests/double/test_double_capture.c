/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures and graphs: what is captured, what threads may do meanwhile, what invalidates a capture.
 */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 100 };

#define GLOBAL cudaStreamCaptureModeGlobal
#define THREAD_LOCAL cudaStreamCaptureModeThreadLocal
#define RELAXED cudaStreamCaptureModeRelaxed

static enum cudaStreamCaptureStatus status_of(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(stream, &status));
    return status;
}

static void end_good(cudaStream_t stream)
{
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphDestroy(graph));
}

static void end_bad(cudaStream_t stream)
{
    cudaGraph_t graph;
    assert_int_equal(status_of(stream), cudaStreamCaptureStatusInvalidated);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    assert_int_equal(status_of(stream), cudaStreamCaptureStatusNone);
}

static void captured_work_runs_at_each_launch(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        fixture_open((enum double_policy)p);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream();
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        OK(cudaMemsetAsync(memory, 0, LEN, stream));
        OK(cudaStreamSynchronize(stream));
        OK(cudaStreamBeginCapture(stream, GLOBAL));
        assert_int_equal(status_of(stream), cudaStreamCaptureStatusActive);
        OK(double_launch_add_one(stream, memory, LEN));
        OK(cudaStreamEndCapture(stream, &graph));
        double_run_all();
        fixture_expect(memory, LEN, 0);
        OK(cudaGraphInstantiate(&exec, graph, 0));
        OK(cudaGraphDestroy(graph));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaStreamSynchronize(stream));
        fixture_expect(memory, LEN, 2);
        fixture_close();
    }
}

/* main fills, side adds one after it, main adds one after that; or without the waits. */
static cudaGraphExec_t fork_and_join(cudaStream_t main, uint8_t *memory, bool ordered)
{
    cudaStream_t side = fixture_stream();
    cudaEvent_t forked = fixture_event(), joined = fixture_event();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(main, GLOBAL));
    if (!ordered)
        OK(cudaEventRecord(forked, main));
    OK(double_launch_fill(main, memory, LEN, 1));
    if (ordered)
        OK(cudaEventRecord(forked, main));
    OK(cudaStreamWaitEvent(side, forked, 0));
    assert_int_equal(status_of(side), cudaStreamCaptureStatusActive);
    OK(double_launch_add_one(side, memory, LEN));
    OK(cudaEventRecord(joined, side));
    OK(cudaStreamWaitEvent(main, joined, 0));
    OK(double_launch_add_one(main, memory, LEN));
    OK(cudaStreamEndCapture(main, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

static void events_order_streams_within_a_capture(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        bool ordered = i >= 3;
        fixture_open((enum double_policy)(i % 3));
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream();
        cudaGraphExec_t exec = fork_and_join(stream, memory, ordered);
        assert_int_equal(double_found(DOUBLE_UNORDERED), 0); /* judged when it is launched */
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaStreamSynchronize(stream));
        if (ordered)
            fixture_expect(memory, LEN, 3);
        OK(cudaGraphExecDestroy(exec));
        fixture_close_with(DOUBLE_UNORDERED, !ordered);
    }
}

static void a_launch_is_ordered_by_its_stream_and_the_launch_before(void **state)
{
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        fixture_open(DOUBLE_RANDOM);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream(), other = fixture_stream();
        cudaGraphExec_t exec = fork_and_join(stream, memory, true);
        OK(double_launch_fill(stream, memory, LEN, 9));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaGraphLaunch(exec, other)); /* after the graph's first launch */
        assert_int_equal(double_found(DOUBLE_UNORDERED), 0);
        OK(double_launch_add_one(ordered ? other : stream, memory, LEN));
        OK(cudaStreamSynchronize(other));
        if (ordered)
            fixture_expect(memory, LEN, 4);
        OK(cudaGraphExecDestroy(exec));
        fixture_close_with(DOUBLE_UNORDERED, !ordered);
    }
}

static void work_that_is_not_joined_makes_no_graph(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaStream_t stream = fixture_stream(), side = fixture_stream();
    cudaEvent_t forked = fixture_event();
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, GLOBAL));
    OK(cudaEventRecord(forked, stream));
    OK(cudaStreamWaitEvent(side, forked, 0));
    assert_int_equal(cudaStreamEndCapture(side, &graph), cudaErrorStreamCaptureUnmatched);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaStreamBeginCapture(stream, GLOBAL));
    OK(cudaEventRecord(forked, stream));
    OK(cudaStreamWaitEvent(side, forked, 0));
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    assert_null(graph);
    assert_int_equal(status_of(side), cudaStreamCaptureStatusNone);
    fixture_close();
}

static void the_default_stream_is_no_stream_to_capture(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaGraph_t graph;
    assert_int_equal(cudaStreamBeginCapture(NULL, GLOBAL), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(NULL, &graph), cudaErrorIllegalState);
    fixture_close();
}

static void the_default_stream_cannot_be_used_while_a_blocking_one_captures(void **state)
{
    (void)state;
    uint8_t byte = 0;
    for (int i = 0; i < 5; i++) {
        fixture_open(DOUBLE_EARLY);
        uint8_t *memory = fixture_device(LEN);
        cudaEvent_t event = fixture_event();
        cudaStream_t stream = fixture_blocking_stream();
        enum cudaStreamCaptureStatus status;
        OK(cudaStreamBeginCapture(stream, RELAXED));
        assert_int_equal(cudaStreamIsCapturing(NULL, &status), cudaErrorStreamCaptureImplicit);
        double_as_thread(1); /* whatever the thread */
        assert_int_equal(cudaStreamIsCapturing(NULL, &status), cudaErrorStreamCaptureImplicit);
        double_as_thread(0);
        /* the query changes nothing */
        assert_int_equal(status_of(stream), cudaStreamCaptureStatusActive);
        cudaError_t error = cudaSuccess;
        switch (i) {
        case 0: error = double_launch_fill(NULL, memory, LEN, 1); break;
        case 1: error = cudaEventRecord(event, NULL); break;
        case 2: error = cudaStreamWaitEvent(NULL, event, 0); break;
        case 3: error = cudaMemcpy(memory, &byte, 1, cudaMemcpyHostToDevice); break;
        default: error = cudaStreamSynchronize(NULL); break;
        }
        assert_int_equal(error, cudaErrorStreamCaptureImplicit);
        end_bad(stream);
        fixture_close();
    }
}

static void non_blocking_captures_leave_the_default_stream_alone(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory = fixture_device(LEN);
    cudaEvent_t event = fixture_event();
    cudaStream_t stream = fixture_stream();
    OK(cudaStreamBeginCapture(stream, GLOBAL));
    assert_int_equal(status_of(NULL), cudaStreamCaptureStatusNone);
    OK(double_launch_fill(NULL, memory, LEN, 1));
    OK(cudaEventRecord(event, NULL));
    end_good(stream);
    fixture_close();
}

/* Calls that captures may forbid. */
enum { N_UNSAFE = 10 };
static cudaError_t do_unsafe(int i, uint8_t *memory, cudaStream_t other, cudaEvent_t event)
{
    void *more = NULL;
    uint8_t byte = 0;
    switch (i) {
    case 0: return cudaMalloc(&more, 1);
    case 1: return cudaMallocHost(&more, 1);
    case 2: return cudaFree(memory);
    case 3: return cudaHostRegister(memory, 4096, 0);
    case 4: return cudaEventQuery(event);
    case 5: return cudaEventSynchronize(event);
    case 6: return cudaStreamQuery(other);
    case 7: return cudaStreamSynchronize(other);
    case 8: return cudaDeviceSynchronize();
    default: return cudaMemcpy(memory, &byte, 1, cudaMemcpyHostToDevice);
    }
}

static void a_capture_forbids_what_is_unsafe(void **state)
{
    (void)state;
    for (int i = 0; i < N_UNSAFE; i++) {
        fixture_open(DOUBLE_EARLY);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream(), other = fixture_stream();
        cudaEvent_t event = fixture_event();
        OK(cudaStreamBeginCapture(stream, THREAD_LOCAL));
        assert_int_equal(do_unsafe(i, memory, other, event), cudaErrorStreamCaptureUnsupported);
        end_bad(stream);
        fixture_close();
    }
}

/*
 * Mode of the capture, mode of the thread, whether it is the capture's thread: is cudaEventQuery
 * forbidden?
 */
static const struct {
    enum cudaStreamCaptureMode capture, thread;
    bool same, forbidden;
} modes[] = {
    {GLOBAL, GLOBAL, true, true},         {GLOBAL, THREAD_LOCAL, true, true},
    {GLOBAL, RELAXED, true, false},       {THREAD_LOCAL, GLOBAL, true, true},
    {THREAD_LOCAL, RELAXED, true, false}, {RELAXED, GLOBAL, true, false},
    {GLOBAL, GLOBAL, false, true},        {GLOBAL, THREAD_LOCAL, false, false},
    {GLOBAL, RELAXED, false, false},      {THREAD_LOCAL, GLOBAL, false, false},
    {RELAXED, GLOBAL, false, false},
};

static void the_modes_of_capture_and_thread_decide(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        fixture_open(DOUBLE_EARLY);
        cudaStream_t stream = fixture_stream();
        cudaEvent_t event = fixture_event();
        OK(cudaStreamBeginCapture(stream, modes[i].capture));
        double_as_thread(modes[i].same ? 0 : 1);
        enum cudaStreamCaptureMode mode = modes[i].thread;
        OK(cudaThreadExchangeStreamCaptureMode(&mode));
        cudaError_t expected = modes[i].forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
        assert_int_equal(cudaEventQuery(event), expected);
        OK(cudaThreadExchangeStreamCaptureMode(&mode));
        double_as_thread(0);
        if (modes[i].forbidden)
            end_bad(stream);
        else
            end_good(stream);
        fixture_close();
    }
}

static void a_stream_that_captures_is_not_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        fixture_open(DOUBLE_EARLY);
        cudaStream_t stream = fixture_stream();
        OK(cudaStreamBeginCapture(stream, RELAXED));
        cudaError_t error = i == 0   ? cudaStreamSynchronize(stream)
                            : i == 1 ? cudaStreamQuery(stream)
                                     : cudaDeviceSynchronize();
        assert_int_equal(error, cudaErrorStreamCaptureUnsupported);
        end_bad(stream);
        fixture_close();
    }
}

static void an_event_from_outside_is_not_waited_for_in_a_capture(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaStream_t stream = fixture_stream(), other = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaEventRecord(event, other));
    OK(cudaStreamBeginCapture(stream, RELAXED));
    assert_int_equal(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
    end_bad(stream);
    fixture_close();
}

static void recording_in_a_capture_captures_the_event(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture_open(DOUBLE_EARLY);
        cudaStream_t stream = fixture_stream();
        cudaEvent_t event = fixture_event();
        OK(cudaEventRecord(event, stream));
        OK(cudaStreamBeginCapture(stream, RELAXED));
        OK(cudaEventRecord(event, stream));
        assert_int_equal(i ? cudaEventSynchronize(event) : cudaEventQuery(event),
                         cudaErrorCapturedEvent);
        end_bad(stream);
        assert_int_equal(cudaEventSynchronize(event), cudaErrorCapturedEvent);
        OK(cudaEventRecord(event, stream)); /* until it is recorded outside again */
        OK(cudaEventSynchronize(event));
        fixture_close();
    }
}

static void two_captures_do_not_merge(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaStream_t one = fixture_stream(), two = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaStreamBeginCapture(one, RELAXED));
    OK(cudaStreamBeginCapture(two, RELAXED));
    assert_int_equal(cudaStreamBeginCapture(two, RELAXED), cudaErrorIllegalState);
    OK(cudaEventRecord(event, one));
    assert_int_equal(cudaStreamWaitEvent(two, event, 0), cudaErrorStreamCaptureMerge);
    end_bad(one);
    end_bad(two);
    fixture_close();
}

static void a_capture_ends_in_its_thread_unless_it_is_relaxed(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaStream_t stream = fixture_stream();
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, GLOBAL));
    double_as_thread(1);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
    double_as_thread(0);
    end_good(stream);
    OK(cudaStreamBeginCapture(stream, RELAXED));
    double_as_thread(1);
    end_good(stream);
    double_as_thread(0);
    fixture_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_work_runs_at_each_launch),
        cmocka_unit_test(events_order_streams_within_a_capture),
        cmocka_unit_test(a_launch_is_ordered_by_its_stream_and_the_launch_before),
        cmocka_unit_test(work_that_is_not_joined_makes_no_graph),
        cmocka_unit_test(the_default_stream_is_no_stream_to_capture),
        cmocka_unit_test(the_default_stream_cannot_be_used_while_a_blocking_one_captures),
        cmocka_unit_test(non_blocking_captures_leave_the_default_stream_alone),
        cmocka_unit_test(a_capture_forbids_what_is_unsafe),
        cmocka_unit_test(the_modes_of_capture_and_thread_decide),
        cmocka_unit_test(a_stream_that_captures_is_not_waited_for),
        cmocka_unit_test(an_event_from_outside_is_not_waited_for_in_a_capture),
        cmocka_unit_test(recording_in_a_capture_captures_the_event),
        cmocka_unit_test(two_captures_do_not_merge),
        cmocka_unit_test(a_capture_ends_in_its_thread_unless_it_is_relaxed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
