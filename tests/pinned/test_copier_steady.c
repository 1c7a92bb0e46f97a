/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the cost of a batch in the steady state, after the first ones. The consumer's thread never
 * blocks, nothing is allocated, nothing goes through pageable memory, and there are at most two
 * copies per device and batch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/pinned/copier_fixture.h"
#include "tests/support/allocations.h"

enum { COPIER = 1, CONSUMER = 2, MAX_GPUS = 5, N_WARM = 6, N_BATCHES = 200 };

/* mr_device_cuda, with copies counted per device. */
static struct mr_device_ops counting;
static uint64_t n_copies[MAX_GPUS];

static mr_status open_counted(int32_t id, struct mr_device_handle **handle_out, mr_error *error)
{
    mr_status status = mr_device_cuda.open(id, handle_out, error);
    if (status == MR_OK)
        (*handle_out)->ops = &counting;
    return status;
}

static mr_status copy_in_counted(struct mr_device_handle *handle, void *device, const void *host,
                                 uint64_t len_bytes, mr_error *error)
{
    n_copies[handle->device.id]++;
    return mr_device_cuda.copy_in(handle, device, host, len_bytes, error);
}

struct loop {
    struct copier_fixture fixture;
    cudaStream_t streams[MAX_GPUS][2];
};

static void begin(struct loop *loop, const struct mr_placement_names *names)
{
    struct copier_fixture *f = &loop->fixture;
    counting = mr_device_cuda;
    counting.open = open_counted;
    counting.copy_in = copy_in_counted;
    fixture_open(f,
                 &(struct double_options){.n_devices = MAX_GPUS,
                                          .policy = DOUBLE_RANDOM,
                                          .threads = DOUBLE_THREADS_DECLARED,
                                          .seed = 11},
                 names);
    for (uint32_t i = 0; i < f->placement.n_devices; i++)
        if (f->placement.devices[i].ops->kind == MR_DEVICE_CUDA)
            f->placement.devices[i].ops = &counting;
    double_as_thread(COPIER);
    assert_int_equal(fixture_create(f), MR_OK);
    assert_int_equal(fixture_pin(f), MR_OK);
    double_handoff(COPIER, CONSUMER);
    double_as_thread(CONSUMER);
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
        assert_int_equal(cudaSetDevice(gpu), cudaSuccess);
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(
                cudaStreamCreateWithFlags(&loop->streams[gpu][i], cudaStreamNonBlocking),
                cudaSuccess);
    }
}

static void end(struct loop *loop)
{
    double_handoff(CONSUMER, COPIER);
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        for (uint32_t i = 0; i < 2; i++)
            assert_int_equal(cudaStreamDestroy(loop->streams[gpu][i]), cudaSuccess);
    double_as_thread(COPIER);
    if (fixture_close(&loop->fixture) != 0)
        fail_msg("%s", double_report());
}

static void consume(struct loop *loop, uint32_t buffer)
{
    struct copier_fixture *f = &loop->fixture;
    double_as_thread(CONSUMER);
    for (uint32_t i = 0; i < mr_copier_n_parts(f->copier, buffer); i++) {
        struct mr_copied_part part = mr_copier_part(f->copier, buffer, i);
        for (uint32_t s = 0; s < 2; s++) {
            assert_int_equal(fixture_use(f, buffer, i, loop->streams[part.image_device.id][s]),
                             MR_OK);
            assert_int_equal(cudaSetDevice(part.image_device.id), cudaSuccess);
            assert_int_equal(double_launch_read(loop->streams[part.image_device.id][s], part.image,
                                                part.n_rows * f->oracle.row_bytes, NULL, NULL),
                             cudaSuccess);
        }
        if (part.label_device.kind == MR_DEVICE_CUDA &&
            part.label_device.id != part.image_device.id)
            assert_int_equal(fixture_use(f, buffer, i, loop->streams[part.label_device.id][0]),
                             MR_OK);
    }
    assert_int_equal(fixture_release(f, buffer), MR_OK);
}

/* Like the loader: the next batch is issued before the one before is awaited. */
static void run_batches(struct loop *loop, uint32_t n)
{
    struct copier_fixture *f = &loop->fixture;
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t buffer;
        double_as_thread(COPIER);
        double_handoff(CONSUMER, COPIER);
        assert_int_equal(fixture_issue(f, &buffer), MR_OK);
        double_handoff(COPIER, CONSUMER);
        consume(loop, buffer);
        double_as_thread(COPIER);
        if (i > 0)
            assert_int_equal(fixture_await(f, before), MR_OK);
        before = buffer;
    }
    double_as_thread(COPIER);
    assert_int_equal(fixture_await(f, before), MR_OK);
}

static uint32_t n_gpus(const struct mr_placement *placement)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < placement->n_devices; i++)
        n += placement->devices[i].ops->kind == MR_DEVICE_CUDA;
    return n;
}

static void count(const struct mr_placement_names *names)
{
    struct loop *loop = malloc(sizeof *loop);
    assert_non_null(loop);
    memset(loop, 0, sizeof *loop);
    begin(loop, names);
    run_batches(loop, N_WARM);
    double_mark();
    memset(n_copies, 0, sizeof n_copies);
    run_batches(loop, N_BATCHES);
    struct double_counts consumer = double_count(CONSUMER);
    struct double_counts all = double_count(DOUBLE_ALL_THREADS);
    assert_int_equal(consumer.blocking, 0);
    assert_int_equal(all.pageable, 0);
    assert_int_equal(all.allocations, 0);
    assert_int_equal(double_calls("cudaEventSynchronize"), all.blocking);
    if (names->label_device == NULL || strcmp(names->label_device, "host") != 0)
        assert_int_equal(all.blocking, (uint64_t)N_BATCHES * n_gpus(&loop->fixture.placement));
    for (uint32_t gpu = 0; gpu < MAX_GPUS; gpu++)
        if (n_copies[gpu] > 2 * N_BATCHES)
            fail_msg("cuda:%u: %llu copies for %d batches", gpu, (unsigned long long)n_copies[gpu],
                     (int)N_BATCHES);
    assert_true(n_copies[0] > 0);
    end(loop);
    free(loop);
}

static void on_one_gpu(void **state)
{
    (void)state;
    count(&(struct mr_placement_names){.device = "cuda:0"});
}

static void scattered_over_two_and_four(void **state)
{
    (void)state;
    static const char *const devices[] = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    count(&(struct mr_placement_names){.devices = devices, .n_devices = 2});
    count(&(struct mr_placement_names){.devices = devices, .n_devices = 4});
}

static void with_labels_on_another_gpu(void **state)
{
    (void)state;
    count(&(struct mr_placement_names){.device = "cuda:0", .label_device = "cuda:1"});
}

/*
 * In this case the copier's thread also sleeps for the streams: the host's memory has no stream
 * that could wait.
 */
static void with_labels_on_the_host(void **state)
{
    (void)state;
    count(&(struct mr_placement_names){.device = "cuda:0", .label_device = "host"});
}

/*
 * What await reports about the previous batch in the same buffer, if the consumer asks this long
 * after the issue.
 */
static int32_t ready_after(uint64_t ns)
{
    struct copier_fixture f;
    cudaStream_t stream;
    struct mr_copy_report report = {0};
    uint32_t buffer;
    fixture_open(&f, &(struct double_options){.policy = DOUBLE_EARLY, .h2d_mb_per_s = 1}, NULL);
    assert_int_equal(fixture_create(&f), MR_OK);
    assert_int_equal(fixture_pin(&f), MR_OK);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (uint32_t i = 0; i <= FIXTURE_BUFFERS; i++) {
        assert_int_equal(fixture_issue(&f, &buffer), MR_OK);
        if (i == FIXTURE_BUFFERS)
            break;
        double_host_work("elsewhere", ns);
        assert_int_equal(fixture_use(&f, buffer, 0, stream), MR_OK);
        assert_int_equal(fixture_await(&f, buffer), MR_OK);
        assert_int_equal(fixture_release(&f, buffer), MR_OK);
    }
    assert_int_equal(buffer, 0);
    assert_int_equal(mr_copier_await(f.copier, buffer, &report, &f.error), MR_OK);
    assert_true(report.ns > 0 && report.bytes > 0);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    assert_int_equal(fixture_close(&f), 0);
    return report.was_ready;
}

static void a_batch_is_ready_when_its_copy_ended_before_its_stream_came(void **state)
{
    (void)state;
    assert_int_equal(ready_after(0), 0);
    assert_int_equal(ready_after(1000000000), 1);
}

/*
 * On the host's devices, because the double itself allocates; the remaining allocations would be
 * the copier's and the buffers'.
 */
static void without_malloc(void **state)
{
    static const char *const devices[] = {"host:0", "host:1"};
    (void)state;
    struct copier_fixture f;
    uint32_t buffer;
    fixture_open(
        &f, &(struct double_options){0},
        &(struct mr_placement_names){.devices = devices, .n_devices = 2, .label_device = "host"});
    fixture_begin(&f, &buffer);
    assert_int_equal(fixture_release(&f, buffer), MR_OK);
    size_t before = allocations.n_own;
    for (uint32_t i = 0; i < N_BATCHES; i++) {
        mr_status status = fixture_issue(&f, &buffer);
        for (uint32_t p = 0; p < 2 && !status; p++)
            status = fixture_use(&f, buffer, p, NULL);
        status = status ? status : fixture_await(&f, buffer);
        status = status ? status : fixture_release(&f, buffer);
        if (status)
            fail_msg("%s", f.error.text);
    }
    assert_int_equal(allocations.n_own, before);
    assert_true(before > 0);
    fixture_check(&f, buffer, N_BATCHES);
    assert_int_equal(fixture_close(&f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_gpu),
        cmocka_unit_test(scattered_over_two_and_four),
        cmocka_unit_test(with_labels_on_another_gpu),
        cmocka_unit_test(with_labels_on_the_host),
        cmocka_unit_test(a_batch_is_ready_when_its_copy_ended_before_its_stream_came),
        cmocka_unit_test(without_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
