/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small network for pictures of 32 x 32 pixels: three times convolution 3 x 3, ReLU and 2 x 2
 * maximum (32, 64, 128 channels), then one linear layer; with 10 classes it has 113,738 parameters.
 * No batch norm. f32 and f64 use the same code: BLAS on the CPU, cuBLAS and a few kernels on a GPU.
 * Larger pictures are reduced to 32 x 32 by averages first. A step:
 *
 *   convnet_take(net, images);
 *   convnet_forward(net);
 *   convnet_score(net, &targets);
 *   for (int layer = CONVNET_LAYERS - 1; layer >= 0; layer--)
 *       convnet_backward(net, layer);
 *   convnet_update(net, lr, momentum, decay);
 *
 * On the CPU each sample goes through the matrix products alone, so that its loss has the same bits
 * in any batch and on any rank; gradients are added in the order of the batch. On a GPU all this is
 * queued in the net's stream, and the host does not wait. Pointers in this header point to memory
 * of the net's device.
 */
#ifndef EXAMPLES_CONVNET_H
#define EXAMPLES_CONVNET_H

#include <millrace/batch.h>

enum {
    CONVNET_LAYERS = 4,
    CONVNET_CONVS = 3,
    CONVNET_SIDE = 32,
    CONVNET_CHANNELS = 3,
    CONVNET_MAX_CLASSES = 1000
};

/*
 * What a batch adds to the metrics, over the rows whose mask is 1. A wrong label on a GPU makes
 * loss a NaN.
 */
struct convnet_sums {
    double loss;
    double correct;
    double count;
};

struct convnet_plan {
    mr_device device;
    mr_dtype dtype;     /* MR_F32 or MR_F64: of everything in struct convnet that is void */
    uint32_t n_classes; /* 2 to CONVNET_MAX_CLASSES */
    uint32_t max_batch; /* rows that there is room for */
    int first, end;     /* the layers that this device has: 0 and CONVNET_LAYERS, or a part of
                           them */
    uint64_t seed;      /* the same seed gives the same weights on any device */
};

struct convnet {
    struct convnet_plan plan;
    const struct convnet_math *math; /* convnet_math.h: of the CPU or of a GPU */
    void *stream;                    /* cudaStream_t; NULL on the host */
    void *own;                       /* of math */
    uint32_t n;                      /* rows of the present batch */
    size_t n_params;                 /* of the layers that are here */
    size_t n_bytes;                  /* of the device's memory that is taken */
    void *weights;                   /* n_params, layer by layer: matrix, then biases */
    void *velocity;                  /* n_params: SGD's momentum */
    void *gradients; /* n_params + 1: sums over samples; behind the last layer stands the number
                        of samples */
    /*
     * of the present batch, row by row; of the convolutions that are here and of the one before
     * them
     */
    void *input;
    void *pooled[CONVNET_CONVS];    /* what each convolution gives to the next layer */
    uint8_t *winner[CONVNET_CONVS]; /* which of the four pixels that was; 4 where it is zero */
    void *d_pooled[CONVNET_CONVS];  /* derivatives of the loss */
    void *scores;                   /* [n, n_classes]; convnet_score() makes them derivatives */
    struct convnet_sums *sums;
    /* of one layer of some samples */
    void *columns;
    void *plane;
};

/* NULL after a line on stderr: no memory, no such device, or a plan that cannot be. */
struct convnet *convnet_create(const struct convnet_plan *plan);
void convnet_destroy(struct convnet *net);

/*
 * images  f32 [N, 3, S, S], S a multiple of 32; copied. False if they are something else, or more
 * than max_batch.
 */
bool convnet_take(struct convnet *net, const mr_array *images);
void convnet_forward(struct convnet *net);
/*
 * What the loss is taken of, row by row. A row of mixed pictures has two labels, with weights
 * lambda and 1 - lambda.
 */
struct convnet_targets {
    const int64_t *labels;
    const uint8_t *mask;  /* NULL: all rows count */
    const int64_t *mixed; /* the second labels; NULL: rows are not mixed */
    const float *lambda;
};

/*
 * Cross-entropy, and where the backward pass begins. False when a label is no class (on the CPU).
 */
bool convnet_score(struct convnet *net, const struct convnet_targets *targets);
/* The same for n rows of scores that lie on this net's device; anew: sums begin with zero. */
bool convnet_score_rows(struct convnet *net, void *scores, uint32_t n,
                        const struct convnet_targets *targets, bool anew);
/* One layer's gradients, from the last layer to the first. */
void convnet_backward(struct convnet *net, int layer);
/*
 * The gradients of a layer, to be added up over ranks; those of the last layer bring the number of
 * samples along.
 */
void *convnet_bucket(const struct convnet *net, int layer, uint64_t *count_out);
/* to[i] += more[i], both on the net's device. */
void convnet_add(struct convnet *net, void *to, const void *more, size_t count);
/* SGD as PyTorch's: gradients are divided by the number of samples. */
void convnet_update(struct convnet *net, double lr, double momentum, double decay);

/*
 * Copy between devices, after the work queued on both nets; a net that is NULL means the host's
 * memory, and waits.
 */
void convnet_copy(struct convnet *to_net, void *to, struct convnet *from_net, const void *from,
                  size_t n_bytes);
/* Memory for n numbers of the net's dtype on its device, zeroed. NULL: no memory. */
void *convnet_array_create(struct convnet *net, size_t n);
void convnet_array_destroy(struct convnet *net, void *array);
/* Bytes of one row of what a convolution gives. */
size_t convnet_row_bytes(const struct convnet *net, int layer);
/* Where the k-th number of an array of the net's dtype is. */
void *convnet_at(const struct convnet *net, void *array, size_t k);

/* How many GPUs networks can be on: 0 where this build has no arithmetic for them. */
uint32_t convnet_n_gpus(void);

#endif
