/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's shape and memory; its arithmetic is in convnet_real.h, once for each type of number. Easy to get wrong:
 * weights must not depend on the rank or on the type of number, so they are drawn here, in f64, from a counter.
 */
#include "examples/convnet.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL = 9, NOBODY = 4 };

/* Of a convolution: a side of its input in pixels, channels in and out. Its output's side is half as long. */
static const struct shape {
    int side, in, out;
} shapes[CONVNET_CONVS] = {{32, 3, 32}, {16, 32, 64}, {8, 64, 128}};

enum { FEATURES = 128 * 4 * 4, MAX_COLUMNS = 32 * KERNEL * 16 * 16, MAX_PLANE = 32 * 32 * 32 };

/* A layer is a matrix of rows x columns and rows biases. */
static int layer_rows(const struct convnet *net, int layer)
{
    return layer < CONVNET_CONVS ? shapes[layer].out : net->n_classes;
}

static int layer_columns(int layer)
{
    return layer < CONVNET_CONVS ? shapes[layer].in * KERNEL : FEATURES;
}

static size_t layer_count(const struct convnet *net, int layer)
{
    return (size_t)layer_rows(net, layer) * ((size_t)layer_columns(layer) + 1);
}

static size_t layer_first(const struct convnet *net, int layer)
{
    size_t first = 0;

    for (int i = 0; i < layer; i++)
        first += layer_count(net, i);
    return first;
}

/* Numbers that one row takes in what a convolution gets, and in what it gives. */
static size_t row_in(int layer)
{
    return (size_t)shapes[layer].in * (size_t)(shapes[layer].side * shapes[layer].side);
}

static size_t row_out(int layer)
{
    return (size_t)shapes[layer].out * (size_t)(shapes[layer].side * shapes[layer].side / 4);
}

#define REAL float
#define NAME(verb) verb##_f32
#define GEMM cblas_sgemm
#define GEMV cblas_sgemv
#include "examples/convnet_real.h"
#undef REAL
#undef NAME
#undef GEMM
#undef GEMV

#define REAL double
#define NAME(verb) verb##_f64
#define GEMM cblas_dgemm
#define GEMV cblas_dgemv
#include "examples/convnet_real.h"

/* Uniform in [-1, 1): splitmix64. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1.0;
}

/* He's uniform distribution for layers before a ReLU, a narrower one for the last; biases are zero. */
static void draw_weights(struct convnet *net, uint64_t seed)
{
    for (int layer = 0; layer < CONVNET_LAYERS; layer++) {
        size_t first = layer_first(net, layer), n = (size_t)layer_rows(net, layer) * (size_t)layer_columns(layer);
        double bound = sqrt((layer < CONVNET_CONVS ? 6.0 : 1.0) / layer_columns(layer));
        for (size_t i = 0; i < n; i++) {
            double weight = bound * draw(&seed);
            if (net->dtype == MR_F64)
                ((double *)net->weights)[first + i] = weight;
            else
                ((float *)net->weights)[first + i] = (float)weight;
        }
    }
}

/* Zeroed memory for count x n numbers; *good becomes false when there is none. */
static void *numbers(const struct convnet *net, size_t count, size_t n, bool *good)
{
    void *memory = calloc(count, n * mr_dtype_size(net->dtype));

    *good = *good && memory != NULL;
    return memory;
}

struct convnet *convnet_create(mr_dtype dtype, uint32_t n_classes, uint32_t max_batch, uint64_t seed)
{
    struct convnet *net = calloc(1, sizeof *net);
    bool good = net != NULL && max_batch > 0 && (dtype == MR_F32 || dtype == MR_F64) && n_classes >= 2 &&
                n_classes <= CONVNET_MAX_CLASSES;

    if (!good) {
        free(net);
        return NULL;
    }
    openblas_set_num_threads(1); /* ranks share the cores, and sums keep their order */
    net->dtype = dtype;
    net->n_classes = (int)n_classes;
    net->max_batch = max_batch;
    net->n_params = layer_first(net, CONVNET_LAYERS);
    net->weights = numbers(net, 1, net->n_params, &good);
    net->velocity = numbers(net, 1, net->n_params, &good);
    net->gradients = numbers(net, 1, net->n_params + 1, &good);
    net->input = numbers(net, max_batch, row_in(0), &good);
    for (int layer = 0; layer < CONVNET_CONVS; layer++) {
        net->pooled[layer] = numbers(net, max_batch, row_out(layer), &good);
        net->d_pooled[layer] = numbers(net, max_batch, row_out(layer), &good);
        net->winner[layer] = calloc(max_batch, row_out(layer));
        good = good && net->winner[layer] != NULL;
    }
    net->d_scores = numbers(net, max_batch, n_classes, &good);
    net->columns = numbers(net, 1, MAX_COLUMNS, &good);
    net->plane = numbers(net, 1, MAX_PLANE, &good);
    if (!good) {
        convnet_destroy(net);
        return NULL;
    }
    draw_weights(net, seed);
    return net;
}

void convnet_destroy(struct convnet *net)
{
    if (net == NULL)
        return;
    for (int layer = 0; layer < CONVNET_CONVS; layer++) {
        free(net->pooled[layer]);
        free(net->d_pooled[layer]);
        free(net->winner[layer]);
    }
    free(net->weights);
    free(net->velocity);
    free(net->gradients);
    free(net->input);
    free(net->d_scores);
    free(net->columns);
    free(net->plane);
    free(net);
}

bool convnet_forward(struct convnet *net, const mr_array *images)
{
    const int64_t *shape = images->shape;

    if (images->dtype != MR_F32 || images->ndim != 4 || shape[0] > net->max_batch || shape[1] != CONVNET_CHANNELS ||
        shape[2] != shape[3] || shape[2] == 0 || shape[2] % CONVNET_SIDE != 0)
        return false;
    net->n = (uint32_t)images->shape[0];
    if (net->dtype == MR_F64)
        forward_f64(net, images);
    else
        forward_f32(net, images);
    return true;
}

bool convnet_score(struct convnet *net, const int64_t *labels, const uint8_t *mask, struct convnet_sums *sums_out)
{
    for (uint32_t i = 0; i < net->n; i++) {
        if (labels[i] < 0 || labels[i] >= net->n_classes)
            return false;
    }
    *sums_out = net->dtype == MR_F64 ? score_f64(net, labels, mask) : score_f32(net, labels, mask);
    return true;
}

void convnet_backward(struct convnet *net, int layer)
{
    if (net->dtype == MR_F64)
        backward_f64(net, layer);
    else
        backward_f32(net, layer);
}

void *convnet_bucket(struct convnet *net, int layer, uint64_t *count_out)
{
    *count_out = layer_count(net, layer) + (layer == CONVNET_LAYERS - 1);
    return (char *)net->gradients + layer_first(net, layer) * mr_dtype_size(net->dtype);
}

void convnet_update(struct convnet *net, double lr, double momentum, double decay)
{
    if (net->dtype == MR_F64)
        update_f64(net, lr, momentum, decay);
    else
        update_f32(net, lr, momentum, decay);
}
