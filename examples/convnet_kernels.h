/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's kernels on a GPU (convnet_kernels.cu) and its matrix products (convnet_cublas.c),
 * behind plain C functions. Rows of a batch lie one after the other in columns and planes: columns
 * [in x 9, rows x pixels], plane [out, rows x pixels], so that one product takes many rows.
 */
#ifndef EXAMPLES_CONVNET_KERNELS_H
#define EXAMPLES_CONVNET_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What stands in job.memory, in this order; n is the number of threads. */
enum convnet_kernel {
    CONVNET_SHRINK, /* images (f32), input: one for each number of input */
    CONVNET_UNFOLD, /* what a convolution gets, columns: one for each number of columns */
    CONVNET_FOLD,   /* columns, derivatives of what it gets: one for each of those */
    CONVNET_POOL,   /* plane, biases, pooled, winners: one for each winner */
    CONVNET_UNPOOL, /* derivatives of pooled, winners, plane: one for each number of plane */
    CONVNET_BIAS,   /* biases, scores: one for each score */
    CONVNET_SCORE,  /* scores, labels, mask, sums of each row (f64: loss, correct, count), second
                       labels, their rows' lambdas: one for each row */
    CONVNET_TALLY,  /* sums of each row, sums, the number of samples behind the gradients: one */
    CONVNET_ADD,    /* to, more: one for each number */
    CONVNET_UPDATE, /* weights, velocity, gradients: one for each weight */
    CONVNET_N_KERNELS
};

enum { CONVNET_MAX_MEMORY = 6 };

struct convnet_job {
    size_t n;
    /* Each with its length, and whether it is written: a double of the device wants to know. */
    struct {
        void *at;
        size_t n_bytes;
        bool is_written;
    } memory[CONVNET_MAX_MEMORY];
    int rows;     /* of the batch */
    int side;     /* of what a convolution gets, pixels */
    int channels; /* SHRINK: pixels that become one, on a side; POOL, UNPOOL: those that a
                     convolution gives, else gets; BIAS, SCORE: classes */
    bool anew;    /* TALLY: sums begin with zero; SCORE: there is no mask */
    bool mixes;   /* SCORE: there are second labels */
    size_t step;  /* SHRINK: numbers from one image to the next */
    double lr, momentum, decay;
};

/* On the current device. n = 0 launches nothing. */
cudaError_t convnet_launch(enum convnet_kernel kernel, bool is_f64, const struct convnet_job *job,
                           cudaStream_t stream);

/*
 * c [m, n] = op(a) op(b) + beta c, row by row, op(a) [m, k], op(b) [k, n]; lda: numbers from one
 * row to the next.
 */
struct convnet_product {
    bool is_f64, transposed_a, transposed_b;
    int m, n, k;
    const void *a, *b;
    int lda, ldb, ldc;
    double beta; /* 0 or 1 */
    void *c;
};

/* Products on a stream of the current device. NULL after a line on stderr. */
void *convnet_products_open(cudaStream_t stream);
void convnet_products_close(void *products);
/* NULL, or what is wrong. Queued in the stream. */
const char *convnet_multiply(void *products, const struct convnet_product *product);

#ifdef __cplusplus
}
#endif

#endif
