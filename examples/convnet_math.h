/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions for the network's arithmetic. One is for the CPU (convnet_host.c), one for
 * GPUs (convnet_cuda.c). Also the shapes that both use.
 *
 * Invariant: layers are numbered as in the whole network, but weights begin with those of the first
 * layer on this device.
 */
#ifndef EXAMPLES_CONVNET_MATH_H
#define EXAMPLES_CONVNET_MATH_H

#include "convnet.h"

enum { CONVNET_KERNEL = 9, CONVNET_NOBODY = 4, CONVNET_FEATURES = 128 * 4 * 4 };

struct convnet_math {
    /* samples that go through a convolution at once; columns and plane have room for them */
    uint32_t rows;
    /* False: failed, and the reason is on stderr. */
    bool (*open)(struct convnet *net);
    void (*close)(struct convnet *net);
    /* Zeroed memory of the device. NULL: no memory. */
    void *(*allocate)(struct convnet *net, size_t n_bytes);
    void (*release)(struct convnet *net, void *memory);
    void (*copy)(struct convnet *to_net, void *to, struct convnet *from_net, const void *from,
                 size_t n_bytes);
    void (*images)(struct convnet *net, const mr_array *images);
    void (*forward)(struct convnet *net, int layer);
    bool (*score)(struct convnet *net, void *scores, uint32_t n,
                  const struct convnet_targets *targets, bool anew);
    void (*backward)(struct convnet *net, int layer);
    void (*add)(struct convnet *net, void *to, const void *more, size_t count);
    void (*update)(struct convnet *net, double lr, double momentum, double decay);
};

extern const struct convnet_math convnet_host;
/* The table for GPUs. NULL: this build has none. */
const struct convnet_math *convnet_gpu(void);

/*
 * A convolution: a side of its input in pixels, channels in and out. Its output's side is half as
 * long.
 */
struct convnet_shape {
    int side, in, out;
};

static inline struct convnet_shape convnet_shape(int layer)
{
    static const struct convnet_shape shapes[CONVNET_CONVS] = {
        {32, 3, 32}, {16, 32, 64}, {8, 64, 128}};

    return shapes[layer];
}

/* A layer has a matrix of rows x columns, and one bias for each row. */
static inline int convnet_rows(const struct convnet *net, int layer)
{
    return layer < CONVNET_CONVS ? convnet_shape(layer).out : (int)net->plan.n_classes;
}

static inline int convnet_columns(int layer)
{
    return layer < CONVNET_CONVS ? convnet_shape(layer).in * CONVNET_KERNEL : CONVNET_FEATURES;
}

static inline size_t convnet_count(const struct convnet *net, int layer)
{
    return (size_t)convnet_rows(net, layer) * ((size_t)convnet_columns(layer) + 1);
}

/* How many numbers of this device come before a layer's. */
static inline size_t convnet_first(const struct convnet *net, int layer)
{
    size_t first = 0;

    for (int i = net->plan.first; i < layer; i++)
        first += convnet_count(net, i);
    return first;
}

/* Numbers of one row in a convolution's input, and in its output. */
static inline size_t convnet_row_in(int layer)
{
    struct convnet_shape shape = convnet_shape(layer);

    return (size_t)shape.in * (size_t)(shape.side * shape.side);
}

static inline size_t convnet_row_out(int layer)
{
    struct convnet_shape shape = convnet_shape(layer);

    return (size_t)shape.out * (size_t)(shape.side * shape.side / 4);
}

/* A convolution's input. */
static inline void *convnet_input(const struct convnet *net, int layer)
{
    return layer == 0 ? net->input : net->pooled[layer - 1];
}

#endif
