/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's arithmetic on a GPU: kernels and products, queued in the net's stream. Only a copy
 * to or from the host waits. An error ends the program.
 *
 * Invariant: a copy between two devices is queued in the receiver's stream, and the sender must not
 * write again before the copy is done. So each stream waits for the other's event.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "convnet_kernels.h"
#include "convnet_math.h"

enum { ROWS = 128 }; /* rows that go through a convolution at once */

struct gpu {
    cudaEvent_t event; /* the work queued so far, for another net's stream to wait for */
    void *products;
    double *row_sums; /* [max_batch, 3] */
    void *ones;       /* a product with it sums up rows */
};

static void check_cuda(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "network: %s\n", cudaGetErrorString(error));
        exit(1);
    }
}

/* Make the net's device the current one. */
static struct gpu *enter_device(const struct convnet *net)
{
    check_cuda(cudaSetDevice(net->plan.device.id));
    return net->own;
}

static bool is_f64(const struct convnet *net)
{
    return net->plan.dtype == MR_F64;
}

static size_t bytes_of(const struct convnet *net, size_t n)
{
    return n * mr_dtype_size(net->plan.dtype);
}

static void launch_kernel(struct convnet *net, enum convnet_kernel kernel,
                          const struct convnet_job *job)
{
    check_cuda(convnet_launch(kernel, is_f64(net), job, net->stream));
}

static void queue_product(struct convnet *net, struct convnet_product product)
{
    const struct gpu *gpu = net->own;

    product.is_f64 = is_f64(net);
    const char *words = convnet_multiply(gpu->products, &product);
    if (words != NULL) {
        fprintf(stderr, "network: %s\n", words);
        exit(1);
    }
}

/* ---- memory ---- */

static void *allocate_gpu(struct convnet *net, size_t n_bytes)
{
    void *memory = NULL;

    enter_device(net);
    if (cudaMalloc(&memory, n_bytes) != cudaSuccess) {
        /* NULL reports it; otherwise the next launch would report it again */
        (void)cudaGetLastError();
        return NULL;
    }
    check_cuda(cudaMemsetAsync(memory, 0, n_bytes, net->stream));
    return memory;
}

static void release_gpu(struct convnet *net, void *memory)
{
    if (memory == NULL)
        return;
    enter_device(net);
    check_cuda(cudaStreamSynchronize(net->stream));
    check_cuda(cudaFree(memory));
}

/* Work queued in `then` from now on comes after the work queued in `first` so far. */
static void order_streams(struct convnet *first, struct convnet *then)
{
    const struct gpu *gpu = enter_device(first);

    check_cuda(cudaEventRecord(gpu->event, first->stream));
    enter_device(then);
    check_cuda(cudaStreamWaitEvent(then->stream, gpu->event, 0));
}

static void copy_gpu(struct convnet *to_net, void *to, struct convnet *from_net, const void *from,
                     size_t n_bytes)
{
    struct convnet *net = to_net != NULL ? to_net : from_net;
    bool is_between = to_net != NULL && from_net != NULL && to_net != from_net;

    if (n_bytes == 0)
        return;
    if (is_between)
        order_streams(from_net, to_net);
    enter_device(net);
    check_cuda(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDefault, net->stream));
    if (is_between)
        order_streams(to_net, from_net);
    if (to_net == NULL || from_net == NULL)
        check_cuda(cudaStreamSynchronize(net->stream));
}

/* ---- the device ---- */

static bool open_ones(struct convnet *net, struct gpu *gpu)
{
    size_t rows = net->plan.max_batch < ROWS ? net->plan.max_batch : ROWS,
           n = rows * CONVNET_SIDE * CONVNET_SIDE;

    n = n < net->plan.max_batch ? net->plan.max_batch : n;
    void *ones = malloc(bytes_of(net, n));
    gpu->ones = allocate_gpu(net, bytes_of(net, n));
    gpu->row_sums = allocate_gpu(net, net->plan.max_batch * 3 * sizeof(double));
    bool good = ones != NULL && gpu->ones != NULL && gpu->row_sums != NULL;
    for (size_t i = 0; i < n && good; i++) {
        if (is_f64(net))
            ((double *)ones)[i] = 1;
        else
            ((float *)ones)[i] = 1;
    }
    if (good)
        copy_gpu(net, gpu->ones, NULL, ones, bytes_of(net, n));
    net->n_bytes += bytes_of(net, n) + net->plan.max_batch * 3 * sizeof(double);
    free(ones);
    return good;
}

static void close_gpu(struct convnet *net)
{
    struct gpu *gpu = enter_device(net);

    check_cuda(cudaStreamSynchronize(net->stream));
    convnet_products_close(gpu->products);
    release_gpu(net, gpu->ones);
    release_gpu(net, gpu->row_sums);
    check_cuda(cudaEventDestroy(gpu->event));
    check_cuda(cudaStreamDestroy(net->stream));
    free(gpu);
}

static bool open_gpu(struct convnet *net)
{
    struct gpu *gpu = calloc(1, sizeof *gpu);
    cudaError_t error = cudaSetDevice(net->plan.device.id);

    net->own = gpu;
    if (gpu == NULL || error != cudaSuccess) {
        fprintf(stderr, "cuda:%d: %s\n", (int)net->plan.device.id,
                gpu == NULL ? "no memory" : cudaGetErrorString(error));
        free(gpu);
        return false;
    }
    check_cuda(cudaStreamCreateWithFlags((cudaStream_t *)&net->stream, cudaStreamNonBlocking));
    check_cuda(cudaEventCreateWithFlags(&gpu->event, cudaEventDisableTiming));
    gpu->products = convnet_products_open(net->stream);
    if (gpu->products != NULL && open_ones(net, gpu))
        return true;
    close_gpu(net);
    return false;
}

/* ---- forward ---- */

static void images_gpu(struct convnet *net, const mr_array *images)
{
    size_t n = net->n * convnet_row_in(0);
    struct convnet_job job = {.n = n,
                              .memory = {{images->data, net->n * (size_t)images->strides[0], false},
                                         {net->input, bytes_of(net, n), true}},
                              .side = CONVNET_SIDE,
                              .channels = (int)(images->shape[2] / CONVNET_SIDE),
                              .step = (size_t)images->strides[0] / sizeof(float)};

    enter_device(net);
    launch_kernel(net, CONVNET_SHRINK, &job);
}

/* Rows of the batch that go through one convolution at once. */
struct part {
    size_t first, n;
    struct convnet_shape shape;
    /* pixels of a row, of all rows; rows and columns of the weights */
    int pixels, wide, rows, columns;
};

static struct part choose_part(const struct convnet *net, int layer, size_t first)
{
    struct part part = {.first = first, .n = net->n - first < ROWS ? net->n - first : ROWS};

    part.shape = convnet_shape(layer);
    part.pixels = part.shape.side * part.shape.side;
    part.wide = (int)part.n * part.pixels;
    part.rows = convnet_rows(net, layer);
    part.columns = convnet_columns(layer);
    return part;
}

static void queue_unfold(struct convnet *net, int layer, const struct part *part)
{
    size_t n_in = part->n * convnet_row_in(layer), n = n_in * CONVNET_KERNEL;
    struct convnet_job job = {
        .n = n,
        .memory = {{convnet_at(net, convnet_input(net, layer), part->first * convnet_row_in(layer)),
                    bytes_of(net, n_in), false},
                   {net->columns, bytes_of(net, n), true}},
        .rows = (int)part->n,
        .side = part->shape.side,
        .channels = part->shape.in};

    launch_kernel(net, CONVNET_UNFOLD, &job);
}

static void queue_pool(struct convnet *net, int layer, const struct part *part, void *bias)
{
    size_t n = part->n * convnet_row_out(layer), at = part->first * convnet_row_out(layer);
    struct convnet_job job = {
        .n = n,
        .memory = {{net->plane, bytes_of(net, n * 4), false},
                   {bias, bytes_of(net, (size_t)part->rows), false},
                   {convnet_at(net, net->pooled[layer], at), bytes_of(net, n), true},
                   {net->winner[layer] + at, n, true}},
        .rows = (int)part->n,
        .side = part->shape.side,
        .channels = part->shape.out};

    launch_kernel(net, CONVNET_POOL, &job);
}

static void forward_linear(struct convnet *net, void *weights)
{
    int n_classes = (int)net->plan.n_classes;
    size_t n = (size_t)net->n * net->plan.n_classes;
    void *bias = convnet_at(net, weights, (size_t)n_classes * CONVNET_FEATURES);
    struct convnet_job job = {.n = n,
                              .memory = {{bias, bytes_of(net, net->plan.n_classes), false},
                                         {net->scores, bytes_of(net, n), true}},
                              .channels = n_classes};

    launch_kernel(net, CONVNET_BIAS, &job);
    queue_product(net, (struct convnet_product){.transposed_b = true,
                                                .m = (int)net->n,
                                                .n = n_classes,
                                                .k = CONVNET_FEATURES,
                                                .a = net->pooled[CONVNET_CONVS - 1],
                                                .lda = CONVNET_FEATURES,
                                                .b = weights,
                                                .ldb = CONVNET_FEATURES,
                                                .beta = 1,
                                                .c = net->scores,
                                                .ldc = n_classes});
}

static void forward_gpu(struct convnet *net, int layer)
{
    void *weights = convnet_at(net, net->weights, convnet_first(net, layer));

    enter_device(net);
    if (layer == CONVNET_CONVS && net->n > 0)
        forward_linear(net, weights);
    for (size_t first = 0; layer < CONVNET_CONVS && first < net->n; first += ROWS) {
        struct part part = choose_part(net, layer, first);
        queue_unfold(net, layer, &part);
        queue_product(net, (struct convnet_product){.m = part.rows,
                                                    .n = part.wide,
                                                    .k = part.columns,
                                                    .a = weights,
                                                    .lda = part.columns,
                                                    .b = net->columns,
                                                    .ldb = part.wide,
                                                    .c = net->plane,
                                                    .ldc = part.wide});
        queue_pool(net, layer, &part, convnet_at(net, weights, (size_t)(part.rows * part.columns)));
    }
}

static bool score_gpu(struct convnet *net, void *scores, uint32_t n,
                      const struct convnet_targets *targets, bool anew)
{
    bool mixes = targets->mixed != NULL;
    const struct gpu *gpu = enter_device(net);
    size_t n_classes = net->plan.n_classes, n_sums = (size_t)n * 3 * sizeof(double);
    struct convnet_job score = {
        .n = n,
        .memory = {{scores, bytes_of(net, n * n_classes), true},
                   {(void *)targets->labels, n * sizeof *targets->labels, false},
                   {(void *)targets->mask, targets->mask != NULL ? n : 0, false},
                   {gpu->row_sums, n_sums, true},
                   {(void *)targets->mixed, mixes ? n * sizeof *targets->mixed : 0, false},
                   {(void *)targets->lambda, mixes ? n * sizeof *targets->lambda : 0, false}},
        .channels = (int)n_classes,
        .anew = targets->mask == NULL,
        .mixes = mixes};
    struct convnet_job tally = {
        .n = 1,
        .memory = {{gpu->row_sums, n_sums, false},
                   {net->sums, sizeof *net->sums, true},
                   {convnet_at(net, net->gradients, net->n_params), bytes_of(net, 1), true}},
        .rows = (int)n,
        .anew = anew};

    launch_kernel(net, CONVNET_SCORE, &score);
    launch_kernel(net, CONVNET_TALLY, &tally);
    return true;
}

/* ---- backward ---- */

static void queue_unpool(struct convnet *net, int layer, const struct part *part)
{
    size_t n = part->n * convnet_row_out(layer), at = part->first * convnet_row_out(layer);
    struct convnet_job job = {
        .n = n * 4,
        .memory = {{convnet_at(net, net->d_pooled[layer], at), bytes_of(net, n), false},
                   {net->winner[layer] + at, n, false},
                   {net->plane, bytes_of(net, n * 4), true}},
        .rows = (int)part->n,
        .side = part->shape.side,
        .channels = part->shape.out};

    launch_kernel(net, CONVNET_UNPOOL, &job);
}

static void queue_fold(struct convnet *net, int layer, const struct part *part)
{
    size_t n = part->n * convnet_row_in(layer), at = part->first * convnet_row_in(layer);
    struct convnet_job job = {
        .n = n,
        .memory = {{net->columns, bytes_of(net, n * CONVNET_KERNEL), false},
                   {convnet_at(net, net->d_pooled[layer - 1], at), bytes_of(net, n), true}},
        .rows = (int)part->n,
        .side = part->shape.side,
        .channels = part->shape.in};

    launch_kernel(net, CONVNET_FOLD, &job);
}

/* The gradients of weights and biases; those of the biases are a product with ones. */
static void backward_linear(struct convnet *net, const void *weights, void *gradients)
{
    const struct gpu *gpu = net->own;
    int n = (int)net->n, n_classes = (int)net->plan.n_classes;
    struct convnet_product product = {.transposed_a = true,
                                      .m = n_classes,
                                      .n = CONVNET_FEATURES,
                                      .k = n,
                                      .a = net->scores,
                                      .lda = n_classes,
                                      .b = net->pooled[CONVNET_CONVS - 1],
                                      .ldb = CONVNET_FEATURES,
                                      .c = gradients,
                                      .ldc = CONVNET_FEATURES};
    struct convnet_product biases = product, back = product;

    biases.n = biases.ldb = biases.ldc = 1;
    biases.b = gpu->ones;
    biases.c = convnet_at(net, gradients, (size_t)n_classes * CONVNET_FEATURES);
    back.transposed_a = false;
    back.m = n;
    back.k = n_classes;
    back.b = weights;
    back.c = net->d_pooled[CONVNET_CONVS - 1];
    queue_product(net, product);
    queue_product(net, biases);
    queue_product(net, back);
}

static void backward_convolve(struct convnet *net, int layer, size_t first, const void *weights,
                              void *gradients)
{
    const struct gpu *gpu = net->own;
    struct part part = choose_part(net, layer, first);
    struct convnet_product product = {.transposed_b = true,
                                      .m = part.rows,
                                      .n = part.columns,
                                      .k = part.wide,
                                      .a = net->plane,
                                      .lda = part.wide,
                                      .b = net->columns,
                                      .ldb = part.wide,
                                      .beta = first > 0,
                                      .c = gradients,
                                      .ldc = part.columns};
    struct convnet_product biases = product;

    biases.transposed_b = false;
    biases.n = biases.ldb = biases.ldc = 1;
    biases.b = gpu->ones;
    biases.c = convnet_at(net, gradients, (size_t)(part.rows * part.columns));
    queue_unpool(net, layer, &part);
    queue_unfold(net, layer, &part);
    queue_product(net, product);
    queue_product(net, biases);
    if (layer == 0)
        return;
    queue_product(net, (struct convnet_product){.transposed_a = true,
                                                .m = part.columns,
                                                .n = part.wide,
                                                .k = part.rows,
                                                .a = weights,
                                                .lda = part.columns,
                                                .b = net->plane,
                                                .ldb = part.wide,
                                                .c = net->columns,
                                                .ldc = part.wide});
    queue_fold(net, layer, &part);
}

static void backward_gpu(struct convnet *net, int layer)
{
    void *weights = convnet_at(net, net->weights, convnet_first(net, layer));
    void *gradients = convnet_at(net, net->gradients, convnet_first(net, layer));

    enter_device(net);
    if (net->n == 0) /* a rank without samples adds zeros */
        check_cuda(
            cudaMemsetAsync(gradients, 0, bytes_of(net, convnet_count(net, layer)), net->stream));
    else if (layer == CONVNET_CONVS)
        backward_linear(net, weights, gradients);
    for (size_t first = 0; layer < CONVNET_CONVS && first < net->n; first += ROWS)
        backward_convolve(net, layer, first, weights, gradients);
}

static void add_gpu(struct convnet *net, void *to, const void *more, size_t count)
{
    struct convnet_job job = {
        .n = count,
        .memory = {{to, bytes_of(net, count), true}, {(void *)more, bytes_of(net, count), false}}};

    enter_device(net);
    launch_kernel(net, CONVNET_ADD, &job);
}

static void update_gpu(struct convnet *net, double lr, double momentum, double decay)
{
    struct convnet_job job = {.n = net->n_params,
                              .memory = {{net->weights, bytes_of(net, net->n_params), true},
                                         {net->velocity, bytes_of(net, net->n_params), true},
                                         {net->gradients, bytes_of(net, net->n_params + 1), false}},
                              .lr = lr,
                              .momentum = momentum,
                              .decay = decay};

    enter_device(net);
    launch_kernel(net, CONVNET_UPDATE, &job);
}

static const struct convnet_math gpu_math = {
    .rows = ROWS,
    .open = open_gpu,
    .close = close_gpu,
    .allocate = allocate_gpu,
    .release = release_gpu,
    .copy = copy_gpu,
    .images = images_gpu,
    .forward = forward_gpu,
    .score = score_gpu,
    .backward = backward_gpu,
    .add = add_gpu,
    .update = update_gpu,
};

const struct convnet_math *convnet_gpu(void)
{
    return &gpu_math;
}
