/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the copier leaves unchanged for its caller: the current device, the last error, captures.
 * Also what it refuses: streams of another device, too many streams, streams in a capture.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pinned/buffer.h"
#include "tests/pinned/copier_fixture.h"
#include "tests/support/assert_words.h"

enum { COPIER = 1, CONSUMER = 2 };

struct world {
    struct copier_fixture fixture;
    uint32_t buffer; /* issued and awaited */
    cudaStream_t streams[2];
    cudaStream_t blocking;
};

/* On cuda:1 of three, so that the caller's current device is another one. */
static void begin(struct world *w, enum double_policy policy)
{
    memset(w, 0, sizeof *w);
    fixture_open(&w->fixture,
                 &(struct double_options){
                     .n_devices = 3, .policy = policy, .threads = DOUBLE_THREADS_DECLARED},
                 &(struct mr_placement_names){.device = "cuda:1"});
    double_as_thread(COPIER);
    fixture_begin(&w->fixture, &w->buffer);
    double_handoff(COPIER, CONSUMER);
    double_as_thread(CONSUMER);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(cudaStreamCreateWithFlags(&w->streams[i], cudaStreamNonBlocking),
                         cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&w->blocking, cudaStreamDefault), cudaSuccess);
}

static void end(struct world *w)
{
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(cudaStreamDestroy(w->streams[i]), cudaSuccess);
    assert_int_equal(cudaStreamDestroy(w->blocking), cudaSuccess);
    double_handoff(CONSUMER, COPIER);
    double_as_thread(COPIER);
    uint32_t n_found = fixture_close(&w->fixture);
    if (n_found > 0)
        fail_msg("%s", double_report());
}

static void expect_status(const struct world *w, mr_status status, mr_status expected,
                          const char *words)
{
    if (status != expected || (words != NULL && strstr(w->fixture.error.text, words) == NULL))
        fail_msg("%s, not %s: %s", mr_status_name(status), mr_status_name(expected),
                 w->fixture.error.text);
}

static void use_and_release_leave_the_callers_device(void **state)
{
    (void)state;
    struct world w;
    begin(&w, DOUBLE_RANDOM);
    for (int mine = 0; mine < 3; mine++) {
        uint32_t buffer = w.buffer;
        int device = -1;
        assert_int_equal(cudaSetDevice(mine), cudaSuccess);
        expect_status(&w, fixture_use(&w.fixture, buffer, 0, w.streams[0]), MR_OK, NULL);
        expect_status(&w, fixture_use(&w.fixture, buffer, 0, NULL), MR_OK, NULL);
        assert_int_equal(cudaGetDevice(&device), cudaSuccess);
        assert_int_equal(device, mine);
        expect_status(&w, fixture_release(&w.fixture, buffer), MR_OK, NULL);
        assert_int_equal(cudaGetDevice(&device), cudaSuccess);
        assert_int_equal(device, mine);
        double_handoff(CONSUMER, COPIER);
        double_as_thread(COPIER);
        expect_status(&w, fixture_issue(&w.fixture, &w.buffer), MR_OK, NULL);
        expect_status(&w, fixture_await(&w.fixture, w.buffer), MR_OK, NULL);
        double_handoff(COPIER, CONSUMER);
        double_as_thread(CONSUMER);
    }
    end(&w);
}

static void the_callers_last_error_stays(void **state)
{
    (void)state;
    struct world w;
    begin(&w, DOUBLE_EARLY);
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[0]), MR_OK, NULL);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    end(&w);
}

static void an_error_of_the_library_does_not_become_the_callers(void **state)
{
    (void)state;
    struct world w;
    begin(&w, DOUBLE_EARLY);
    cudaStream_t foreign;
    assert_int_equal(cudaSetDevice(2), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking), cudaSuccess);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, foreign), MR_ERR_INVALID,
                  "not one of cuda:1");
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    expect_status(&w, mr_copier_remember(w.fixture.copier, w.buffer, 0, foreign, &w.fixture.error),
                  MR_ERR_INVALID, "not one of cuda:1");
    double_fail_at("cudaStreamWaitEvent", 1, cudaErrorNotSupported);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[0]), MR_ERR_DEVICE,
                  "cudaStreamWaitEvent");
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(cudaStreamDestroy(foreign), cudaSuccess);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    end(&w);
}

static void the_threads_capture_mode_stays(void **state)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    (void)state;
    struct world w;
    begin(&w, DOUBLE_LATE);
    for (uint32_t i = 0; i < 3; i++) {
        enum cudaStreamCaptureMode mode = modes[i];
        assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[0]), MR_OK, NULL);
        assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        assert_int_equal(mode, modes[i]);
    }
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    end(&w);
}

static void end_capture(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaGraph_t graph = NULL;
    assert_int_equal(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_non_null(graph);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
}

static void a_stream_in_a_capture_is_refused_and_the_capture_stays_valid(void **state)
{
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        struct world w;
        begin(&w, DOUBLE_RANDOM);
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[1]), MR_OK, NULL);
        assert_int_equal(cudaStreamBeginCapture(w.streams[0], (enum cudaStreamCaptureMode)mode),
                         cudaSuccess);
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[0]), MR_ERR_STATE,
                      "capture");
        expect_status(
            &w, mr_copier_remember(w.fixture.copier, w.buffer, 0, w.streams[0], &w.fixture.error),
            MR_ERR_STATE, "capture");
        end_capture(w.streams[0]);
        /*
         * A stream was used before its capture began: the release is refused, and succeeds after
         * the capture.
         */
        assert_int_equal(cudaStreamBeginCapture(w.streams[1], (enum cudaStreamCaptureMode)mode),
                         cudaSuccess);
        expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_ERR_STATE, "capture");
        end_capture(w.streams[1]);
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[0]), MR_OK, NULL);
        expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
        end(&w);
    }
}

static void the_default_stream_is_refused_while_a_blocking_one_is_captured(void **state)
{
    (void)state;
    struct world w;
    begin(&w, DOUBLE_RANDOM);
    assert_int_equal(cudaStreamBeginCapture(w.blocking, cudaStreamCaptureModeGlobal), cudaSuccess);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, NULL), MR_ERR_STATE, "default stream");
    end_capture(w.blocking);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, NULL), MR_OK, NULL);
    assert_int_equal(cudaStreamBeginCapture(w.blocking, cudaStreamCaptureModeGlobal), cudaSuccess);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_ERR_STATE, "default stream");
    end_capture(w.blocking);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    end(&w);
}

static void other_streams_and_the_copier_work_while_one_is_captured(void **state)
{
    (void)state;
    struct world w;
    uint32_t next;
    begin(&w, DOUBLE_RANDOM);
    assert_int_equal(cudaStreamBeginCapture(w.streams[0], cudaStreamCaptureModeGlobal),
                     cudaSuccess);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[1]), MR_OK, NULL);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    double_handoff(CONSUMER, COPIER);
    double_as_thread(COPIER);
    for (uint32_t i = 0; i < 4; i++) {
        expect_status(&w, fixture_issue(&w.fixture, &next), MR_OK, NULL);
        expect_status(&w, fixture_await(&w.fixture, next), MR_OK, NULL);
    }
    double_handoff(COPIER, CONSUMER);
    double_as_thread(CONSUMER);
    end_capture(w.streams[0]);
    end(&w);
}

static void a_ninth_stream_is_refused(void **state)
{
    (void)state;
    struct world w;
    cudaStream_t streams[MR_BUFFER_STREAMS + 1];
    begin(&w, DOUBLE_EARLY);
    for (uint32_t i = 0; i <= MR_BUFFER_STREAMS; i++) {
        assert_int_equal(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking),
                         cudaSuccess);
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, streams[i]),
                      i < MR_BUFFER_STREAMS ? MR_OK : MR_ERR_STATE, NULL);
        /* the same stream again does not count */
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, streams[0]), MR_OK, NULL);
    }
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    for (uint32_t i = 0; i <= MR_BUFFER_STREAMS; i++)
        assert_int_equal(cudaStreamDestroy(streams[i]), cudaSuccess);
    end(&w);
}

/* A program that makes a stream for each batch and destroys it after the release. */
static void streams_are_forgotten_with_their_batch(void **state)
{
    (void)state;
    struct world w;
    begin(&w, DOUBLE_RANDOM);
    for (uint32_t i = 0; i < 3 * MR_BUFFER_STREAMS; i++) {
        cudaStream_t stream;
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, stream), MR_OK, NULL);
        expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
        assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
        double_handoff(CONSUMER, COPIER);
        double_as_thread(COPIER);
        expect_status(&w, fixture_issue(&w.fixture, &w.buffer), MR_OK, NULL);
        expect_status(&w, fixture_await(&w.fixture, w.buffer), MR_OK, NULL);
        double_handoff(COPIER, CONSUMER);
        double_as_thread(CONSUMER);
    }
    end(&w);
}

/*
 * Old programs do everything on the default stream, which waits for all other streams except the
 * copier's.
 */
static void copies_do_not_wait_for_the_default_stream(void **state)
{
    (void)state;
    struct world w;
    begin(&w, DOUBLE_LATE);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    assert_int_equal(double_launch_gate(NULL, 0), cudaSuccess);
    double_handoff(CONSUMER, COPIER);
    double_as_thread(COPIER);
    expect_status(&w, fixture_issue(&w.fixture, &w.buffer), MR_OK, NULL);
    double_run_all();
    fixture_check(&w.fixture, w.buffer, 1);
    double_open_gate(0);
    expect_status(&w, fixture_await(&w.fixture, w.buffer), MR_OK, NULL);
    double_handoff(COPIER, CONSUMER);
    double_as_thread(CONSUMER);
    end(&w);
}

/*
 * The last batch of a destroyed loader destroys the copier, in the thread that releases the batch.
 */
static void destroy_leaves_the_callers_thread_as_it_was(void **state)
{
    (void)state;
    struct world w;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    int device = -1;
    begin(&w, DOUBLE_RANDOM);
    expect_status(&w, fixture_use(&w.fixture, w.buffer, 0, w.streams[0]), MR_OK, NULL);
    expect_status(&w, fixture_release(&w.fixture, w.buffer), MR_OK, NULL);
    assert_int_equal(cudaSetDevice(2), cudaSuccess);
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    assert_int_equal(cudaStreamBeginCapture(w.streams[1], cudaStreamCaptureModeGlobal),
                     cudaSuccess);
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    mr_copier_destroy(w.fixture.copier);
    w.fixture.copier = NULL;
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaGetDevice(&device), cudaSuccess);
    assert_int_equal(device, 2);
    end_capture(w.streams[1]);
    mode = cudaStreamCaptureModeGlobal;
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    assert_int_equal(mode, cudaStreamCaptureModeThreadLocal);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_and_release_leave_the_callers_device),
        cmocka_unit_test(the_callers_last_error_stays),
        cmocka_unit_test(an_error_of_the_library_does_not_become_the_callers),
        cmocka_unit_test(the_threads_capture_mode_stays),
        cmocka_unit_test(a_stream_in_a_capture_is_refused_and_the_capture_stays_valid),
        cmocka_unit_test(the_default_stream_is_refused_while_a_blocking_one_is_captured),
        cmocka_unit_test(other_streams_and_the_copier_work_while_one_is_captured),
        cmocka_unit_test(a_ninth_stream_is_refused),
        cmocka_unit_test(streams_are_forgotten_with_their_batch),
        cmocka_unit_test(copies_do_not_wait_for_the_default_stream),
        cmocka_unit_test(destroy_leaves_the_callers_thread_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
