/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture of the tests of the double. */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64 };

static struct {
    cudaStream_t streams[MOST];
    cudaEvent_t events[MOST];
    void *device[MOST];
    void *pinned[MOST];
    uint32_t n_streams, n_events, n_device, n_pinned;
} made;

void fixture_open(enum double_policy policy)
{
    memset(&made, 0, sizeof made);
    struct double_options options = {.policy = policy,
                                     .seed = 1,
                                     .n_devices = 2,
                                     .threads = DOUBLE_THREADS_DECLARED,
                                     .trace = true};
    double_open(&options);
    double_as_thread(0);
}

static void give_back(void)
{
    OK(cudaSetDevice(1));
    OK(cudaDeviceSynchronize());
    OK(cudaSetDevice(0));
    OK(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < made.n_device; i++)
        OK(cudaFree(made.device[i]));
    for (uint32_t i = 0; i < made.n_pinned; i++)
        OK(cudaFreeHost(made.pinned[i]));
    for (uint32_t i = 0; i < made.n_events; i++)
        OK(cudaEventDestroy(made.events[i]));
    for (uint32_t i = 0; i < made.n_streams; i++)
        OK(cudaStreamDestroy(made.streams[i]));
}

void fixture_close(void)
{
    give_back();
    double_close();
    assert_string_equal(double_report(), "");
}

void fixture_close_with(enum double_finding kind, uint32_t n)
{
    give_back();
    uint32_t all = double_close();
    if (double_found(kind) != n || all != n)
        print_error("%s", double_report());
    assert_int_equal(double_found(kind), n);
    assert_int_equal(all, n);
}

cudaStream_t fixture_stream(void)
{
    assert_true(made.n_streams < MOST);
    cudaStream_t *stream = &made.streams[made.n_streams++];
    OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    return *stream;
}

cudaStream_t fixture_blocking_stream(void)
{
    assert_true(made.n_streams < MOST);
    cudaStream_t *stream = &made.streams[made.n_streams++];
    OK(cudaStreamCreate(stream));
    return *stream;
}

cudaEvent_t fixture_event(void)
{
    assert_true(made.n_events < MOST);
    cudaEvent_t *event = &made.events[made.n_events++];
    OK(cudaEventCreate(event));
    return *event;
}

uint8_t *fixture_device(size_t len)
{
    assert_true(made.n_device < MOST);
    void **memory = &made.device[made.n_device++];
    OK(cudaMalloc(memory, len));
    return *memory;
}

uint8_t *fixture_pinned(size_t len)
{
    assert_true(made.n_pinned < MOST);
    void **memory = &made.pinned[made.n_pinned++];
    OK(cudaMallocHost(memory, len));
    return *memory;
}

void fixture_expect(const uint8_t *device, size_t len, uint8_t value)
{
    const uint8_t *view = double_host_view(device);
    assert_non_null(view);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(view[i], value);
}
