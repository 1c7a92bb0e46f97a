/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's memory and weights, and the choice of the functions that do the arithmetic.
 *
 * Invariant: weights do not depend on the rank, the device or the dtype. They are drawn here, in
 * f64, from a counter that also counts the layers on other devices.
 */
#include "convnet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convnet_math.h"

/* ---- weights ---- */

/* Uniform in [-1, 1): splitmix64. */
static double draw_uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1.0;
}

static void put_number(const struct convnet *net, void *numbers, size_t at, double number)
{
    if (net->plan.dtype == MR_F64)
        ((double *)numbers)[at] = number;
    else
        ((float *)numbers)[at] = (float)number;
}

/*
 * Layers before a ReLU get He's uniform distribution, the last layer a narrower one; biases are
 * zero.
 */
static bool draw_weights(struct convnet *net)
{
    uint64_t state = net->plan.seed;
    void *numbers = calloc(net->n_params, mr_dtype_size(net->plan.dtype));

    if (numbers == NULL)
        return false;
    for (int layer = 0; layer < net->plan.end; layer++) {
        bool is_here = layer >= net->plan.first;
        size_t first = convnet_first(net, layer);
        size_t n = (size_t)convnet_rows(net, layer) * (size_t)convnet_columns(layer);
        double bound = sqrt((layer < CONVNET_CONVS ? 6.0 : 1.0) / convnet_columns(layer));
        for (size_t i = 0; i < n; i++) {
            double weight = bound * draw_uniform(&state);
            if (is_here)
                put_number(net, numbers, first + i, weight);
        }
    }
    convnet_copy(net, net->weights, NULL, numbers, net->n_params * mr_dtype_size(net->plan.dtype));
    free(numbers);
    return true;
}

/* ---- memory ---- */

/* Zeroed memory for count x n elements. If there is none, *good becomes false. */
static void *allocate_elements(struct convnet *net, size_t count, size_t n, size_t size, bool *good)
{
    void *memory = *good ? net->math->allocate(net, count * n * size) : NULL;

    *good = memory != NULL;
    net->n_bytes += *good ? count * n * size : 0;
    return memory;
}

static void *allocate_numbers(struct convnet *net, size_t count, size_t n, bool *good)
{
    return allocate_elements(net, count, n, mr_dtype_size(net->plan.dtype), good);
}

/* Memory for the batch in the layers on this device. */
static void allocate_activations(struct convnet *net, bool *good)
{
    const struct convnet_plan *plan = &net->plan;

    if (plan->first == 0)
        net->input = allocate_numbers(net, plan->max_batch, convnet_row_in(0), good);
    for (int layer = plan->first > 0 ? plan->first - 1 : 0;
         layer < plan->end && layer < CONVNET_CONVS; layer++) {
        net->pooled[layer] = allocate_numbers(net, plan->max_batch, convnet_row_out(layer), good);
        net->d_pooled[layer] = allocate_numbers(net, plan->max_batch, convnet_row_out(layer), good);
        if (layer >= plan->first)
            net->winner[layer] =
                allocate_elements(net, plan->max_batch, convnet_row_out(layer), 1, good);
    }
    if (plan->end == CONVNET_LAYERS)
        net->scores = allocate_numbers(net, plan->max_batch, plan->n_classes, good);
}

/* Memory for the largest convolution on this device. */
static void allocate_work(struct convnet *net, bool *good)
{
    size_t rows = net->plan.max_batch < net->math->rows ? net->plan.max_batch : net->math->rows;
    size_t columns = 1, plane = 1;

    for (int layer = net->plan.first; layer < net->plan.end && layer < CONVNET_CONVS; layer++) {
        size_t wide = convnet_row_in(layer) * CONVNET_KERNEL, high = convnet_row_out(layer) * 4;
        columns = wide > columns ? wide : columns;
        plane = high > plane ? high : plane;
    }
    net->columns = allocate_numbers(net, rows, columns, good);
    net->plane = allocate_numbers(net, rows, plane, good);
}

static bool allocate_net(struct convnet *net)
{
    bool good = true;

    net->weights = allocate_numbers(net, 1, net->n_params, &good);
    net->velocity = allocate_numbers(net, 1, net->n_params, &good);
    net->gradients = allocate_numbers(net, 1, net->n_params + 1, &good);
    net->sums = allocate_elements(net, 1, 1, sizeof *net->sums, &good);
    allocate_activations(net, &good);
    allocate_work(net, &good);
    return good && draw_weights(net);
}

static bool is_possible(const struct convnet_plan *plan)
{
    return plan->max_batch > 0 && (plan->dtype == MR_F32 || plan->dtype == MR_F64) &&
           plan->n_classes >= 2 && plan->n_classes <= CONVNET_MAX_CLASSES && plan->first >= 0 &&
           plan->first < plan->end && plan->end <= CONVNET_LAYERS;
}

static struct convnet *refuse_plan(struct convnet *net, const char *words)
{
    fprintf(stderr, "network: %s\n", words);
    free(net);
    return NULL;
}

struct convnet *convnet_create(const struct convnet_plan *plan)
{
    struct convnet *net = calloc(1, sizeof *net);

    if (net == NULL || !is_possible(plan))
        return refuse_plan(net, net == NULL ? "no memory" : "the plan is out of range");
    net->plan = *plan;
    net->math = plan->device.kind == MR_DEVICE_CUDA ? convnet_gpu() : &convnet_host;
    if (net->math == NULL)
        return refuse_plan(net, "this build has no arithmetic for GPUs");
    net->n_params = convnet_first(net, plan->end);
    if (!net->math->open(net))
        return refuse_plan(net, "the device cannot be used");
    if (!allocate_net(net)) {
        fputs("network: no memory\n", stderr);
        convnet_destroy(net);
        return NULL;
    }
    return net;
}

void convnet_destroy(struct convnet *net)
{
    if (net == NULL)
        return;
    void *all[] = {net->weights, net->velocity, net->gradients, net->input,
                   net->scores,  net->sums,     net->columns,   net->plane};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        net->math->release(net, all[i]);
    for (int layer = 0; layer < CONVNET_CONVS; layer++) {
        net->math->release(net, net->pooled[layer]);
        net->math->release(net, net->d_pooled[layer]);
        net->math->release(net, net->winner[layer]);
    }
    net->math->close(net);
    free(net);
}

void *convnet_array_create(struct convnet *net, size_t n)
{
    bool good = true;

    return allocate_numbers(net, 1, n, &good);
}

void convnet_array_destroy(struct convnet *net, void *array)
{
    net->math->release(net, array);
}

size_t convnet_row_bytes(const struct convnet *net, int layer)
{
    return convnet_row_out(layer) * mr_dtype_size(net->plan.dtype);
}

void *convnet_at(const struct convnet *net, void *array, size_t k)
{
    return (char *)array + k * mr_dtype_size(net->plan.dtype);
}

void convnet_copy(struct convnet *to_net, void *to, struct convnet *from_net, const void *from,
                  size_t n_bytes)
{
    const struct convnet *net = to_net != NULL ? to_net : from_net;

    net->math->copy(to_net, to, from_net, from, n_bytes);
}

/* ---- a step ---- */

bool convnet_take(struct convnet *net, const mr_array *images)
{
    const int64_t *shape = images->shape;

    if (images->dtype != MR_F32 || images->ndim != 4 || shape[0] > net->plan.max_batch ||
        shape[1] != CONVNET_CHANNELS || shape[2] != shape[3] || shape[2] == 0 ||
        shape[2] % CONVNET_SIDE != 0)
        return false;
    net->n = (uint32_t)images->shape[0];
    net->math->images(net, images);
    return true;
}

void convnet_forward(struct convnet *net)
{
    for (int layer = net->plan.first; layer < net->plan.end; layer++)
        net->math->forward(net, layer);
}

bool convnet_score(struct convnet *net, const struct convnet_targets *targets)
{
    return convnet_score_rows(net, net->scores, net->n, targets, true);
}

bool convnet_score_rows(struct convnet *net, void *scores, uint32_t n,
                        const struct convnet_targets *targets, bool anew)
{
    return net->math->score(net, scores, n, targets, anew);
}

void convnet_backward(struct convnet *net, int layer)
{
    net->math->backward(net, layer);
}

void *convnet_bucket(const struct convnet *net, int layer, uint64_t *count_out)
{
    *count_out = convnet_count(net, layer) + (layer == CONVNET_LAYERS - 1);
    return convnet_at(net, net->gradients, convnet_first(net, layer));
}

void convnet_add(struct convnet *net, void *to, const void *more, size_t count)
{
    net->math->add(net, to, more, count);
}

void convnet_update(struct convnet *net, double lr, double momentum, double decay)
{
    net->math->update(net, lr, momentum, decay);
}

uint32_t convnet_n_gpus(void)
{
    return convnet_gpu() != NULL ? mr_device_count(MR_DEVICE_CUDA, NULL) : 0;
}
