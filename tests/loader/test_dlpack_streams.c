/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors of batches on the double of the CUDA runtime: which stream waits, and for what. */
#include "tests/loader/rig.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "loader/dlpack_abi.h"
#include "tests/double/cuda_double.h"

enum { N_BYTES = 8 * RIG_BYTES };

static mr_loader *open_double_waiting(struct rig *rig, enum double_policy policy,
                                      bool wait_when_lent)
{
    struct double_options machine = {
        .policy = policy, .seed = 11, .n_devices = 2, .kernel_ns = 1000000};
    double_open(&machine);
    mr_loader_options options = rig_options();
    options.device = "cuda:1";
    options.n_buffers = 2;
    options.wait_when_lent = wait_when_lent;
    mr_loader *loader = rig_loader(rig, &options);
    assert_int_equal(cudaSetDevice(1), cudaSuccess);
    return loader;
}

static mr_loader *open_double(struct rig *rig, enum double_policy policy)
{
    return open_double_waiting(rig, policy, false);
}

static void close_double(void)
{
    if (double_close() != 0)
        fail_msg("%s", double_report());
}

static struct DLManagedTensor *export_image(mr_batch *batch, cudaStream_t stream)
{
    struct DLManagedTensor *tensor;
    if (mr_batch_to_dlpack(batch, mr_batch_array_at(batch, 0)->name, stream, &tensor) != MR_OK)
        fail_msg("%s", mr_batch_error(batch)->text);
    return tensor;
}

static mr_batch *next_on(mr_loader *loader, cudaStream_t stream)
{
    mr_batch *batch;
    if (mr_loader_next_on(loader, MR_FOREVER, stream, &batch) != MR_OK)
        fail_msg("%s", mr_loader_error(loader)->text);
    return batch;
}

static void a_tensor_names_its_gpu(void **state)
{
    mr_loader *loader = open_double(*state, DOUBLE_RANDOM);
    mr_batch *batch = rig_next(loader);
    struct DLManagedTensor *tensor = export_image(batch, NULL);
    assert_int_equal(tensor->dl_tensor.device.device_type, MR_DL_CUDA);
    assert_int_equal(tensor->dl_tensor.device.device_id, 1);
    assert_int_equal(double_device_of(tensor->dl_tensor.data), 1);
    tensor->deleter(tensor);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    close_double();
}

/*
 * A second stream reads the tensor after the copy, and the next copy into the buffer waits for that
 * read.
 */
static void the_tensors_stream_is_ordered_between_the_copies(void **state)
{
    for (enum double_policy policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        cudaStream_t own, other;
        uint64_t sums[12];
        mr_loader *loader = open_double(*state, policy);
        assert_int_equal(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
        for (int i = 0; i < 12; i++) {
            mr_batch *batch = next_on(loader, own);
            struct DLManagedTensor *tensor = export_image(batch, other);
            void *data = tensor->dl_tensor.data;
            mr_batch_release(batch);
            assert_int_equal(double_launch_sum(other, data, N_BYTES, &sums[i]), cudaSuccess);
            assert_int_equal(double_launch_fill(other, data, N_BYTES, 0), cudaSuccess);
            tensor->deleter(tensor);
        }
        assert_int_equal(cudaStreamSynchronize(other), cudaSuccess);
        for (int i = 0; i < 12; i++) {
            uint8_t expected[N_BYTES];
            for (unsigned k = 0; k < N_BYTES; k++)
                expected[k] = rig_byte(8 * i + k / RIG_BYTES, k % RIG_BYTES);
            assert_int_equal(sums[i], double_sum(expected, N_BYTES));
        }
        assert_int_equal(cudaStreamDestroy(own), cudaSuccess);
        assert_int_equal(cudaStreamDestroy(other), cudaSuccess);
        mr_loader_destroy(loader);
        close_double();
    }
}

/*
 * Read the array on the default stream of its device, ordered only through the tensor. Then it is
 * overwritten.
 */
static void read_by_default_stream(mr_batch *batch, const char *name, uint64_t *sum)
{
    struct DLManagedTensor *tensor;
    if (mr_batch_to_dlpack(batch, name, NULL, &tensor) != MR_OK)
        fail_msg("%s", mr_batch_error(batch)->text);
    const mr_array *array = mr_batch_array(batch, name);
    size_t len = (size_t)(array->shape[0] * array->strides[0]);
    assert_int_equal(double_device_of(array->data), tensor->dl_tensor.device.device_id);
    assert_int_equal(cudaSetDevice(tensor->dl_tensor.device.device_id), cudaSuccess);
    assert_int_equal(double_launch_sum(NULL, array->data, len, sum), cudaSuccess);
    assert_int_equal(double_launch_fill(NULL, array->data, len, 0), cudaSuccess);
    tensor->deleter(tensor);
}

static void sum_on_host(struct rig *rig, uint64_t sums[12][5])
{
    mr_loader_options options = rig_options();
    options.device = "host";
    mr_loader *loader = rig_loader(rig, &options);
    for (int i = 0; i < 12; i++) {
        mr_batch *batch = rig_next(loader);
        for (uint32_t k = 0; k < 5; k++) {
            const mr_array *array = mr_batch_array_at(batch, k);
            sums[i][k] = double_sum(array->data, (size_t)(array->shape[0] * array->strides[0]));
        }
        mr_batch_release(batch);
    }
    mr_loader_destroy(loader);
}

static void the_default_stream_is_that_of_the_arrays_device(void **state)
{
    uint64_t expected[12][5], sums[12][5];
    sum_on_host(*state, expected);
    for (enum double_policy policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        cudaStream_t own;
        double_open(&(struct double_options){
            .policy = policy, .seed = 11, .n_devices = 2, .kernel_ns = 1000000});
        mr_loader_options options = rig_options();
        options.device = "cuda:0";
        options.label_device = "cuda:1";
        options.n_buffers = 2;
        mr_loader *loader = rig_loader(*state, &options);
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
        for (int i = 0; i < 12; i++) {
            mr_batch *batch = next_on(loader, own); /* this orders no other stream */
            for (uint32_t k = 5; k-- > 0;)
                read_by_default_stream(batch, mr_batch_array_at(batch, k)->name, &sums[i][k]);
            mr_batch_release(batch);
        }
        for (int device = 0; device < 2; device++) {
            assert_int_equal(cudaSetDevice(device), cudaSuccess);
            assert_int_equal(cudaStreamSynchronize(NULL), cudaSuccess);
        }
        for (int i = 0; i < 12; i++)
            for (uint32_t k = 0; k < 5; k++)
                assert_int_equal(sums[i][k], expected[i][k]);
        assert_int_equal(cudaStreamDestroy(own), cudaSuccess);
        mr_loader_destroy(loader);
        close_double();
    }
}

static void a_stream_in_a_capture_is_refused_without_a_hold(void **state)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    mr_loader *loader = open_double(*state, DOUBLE_RANDOM);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    mr_batch *batch = rig_next(loader);
    struct DLManagedTensor *tensor = (void *)&graph;
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    assert_int_equal(mr_batch_to_dlpack(batch, "index", stream, &tensor), MR_ERR_STATE);
    assert_null(tensor);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    uint32_t buffer = mr_batch_buffer(batch);
    mr_batch_release(batch);
    bool again = false;
    for (int i = 0; i < 4; i++) {
        batch = rig_next(loader);
        again |= mr_batch_buffer(batch) == buffer;
        mr_batch_release(batch);
    }
    assert_true(again);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    mr_loader_destroy(loader);
    close_double();
}

static void a_deleter_inside_a_capture_leaves_the_release_to_the_next_batch(void **state)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    mr_loader *loader = open_double(*state, DOUBLE_RANDOM);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    mr_batch *batch = rig_next(loader);
    struct DLManagedTensor *tensor = export_image(batch, stream);
    assert_int_equal(mr_batch_release(batch), MR_OK);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    tensor->deleter(tensor);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    /* More batches than buffers: the buffer whose tensor was deleted is used again. */
    for (int i = 0; i < 5; i++)
        assert_int_equal(mr_batch_release(rig_next(loader)), MR_OK);
    mr_batch *lent[2];
    for (int i = 0; i < 2; i++)
        lent[i] = rig_next(loader);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mr_batch_release(lent[i]), MR_OK);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    mr_loader_destroy(loader);
    close_double();
}

static void *take_one(void *loader)
{
    mr_batch *batch;
    return mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK ? batch : NULL;
}

/*
 * The end of the capture wakes no waiter: the waiting next() polls for it, even if it fell asleep
 * before the deleter was called.
 */
static void take_while_a_deleter_is_in_a_capture(void **state, bool next_is_first)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    pthread_t thread;
    void *taken;
    mr_loader *loader = open_double_waiting(*state, DOUBLE_RANDOM, true);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    mr_batch *batch = rig_next(loader);
    mr_batch *lent = rig_next(loader);
    struct DLManagedTensor *tensor = export_image(batch, stream);
    assert_int_equal(mr_batch_release(batch), MR_OK);
    if (next_is_first) {
        assert_int_equal(pthread_create(&thread, NULL, take_one, loader), 0);
        usleep(50000);
    }
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    tensor->deleter(tensor);
    if (!next_is_first)
        assert_int_equal(pthread_create(&thread, NULL, take_one, loader), 0);
    usleep(50000);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    assert_int_equal(pthread_join(thread, &taken), 0);
    assert_non_null(taken);
    assert_int_equal(mr_batch_number(taken), 2);
    assert_int_equal(mr_batch_release(taken), MR_OK);
    assert_int_equal(mr_batch_release(lent), MR_OK);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    mr_loader_destroy(loader);
    close_double();
}

static void a_waiting_next_retries_the_release_of_a_deleter_inside_a_capture(void **state)
{
    take_while_a_deleter_is_in_a_capture(state, false);
}

static void a_deleter_inside_a_capture_wakes_a_sleeping_next(void **state)
{
    take_while_a_deleter_is_in_a_capture(state, true);
}

static void a_deleter_inside_a_capture_keeps_nothing_beyond_the_loader(void **state)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    mr_loader *loader = open_double(*state, DOUBLE_RANDOM);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    mr_batch *batch = rig_next(loader);
    struct DLManagedTensor *tensor = export_image(batch, stream);
    assert_int_equal(mr_batch_release(batch), MR_OK);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    tensor->deleter(tensor);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    mr_loader_destroy(loader);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    close_double();
}

/*
 * A tensor of a page-locked batch is in the host's memory. Its slot stays taken until the stream
 * has reached the deleter.
 */
static void
a_tensor_of_a_page_locked_batch_keeps_its_slot_until_the_stream_has_read_it(void **state)
{
    for (enum double_policy policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        cudaStream_t stream;
        uint64_t sums[12];
        double_open(&(struct double_options){.policy = policy, .seed = 11});
        mr_loader_options options = rig_options();
        options.device = "host";
        options.pin_memory = true;
        options.n_slots = 2;
        mr_loader *loader = rig_loader(*state, &options);
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        for (int i = 0; i < 12; i++) {
            mr_batch *batch = rig_next(loader);
            struct DLManagedTensor *tensor = export_image(batch, stream);
            assert_int_equal(tensor->dl_tensor.device.device_type, MR_DL_CPU);
            mr_batch_release(batch);
            assert_int_equal(double_launch_sum(stream, tensor->dl_tensor.data, N_BYTES, &sums[i]),
                             cudaSuccess);
            tensor->deleter(tensor);
        }
        assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
        for (int i = 0; i < 12; i++) {
            uint8_t expected[N_BYTES];
            for (unsigned k = 0; k < N_BYTES; k++)
                expected[k] = rig_byte(8 * i + k / RIG_BYTES, k % RIG_BYTES);
            assert_int_equal(sums[i], double_sum(expected, N_BYTES));
        }
        assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
        mr_loader_destroy(loader);
        close_double();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_tensor_names_its_gpu),
        RIG_TEST(the_tensors_stream_is_ordered_between_the_copies),
        RIG_TEST(the_default_stream_is_that_of_the_arrays_device),
        RIG_TEST(a_stream_in_a_capture_is_refused_without_a_hold),
        RIG_TEST(a_deleter_inside_a_capture_leaves_the_release_to_the_next_batch),
        RIG_TEST(a_waiting_next_retries_the_release_of_a_deleter_inside_a_capture),
        RIG_TEST(a_deleter_inside_a_capture_wakes_a_sleeping_next),
        RIG_TEST(a_deleter_inside_a_capture_keeps_nothing_beyond_the_loader),
        RIG_TEST(a_tensor_of_a_page_locked_batch_keeps_its_slot_until_the_stream_has_read_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
