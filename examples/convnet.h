/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small network for pictures of 32 x 32 pixels: three times convolution 3 x 3, ReLU and 2 x 2
 * maximum (32, 64, 128 channels), then one linear layer. With 10 classes it has 113,738 parameters.
 * It has no batch norm. f32 and f64 use the same code: BLAS on the CPU, cuBLAS and a few kernels on
 * a GPU. Larger pictures are reduced to 32 x 32 by averages first. A step:
 *
 *   convnet_take(net, images);
 *   convnet_forward(net);
 *   convnet_score(net, &targets);
 *   for (int layer = CONVNET_LAYERS - 1; layer >= 0; layer--)
 *       convnet_backward(net, layer);
 *   convnet_update(net, lr, momentum, decay);
 *
 * On the CPU each sample is a separate matrix product, so its loss has the same bits in any batch
 * and on any rank. Gradients are added in the order of the batch. On a GPU a step is queued in the
 * net's stream, and the host does not wait. Pointers in this header point to memory of the net's
 * device.
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
 * A batch's contribution to the metrics, over the rows whose mask is 1. On a GPU a wrong label
 * makes loss NaN.
 */
struct convnet_sums {
    double loss;
    double correct;
    double count;
};

struct convnet_plan {
    mr_device device;
    mr_dtype dtype;     /* MR_F32 or MR_F64: the type behind all void pointers of struct convnet */
    uint32_t n_classes; /* 2 to CONVNET_MAX_CLASSES */
    uint32_t max_batch; /* most rows in a batch */
    int first, end;     /* this device has the layers first to end - 1; all: 0, CONVNET_LAYERS */
    uint64_t seed;      /* the same seed gives the same weights on any device */
};

struct convnet {
    struct convnet_plan plan;
    const struct convnet_math *math; /* convnet_math.h: functions for the CPU or a GPU */
    void *stream;                    /* cudaStream_t; NULL on the host */
    void *own;                       /* private to math */
    uint32_t n;                      /* rows of the current batch */
    size_t n_params;                 /* of the layers on this device */
    size_t n_bytes;                  /* bytes of device memory in use */
    void *weights;                   /* n_params, layer by layer: matrix, then biases */
    void *velocity;                  /* n_params: SGD's momentum */
    /* n_params + 1: sums over samples; after the last layer's, the number of samples */
    void *gradients;
    /*
     * The current batch, row by row. Arrays of convolutions exist for those on this device, and for
     * the one before them.
     */
    void *input;
    void *pooled[CONVNET_CONVS]; /* each convolution's output */
    /* which of the four pixels was the maximum; 4: the output is zero */
    uint8_t *winner[CONVNET_CONVS];
    void *d_pooled[CONVNET_CONVS]; /* derivatives of the loss */
    /* [n, n_classes]; convnet_score() overwrites them with derivatives */
    void *scores;
    struct convnet_sums *sums;
    /* Work memory for one layer and some samples. */
    void *columns;
    void *plane;
};

/* NULL: failed, and the reason is on stderr: no memory, no such device, or a plan out of range. */
struct convnet *convnet_create(const struct convnet_plan *plan);
void convnet_destroy(struct convnet *net);

/*
 * images  f32 [N, 3, S, S], S a multiple of 32; copied. False: another shape, or more than
 * max_batch rows.
 */
bool convnet_take(struct convnet *net, const mr_array *images);
void convnet_forward(struct convnet *net);
/*
 * The labels, row by row. A row of mixed pictures has two labels, with weights lambda and 1 -
 * lambda.
 */
struct convnet_targets {
    const int64_t *labels;
    const uint8_t *mask;  /* NULL: all rows count */
    const int64_t *mixed; /* the second labels; NULL: rows are not mixed */
    const float *lambda;
};

/* Cross-entropy; the backward pass begins here. False: a label is not a class (on the CPU only). */
bool convnet_score(struct convnet *net, const struct convnet_targets *targets);
/* The same for n rows of scores on this net's device. anew: sums begin with zero. */
bool convnet_score_rows(struct convnet *net, void *scores, uint32_t n,
                        const struct convnet_targets *targets, bool anew);
/* Compute one layer's gradients; called from the last layer to the first. */
void convnet_backward(struct convnet *net, int layer);
/*
 * The gradients of a layer, to be summed over ranks. The number of samples follows the gradients of
 * the last layer.
 */
void *convnet_bucket(const struct convnet *net, int layer, uint64_t *count_out);
/* to[i] += more[i], both on the net's device. */
void convnet_add(struct convnet *net, void *to, const void *more, size_t count);
/* SGD as in PyTorch; gradients are divided by the number of samples. */
void convnet_update(struct convnet *net, double lr, double momentum, double decay);

/*
 * Copy between devices, after the work queued on both nets. A NULL net means host memory; then the
 * call waits for the copy.
 */
void convnet_copy(struct convnet *to_net, void *to, struct convnet *from_net, const void *from,
                  size_t n_bytes);
/* Memory for n numbers of the net's dtype on its device, zeroed. NULL: no memory. */
void *convnet_array_create(struct convnet *net, size_t n);
void convnet_array_destroy(struct convnet *net, void *array);
/* Bytes of one row of a convolution's output. */
size_t convnet_row_bytes(const struct convnet *net, int layer);
/* The address of the k-th number of an array of the net's dtype. */
void *convnet_at(const struct convnet *net, void *array, size_t k);

/* The number of GPUs that a network can use; 0 if this build has no GPU arithmetic. */
uint32_t convnet_n_gpus(void);

#endif
