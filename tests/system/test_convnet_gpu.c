/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of the training examples on a GPU, compared with the one on the CPU. The GPU's
 * kernels are compiled for the CPU and run on the double of the CUDA runtime, which also checks
 * that streams and events order their accesses. One batch has more rows than go through a
 * convolution at once, because such a batch is summed in pieces.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "examples/convnet.h"
#include "tests/double/cuda_double.h"

enum {
    N_PIXELS = CONVNET_CHANNELS * CONVNET_SIDE * CONVNET_SIDE,
    MANY = 131,
    FEW = 5,
    N_CLASSES = 10
};

/* A batch, and the same on the device. */
struct batch {
    int64_t n;
    float *pixels;
    int64_t labels[MANY];
    uint8_t mask[MANY];
    float *device_pixels;
    int64_t *device_labels;
    uint8_t *device_mask;
};

static void copy_to_device(void **to, const void *from, size_t n_bytes)
{
    assert_int_equal(cudaMalloc(to, n_bytes), cudaSuccess);
    assert_int_equal(cudaMemcpy(*to, from, n_bytes, cudaMemcpyDefault), cudaSuccess);
}

/* A batch of noise; every seventh row has mask 0. */
static struct batch *make_batch(int64_t n)
{
    struct batch *batch = calloc(1, sizeof *batch);
    uint32_t state = 99;

    assert_non_null(batch);
    batch->n = n;
    batch->pixels = malloc((size_t)n * N_PIXELS * sizeof(float));
    assert_non_null(batch->pixels);
    for (int64_t i = 0; i < n * N_PIXELS; i++) {
        state = state * 1664525u + 1013904223u;
        batch->pixels[i] = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
    }
    for (int64_t i = 0; i < n; i++) {
        batch->labels[i] = i * 7 % N_CLASSES;
        batch->mask[i] = i % 7 != 3;
    }
    copy_to_device((void **)&batch->device_pixels, batch->pixels,
                   (size_t)n * N_PIXELS * sizeof(float));
    copy_to_device((void **)&batch->device_labels, batch->labels, sizeof batch->labels);
    copy_to_device((void **)&batch->device_mask, batch->mask, sizeof batch->mask);
    return batch;
}

static void free_batch(struct batch *batch)
{
    cudaFree(batch->device_pixels);
    cudaFree(batch->device_labels);
    cudaFree(batch->device_mask);
    free(batch->pixels);
    free(batch);
}

static mr_array view_images(const struct batch *batch, int64_t n, bool on_gpu)
{
    return (mr_array){.dtype = MR_F32,
                      .ndim = 4,
                      .shape = {n, CONVNET_CHANNELS, CONVNET_SIDE, CONVNET_SIDE},
                      .strides = {N_PIXELS * sizeof(float)},
                      .data = on_gpu ? batch->device_pixels : batch->pixels};
}

static struct convnet *make_net(mr_device_kind kind, int32_t id, mr_dtype dtype, int first, int end)
{
    struct convnet_plan plan = {.device = {kind, id},
                                .dtype = dtype,
                                .n_classes = N_CLASSES,
                                .max_batch = MANY,
                                .first = first,
                                .end = end,
                                .seed = 5};
    struct convnet *net = convnet_create(&plan);

    assert_non_null(net);
    return net;
}

static struct convnet *make_whole_net(mr_device_kind kind, mr_dtype dtype)
{
    return make_net(kind, 0, dtype, 0, CONVNET_LAYERS);
}

static bool is_gpu(const struct convnet *net)
{
    return net->plan.device.kind == MR_DEVICE_CUDA;
}

static void run_backward(struct convnet *net)
{
    for (int layer = CONVNET_LAYERS - 1; layer >= 0; layer--)
        convnet_backward(net, layer);
}

/* Forward and backward over the first n rows, with masks. */
static void run_step(struct convnet *net, const struct batch *batch, int64_t n, bool masked)
{
    mr_array images = view_images(batch, n, is_gpu(net));
    const uint8_t *mask = is_gpu(net) ? batch->device_mask : batch->mask;

    assert_true(convnet_take(net, &images));
    convnet_forward(net);
    assert_true(convnet_score(
        net, &(struct convnet_targets){.labels = is_gpu(net) ? batch->device_labels : batch->labels,
                                       .mask = masked ? mask : NULL}));
    run_backward(net);
}

static double read_number(const struct convnet *net, const void *numbers, size_t i)
{
    return net->plan.dtype == MR_F64 ? ((const double *)numbers)[i]
                                     : (double)((const float *)numbers)[i];
}

/*
 * n numbers on both nets' devices are the same, up to a fraction of the largest number, because the
 * order of sums differs.
 */
static void expect_same(struct convnet *cpu, void *a, struct convnet *gpu, void *b, size_t n)
{
    size_t size = mr_dtype_size(cpu->plan.dtype);
    double most = 0, apart = 0, limit = size == 8 ? 1e-13 : 1e-5;
    char *first = malloc(n * size), *second = malloc(n * size);

    assert_true(first != NULL && second != NULL);
    convnet_copy(NULL, first, cpu, a, n * size);
    convnet_copy(NULL, second, gpu, b, n * size);
    for (size_t i = 0; i < n; i++) {
        double x = read_number(cpu, first, i), y = read_number(gpu, second, i);
        assert_true(isfinite(x) && isfinite(y));
        most = fmax(most, fabs(x));
        apart = fmax(apart, fabs(x - y));
    }
    if (apart > limit * most)
        fail_msg("%g apart, of %g", apart, most);
    free(first);
    free(second);
}

static struct convnet_sums read_sums(struct convnet *net)
{
    struct convnet_sums sums;

    convnet_copy(NULL, &sums, net, net->sums, sizeof sums);
    return sums;
}

static void expect_steps(int n_steps, mr_dtype dtype, int64_t n, bool masked)
{
    struct convnet *cpu = make_whole_net(MR_DEVICE_HOST, dtype),
                   *gpu = make_whole_net(MR_DEVICE_CUDA, dtype);
    struct batch *batch = make_batch(MANY);

    for (int i = 0; i < n_steps; i++) {
        run_step(cpu, batch, n, masked);
        run_step(gpu, batch, n, masked);
        struct convnet_sums a = read_sums(cpu), b = read_sums(gpu);
        assert_true(fabs(a.loss - b.loss) <= (dtype == MR_F64 ? 1e-13 : 1e-6) * (1 + a.loss));
        assert_true(a.correct == b.correct && a.count == b.count);
        assert_true(n == 0 || (a.loss > 1 && a.count > 0));
        expect_same(cpu, cpu->gradients, gpu, gpu->gradients, cpu->n_params + 1);
        convnet_update(cpu, 0.01, 0.9, 5e-4);
        convnet_update(gpu, 0.01, 0.9, 5e-4);
        expect_same(cpu, cpu->weights, gpu, gpu->weights, cpu->n_params);
        expect_same(cpu, cpu->velocity, gpu, gpu->velocity, cpu->n_params);
    }
    free_batch(batch);
    convnet_destroy(cpu);
    convnet_destroy(gpu);
}

static void steps_are_those_of_the_cpu_in_f64(void **state)
{
    (void)state;
    expect_steps(3, MR_F64, FEW, true);
}

static void steps_are_those_of_the_cpu_in_f32(void **state)
{
    (void)state;
    expect_steps(3, MR_F32, FEW, false);
}

static void many_rows_go_through_in_pieces(void **state)
{
    (void)state;
    expect_steps(1, MR_F64, MANY, true);
}

static void no_rows_add_zeros(void **state)
{
    struct convnet *gpu = make_whole_net(MR_DEVICE_CUDA, MR_F32);
    struct batch *batch = make_batch(FEW);

    (void)state;
    run_step(gpu, batch, FEW, true);
    run_step(gpu, batch, 0, true);
    float *gradients = malloc((gpu->n_params + 1) * sizeof *gradients);
    assert_non_null(gradients);
    convnet_copy(NULL, gradients, gpu, gpu->gradients, (gpu->n_params + 1) * sizeof *gradients);
    for (size_t i = 0; i <= gpu->n_params; i++)
        assert_true(gradients[i] == 0);
    assert_true(read_sums(gpu).count == 0 && read_sums(gpu).loss == 0);
    free(gradients);
    free_batch(batch);
    convnet_destroy(gpu);
}

static void a_wrong_label_makes_the_loss_nan(void **state)
{
    struct convnet *gpu = make_whole_net(MR_DEVICE_CUDA, MR_F32);
    struct batch *batch = make_batch(FEW);
    const int64_t wrong = N_CLASSES;

    (void)state;
    assert_int_equal(cudaMemcpy(batch->device_labels + 1, &wrong, sizeof wrong, cudaMemcpyDefault),
                     cudaSuccess);
    run_step(gpu, batch, FEW, false);
    assert_true(isnan(read_sums(gpu).loss) && read_sums(gpu).count == FEW);
    free_batch(batch);
    convnet_destroy(gpu);
}

/* A picture with every pixel repeated 2 x 2 times is reduced to the same picture. */
static void larger_pictures_are_averaged(void **state)
{
    struct convnet *gpu = make_whole_net(MR_DEVICE_CUDA, MR_F32);
    struct batch *batch = make_batch(1);
    float *pixels = malloc(4 * N_PIXELS * sizeof *pixels), *device_pixels;
    int side = 2 * CONVNET_SIDE;
    mr_array large = view_images(batch, 1, true);

    (void)state;
    assert_non_null(pixels);
    for (int i = 0; i < 4 * N_PIXELS; i++)
        pixels[i] = batch->pixels[i / side / 2 * CONVNET_SIDE + i % side / 2];
    copy_to_device((void **)&device_pixels, pixels, 4 * N_PIXELS * sizeof *pixels);
    large.shape[2] = large.shape[3] = side;
    large.strides[0] *= 4;
    large.data = device_pixels;
    run_step(gpu, batch, 1, false);
    double wanted = read_sums(gpu).loss;
    assert_true(convnet_take(gpu, &large));
    convnet_forward(gpu);
    convnet_score(gpu, &(struct convnet_targets){.labels = batch->device_labels, .mask = NULL});
    assert_true(fabs(read_sums(gpu).loss - wanted) < 1e-5);
    cudaFree(device_pixels);
    free(pixels);
    free_batch(batch);
    convnet_destroy(gpu);
}

static void numbers_are_added_and_copied_between_devices(void **state)
{
    struct convnet *a = make_whole_net(MR_DEVICE_CUDA, MR_F64),
                   *b = make_net(MR_DEVICE_CUDA, 1, MR_F64, 0, CONVNET_LAYERS);
    double numbers[3] = {1, 2, 3}, more[3] = {10, 20, 30};

    (void)state;
    convnet_copy(a, a->gradients, NULL, numbers, sizeof numbers);
    convnet_copy(b, b->gradients, NULL, more, sizeof more);
    convnet_copy(b, b->velocity, a, a->gradients, sizeof numbers);
    convnet_add(b, b->gradients, b->velocity, 3);
    convnet_add(a, a->gradients, a->velocity, 3); /* must wait until b has its copy */
    convnet_copy(NULL, more, b, b->gradients, sizeof more);
    assert_true(more[0] == 11 && more[1] == 22 && more[2] == 33);
    convnet_destroy(a);
    convnet_destroy(b);
}

static int open_machine(void **state)
{
    const struct double_options options = {.policy = DOUBLE_RANDOM, .seed = 3, .n_devices = 2};

    (void)state;
    double_open(&options);
    return 0;
}

static int close_machine(void **state)
{
    (void)state;
    uint32_t n_reports = double_close();
    if (n_reports > 0)
        print_message("%s", double_report());
    return n_reports > 0;
}

int main(void)
{
#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, open_machine, close_machine)
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(steps_are_those_of_the_cpu_in_f64),
        ON_A_MACHINE(steps_are_those_of_the_cpu_in_f32),
        ON_A_MACHINE(many_rows_go_through_in_pieces),
        ON_A_MACHINE(no_rows_add_zeros),
        ON_A_MACHINE(a_wrong_label_makes_the_loss_nan),
        ON_A_MACHINE(larger_pictures_are_averaged),
        ON_A_MACHINE(numbers_are_added_and_copied_between_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
