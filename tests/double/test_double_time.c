/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time: how long calls take, what overlaps, that a seed gives the same run again, and the
 * timeline.
 */
#include "tests/double/double_fixture.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MB = 1000000 };

static void open_timed(enum double_policy policy, uint64_t seed)
{
    struct double_options options = {.policy = policy,
                                     .seed = seed,
                                     .n_devices = 2,
                                     .h2d_mb_per_s = 10000,
                                     .d2h_mb_per_s = 5000,
                                     .kernel_ns = 2000,
                                     .call_ns = 10,
                                     .trace = true};
    double_open(&options);
    double_as_thread(0);
}

static void copies_and_kernels_take_their_time(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        open_timed((enum double_policy)p, 1);
        void *pinned, *memory;
        cudaEvent_t events[5];
        cudaStream_t stream;
        float ms[4];
        OK(cudaMallocHost(&pinned, MB));
        OK(cudaMalloc(&memory, MB));
        OK(cudaStreamCreate(&stream));
        for (int i = 0; i < 5; i++)
            OK(cudaEventCreate(&events[i]));
        OK(cudaEventRecord(events[0], stream));
        OK(cudaMemcpyAsync(memory, pinned, MB, cudaMemcpyHostToDevice, stream));
        OK(cudaEventRecord(events[1], stream));
        OK(cudaMemcpyAsync(pinned, memory, MB, cudaMemcpyDeviceToHost, stream));
        OK(cudaEventRecord(events[2], stream));
        double_next_launch("step", 85000000);
        OK(double_launch_fill(stream, memory, MB, 1));
        OK(cudaEventRecord(events[3], stream));
        OK(double_launch_fill(stream, memory, MB, 1));
        OK(cudaEventRecord(events[4], stream));
        if (p != DOUBLE_RANDOM) /* where it may have run already */
            assert_int_equal(cudaEventElapsedTime(&ms[0], events[0], events[4]), cudaErrorNotReady);
        uint64_t before_ns = double_now_ns();
        OK(cudaEventSynchronize(events[4]));
        assert_true(double_now_ns() >= before_ns + (p == DOUBLE_RANDOM ? 0 : 85000000));
        for (int i = 0; i < 4; i++)
            OK(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]));
        if (p != DOUBLE_RANDOM) {
            const float expected[] = {0.1F, 0.2F, 85.0F, 0.002F};
            for (int i = 0; i < 4; i++)
                assert_true(ms[i] > expected[i] * 0.99F && ms[i] < expected[i] * 1.01F + 0.0003F);
        }
        for (int i = 0; i < 5; i++)
            OK(cudaEventDestroy(events[i]));
        OK(cudaFree(memory));
        OK(cudaFreeHost(pinned));
        OK(cudaStreamDestroy(stream));
        assert_int_equal(double_close(), 0);
    }
}

/* How long copies of two streams to these devices take together, in units of one copy. */
static int two_copies(int first, int second)
{
    open_timed(DOUBLE_EARLY, 1);
    void *pinned, *memory[2];
    cudaStream_t streams[2];
    OK(cudaMallocHost(&pinned, MB));
    const int devices[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        OK(cudaSetDevice(devices[i]));
        OK(cudaMalloc(&memory[i], MB));
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    }
    uint64_t begin_ns = double_now_ns();
    for (int i = 0; i < 2; i++)
        OK(cudaMemcpyAsync(memory[i], pinned, MB, cudaMemcpyHostToDevice, streams[i]));
    for (int i = 0; i < 2; i++)
        OK(cudaStreamSynchronize(streams[i]));
    uint64_t took_ns = double_now_ns() - begin_ns;
    for (int i = 0; i < 2; i++) {
        OK(cudaFree(memory[i]));
        OK(cudaStreamDestroy(streams[i]));
    }
    OK(cudaFreeHost(pinned));
    assert_int_equal(double_close(), 0);
    return (int)(took_ns / 99000);
}

static void a_device_copies_one_thing_at_a_time(void **state)
{
    (void)state;
    assert_int_equal(two_copies(0, 0), 2);
    assert_int_equal(two_copies(0, 1), 1);
}

static void early_kernels_of_two_streams_overlap(void **state)
{
    (void)state;
    open_timed(DOUBLE_EARLY, 1);
    cudaStream_t one, two;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreate(&two));
    OK(double_launch_spin(one, 1000000));
    OK(double_launch_spin(two, 1000000));
    assert_int_equal(cudaStreamQuery(one), cudaErrorNotReady);
    double_host_work("think", 1000100);
    OK(cudaStreamQuery(one));
    OK(cudaStreamQuery(two));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    assert_int_equal(double_close(), 0);
}

/* What ran when, as text. */
static char *play(enum double_policy policy, uint64_t seed)
{
    open_timed(policy, seed);
    cudaStream_t streams[4];
    for (int i = 0; i < 4; i++)
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (int i = 0; i < 40; i++)
        OK(double_launch_spin(streams[i % 4], 100));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++)
        OK(cudaStreamDestroy(streams[i]));
    char *text;
    size_t len;
    FILE *file = open_memstream(&text, &len);
    double_timeline_print(file);
    (void)fclose(file);
    assert_int_equal(double_close(), 0);
    return text;
}

static void a_seed_gives_the_same_run_again(void **state)
{
    (void)state;
    char *first = play(DOUBLE_RANDOM, 5), *again = play(DOUBLE_RANDOM, 5),
         *other = play(DOUBLE_RANDOM, 6);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    free(first);
    free(again);
    free(other);
}

static void the_timeline_names_rows(void **state)
{
    (void)state;
    open_timed(DOUBLE_EARLY, 1);
    void *memory;
    cudaStream_t stream;
    char *text;
    size_t len;
    OK(cudaMalloc(&memory, 8));
    OK(cudaStreamCreate(&stream));
    double_name_stream(stream, "compute");
    double_next_launch("train \"step\"", 5000);
    OK(double_launch_fill(stream, memory, 8, 1));
    double_host_work("decode", 3000);
    FILE *file = open_memstream(&text, &len);
    double_timeline_write(file);
    (void)fclose(file);
    assert_words(text, "\"name\":\"train  step \",\"pid\":1");
    assert_words(text, "\"dur\":5.000}");
    assert_words(text, "\"thread_name\",\"pid\":1");
    assert_words(text, "{\"name\":\"compute\"}");
    assert_words(text, "{\"name\":\"device 0 (double)\"}");
    assert_words(text, "\"name\":\"decode\",\"pid\":0");
    free(text);
    OK(cudaStreamSynchronize(stream));
    OK(cudaFree(memory));
    OK(cudaStreamDestroy(stream));
    assert_int_equal(double_close(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_kernels_take_their_time),
        cmocka_unit_test(a_device_copies_one_thing_at_a_time),
        cmocka_unit_test(early_kernels_of_two_streams_overlap),
        cmocka_unit_test(a_seed_gives_the_same_run_again),
        cmocka_unit_test(the_timeline_names_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
