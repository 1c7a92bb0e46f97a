/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small network for pictures of 32 x 32 pixels, on the CPU by BLAS: three times convolution 3 x 3, ReLU and 2 x 2
 * maximum (32, 64, 128 channels), then one linear layer; with 10 classes 113,738 parameters. No batch norm. In f32 and
 * f64 by the same code. Larger pictures are made 32 x 32 by averages first.
 *
 * Each sample goes through the matrix products by itself, so that its loss has the same bits in whatever batch and on
 * whatever rank it comes; gradients are added in the order of the batch. A step:
 *
 *   convnet_forward(net, images);
 *   convnet_score(net, labels, mask, &sums);
 *   for (int layer = CONVNET_LAYERS - 1; layer >= 0; layer--)
 *       convnet_backward(net, layer);
 *   convnet_update(net, lr, momentum, decay);
 */
#ifndef EXAMPLES_CONVNET_H
#define EXAMPLES_CONVNET_H

#include <millrace/batch.h>

enum { CONVNET_LAYERS = 4, CONVNET_CONVS = 3, CONVNET_SIDE = 32, CONVNET_CHANNELS = 3, CONVNET_MAX_CLASSES = 1000 };

struct convnet {
    mr_dtype dtype;     /* MR_F32 or MR_F64: of everything below that is void */
    uint32_t max_batch; /* rows that there is room for */
    uint32_t n;         /* rows of the present batch */
    int n_classes;
    size_t n_params;
    void *weights;   /* n_params, layer by layer: matrix, then biases */
    void *velocity;  /* n_params: SGD's momentum */
    void *gradients; /* n_params + 1: sums over samples; behind the last layer stands the number of samples */
    /* of the present batch, row by row */
    void *input;
    void *pooled[CONVNET_CONVS];    /* what each convolution gives to the next layer */
    uint8_t *winner[CONVNET_CONVS]; /* which of the four pixels that was; NOBODY where it is zero */
    void *d_pooled[CONVNET_CONVS];  /* derivatives of the loss */
    void *d_scores;
    /* of one sample of one layer */
    void *columns;
    void *plane;
};

/* What a batch adds to the metrics, over the rows whose mask is 1. */
struct convnet_sums {
    double loss;
    double correct;
    double count;
};

/*
 * NULL when there is no memory, or n_classes is not 2 to CONVNET_MAX_CLASSES. The same seed gives the same weights.
 * BLAS is set to one thread.
 */
struct convnet *convnet_create(mr_dtype dtype, uint32_t n_classes, uint32_t max_batch, uint64_t seed);
void convnet_destroy(struct convnet *net);

/* images  f32 [N, 3, S, S], S a multiple of 32; copied. False when they are something else, or more than max_batch. */
bool convnet_forward(struct convnet *net, const mr_array *images);
/* Cross-entropy, and where the backward pass begins. mask may be NULL. False when a label is no class. */
bool convnet_score(struct convnet *net, const int64_t *labels, const uint8_t *mask, struct convnet_sums *sums_out);
/* One layer's gradients, from the last layer to the first. */
void convnet_backward(struct convnet *net, int layer);
/* The gradients of a layer, to be added up over ranks; those of the last layer bring the number of samples along. */
void *convnet_bucket(struct convnet *net, int layer, uint64_t *count_out);
/* SGD as PyTorch's: gradients are divided by the number of samples. */
void convnet_update(struct convnet *net, double lr, double momentum, double decay);

#endif
