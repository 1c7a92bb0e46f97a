/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real threads on the double: they wait for each other, and shared state is locked. Runs under
 * TSan.
 */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 1000, N_THREADS = 4, ROUNDS = 200 };

static void open_trusted(enum double_policy policy)
{
    struct double_options options = {.policy = policy, .seed = 3, .n_devices = 2};
    double_open(&options);
}

struct waiter {
    cudaStream_t stream;
    _Atomic int done;
};

static void *wait_for_stream(void *user)
{
    struct waiter *waiter = user;
    cudaError_t error = cudaStreamSynchronize(waiter->stream);
    atomic_store(&waiter->done, error == cudaSuccess ? 1 : -1);
    return NULL;
}

static void a_thread_that_waits_for_a_gate_sleeps_until_it_opens(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        open_trusted((enum double_policy)p);
        struct waiter waiter = {0};
        pthread_t thread;
        OK(cudaStreamCreateWithFlags(&waiter.stream, cudaStreamNonBlocking));
        OK(double_launch_gate(waiter.stream, 3));
        assert_int_equal(pthread_create(&thread, NULL, wait_for_stream, &waiter), 0);
        (void)usleep(20000);
        assert_int_equal(cudaStreamQuery(waiter.stream), cudaErrorNotReady);
        assert_int_equal(atomic_load(&waiter.done), 0);
        double_open_gate(3);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(atomic_load(&waiter.done), 1);
        OK(cudaStreamDestroy(waiter.stream));
        assert_int_equal(double_close(), 0);
    }
}

static void a_waiter_is_woken_when_the_device_breaks(void **state)
{
    (void)state;
    open_trusted(DOUBLE_LATE);
    struct waiter waiter = {0};
    pthread_t thread;
    OK(cudaStreamCreateWithFlags(&waiter.stream, cudaStreamNonBlocking));
    OK(double_launch_gate(waiter.stream, 3));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_stream, &waiter), 0);
    (void)usleep(20000);
    double_break_device(0, cudaErrorLaunchFailure);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&waiter.done), -1);
    double_close();
}

static _Atomic uint32_t n_told;

static void tell(void *user)
{
    (void)user;
    atomic_fetch_add(&n_told, 1);
}

/* Each thread uses its own streams and memory on its own device. */
static void *work(void *user)
{
    int device = *(const int *)user;
    bool good = cudaSetDevice(device) == cudaSuccess;
    void *memory, *pinned;
    cudaStream_t copies, kernels;
    cudaEvent_t event;
    good = good && cudaMalloc(&memory, LEN) == cudaSuccess &&
           cudaMallocHost(&pinned, LEN) == cudaSuccess &&
           cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking) == cudaSuccess &&
           cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking) == cudaSuccess &&
           cudaEventCreate(&event) == cudaSuccess;
    for (int i = 0; good && i < ROUNDS; i++) {
        memset(pinned, i, LEN);
        uint64_t sum = 0;
        good =
            cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, copies) == cudaSuccess &&
            cudaEventRecord(event, copies) == cudaSuccess &&
            cudaStreamWaitEvent(kernels, event, 0) == cudaSuccess &&
            double_launch_sum(kernels, memory, LEN, &sum) == cudaSuccess &&
            cudaLaunchHostFunc(kernels, tell, NULL) == cudaSuccess &&
            cudaStreamSynchronize(kernels) == cudaSuccess && sum == double_sum(pinned, LEN);
        int now = -1;
        good = good && cudaGetDevice(&now) == cudaSuccess && now == device;
    }
    good = good && cudaFree(memory) == cudaSuccess && cudaFreeHost(pinned) == cudaSuccess &&
           cudaStreamDestroy(copies) == cudaSuccess && cudaStreamDestroy(kernels) == cudaSuccess &&
           cudaEventDestroy(event) == cudaSuccess;
    return good ? user : NULL;
}

static void threads_work_at_the_same_time(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        open_trusted((enum double_policy)p);
        atomic_store(&n_told, 0);
        pthread_t threads[N_THREADS];
        int devices[N_THREADS];
        for (int i = 0; i < N_THREADS; i++) {
            devices[i] = i % 2;
            assert_int_equal(pthread_create(&threads[i], NULL, work, &devices[i]), 0);
        }
        for (int i = 0; i < N_THREADS; i++) {
            void *good;
            assert_int_equal(pthread_join(threads[i], &good), 0);
            assert_non_null(good);
        }
        assert_int_equal(atomic_load(&n_told), N_THREADS * ROUNDS);
        assert_int_equal(double_close(), 0);
        assert_string_equal(double_report(), "");
    }
}

static void *note_number(void *user)
{
    int device = -1;
    *(uint32_t *)user = double_thread();
    return cudaGetDevice(&device) == cudaSuccess && device == 0 && cudaSetDevice(1) == cudaSuccess
               ? user
               : NULL;
}

static void numbers_of_ended_threads_are_used_again(void **state)
{
    (void)state;
    open_trusted(DOUBLE_LATE);
    uint32_t mine = double_thread();
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        uint32_t number = 0;
        void *good;
        assert_int_equal(pthread_create(&thread, NULL, note_number, &number), 0);
        assert_int_equal(pthread_join(thread, &good), 0);
        assert_non_null(good); /* and begin like new threads */
        assert_int_equal(number, mine + 1);
    }
    assert_int_equal(double_close(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_waits_for_a_gate_sleeps_until_it_opens),
        cmocka_unit_test(a_waiter_is_woken_when_the_device_breaks),
        cmocka_unit_test(threads_work_at_the_same_time),
        cmocka_unit_test(numbers_of_ended_threads_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
