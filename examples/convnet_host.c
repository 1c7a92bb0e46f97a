/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's arithmetic on the CPU, by BLAS. convnet_real.h is included once for each dtype.
 * BLAS must use one thread, because ranks share the cores and sums must keep their order.
 */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convnet_math.h"

#define REAL float
#define NAME(verb) verb##_f32
#define GEMM cblas_sgemm
#define GEMV cblas_sgemv
#include "convnet_real.h"
#undef REAL
#undef NAME
#undef GEMM
#undef GEMV

#define REAL double
#define NAME(verb) verb##_f64
#define GEMM cblas_dgemm
#define GEMV cblas_dgemv
#include "convnet_real.h"

static bool is_f64(const struct convnet *net)
{
    return net->plan.dtype == MR_F64;
}

static bool open_host(struct convnet *net)
{
    (void)net;
    openblas_set_num_threads(1);
    return true;
}

static void close_host(struct convnet *net)
{
    (void)net;
}

static void *allocate_host(struct convnet *net, size_t n_bytes)
{
    (void)net;
    return calloc(1, n_bytes);
}

static void release_host(struct convnet *net, void *memory)
{
    (void)net;
    free(memory);
}

static void copy_host(struct convnet *to_net, void *to, struct convnet *from_net, const void *from,
                      size_t n_bytes)
{
    (void)to_net;
    (void)from_net;
    if (n_bytes > 0)
        memcpy(to, from, n_bytes);
}

static void images_host(struct convnet *net, const mr_array *images)
{
    if (is_f64(net))
        images_f64(net, images);
    else
        images_f32(net, images);
}

static void forward_host(struct convnet *net, int layer)
{
    if (is_f64(net))
        forward_f64(net, layer);
    else
        forward_f32(net, layer);
}

static bool are_classes(const struct convnet *net, uint32_t n, const int64_t *labels)
{
    for (uint32_t i = 0; i < n; i++) {
        if (labels[i] < 0 || labels[i] >= net->plan.n_classes)
            return false;
    }
    return true;
}

static bool score_host(struct convnet *net, void *scores, uint32_t n,
                       const struct convnet_targets *targets, bool anew)
{
    if (!are_classes(net, n, targets->labels) ||
        (targets->mixed != NULL && !are_classes(net, n, targets->mixed)))
        return false;
    if (anew)
        *net->sums = (struct convnet_sums){0};
    if (is_f64(net))
        score_f64(net, scores, n, targets);
    else
        score_f32(net, scores, n, targets);
    return true;
}

static void backward_host(struct convnet *net, int layer)
{
    if (is_f64(net))
        backward_f64(net, layer);
    else
        backward_f32(net, layer);
}

static void add_host(struct convnet *net, void *to, const void *more, size_t count)
{
    if (is_f64(net))
        add_f64(to, more, count);
    else
        add_f32(to, more, count);
}

static void update_host(struct convnet *net, double lr, double momentum, double decay)
{
    if (is_f64(net))
        update_f64(net, lr, momentum, decay);
    else
        update_f32(net, lr, momentum, decay);
}

const struct convnet_math convnet_host = {
    .rows = 1,
    .open = open_host,
    .close = close_host,
    .allocate = allocate_host,
    .release = release_host,
    .copy = copy_host,
    .images = images_host,
    .forward = forward_host,
    .score = score_host,
    .backward = backward_host,
    .add = add_host,
    .update = update_host,
};
