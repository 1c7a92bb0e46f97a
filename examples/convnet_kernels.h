/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's kernels on a GPU (convnet_kernels.cu) and its matrix products (convnet_cublas.c),
 * as plain C functions. One product takes many rows of a batch: they are one after the other in
 * columns [in x 9, rows x pixels] and plane [out, rows x pixels].
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

/* The comments list job.memory, in this order, and what n, the number of threads, counts. */
enum convnet_kernel {
    CONVNET_SHRINK, /* images (f32), input: one for each number of input */
    CONVNET_UNFOLD, /* a convolution's input, columns: one for each number of columns */
    CONVNET_FOLD,   /* columns, derivatives of the input: one for each number of the input */
    CONVNET_POOL,   /* plane, biases, pooled, winners: one for each winner */
    CONVNET_UNPOOL, /* derivatives of pooled, winners, plane: one for each number of plane */
    CONVNET_BIAS,   /* biases, scores: one for each score */
    CONVNET_SCORE,  /* scores, labels, mask, sums of each row (f64: loss, correct, count), second
                       labels, their rows' lambdas: one for each row */
    CONVNET_TALLY,  /* sums of each row, sums, the number of samples after the gradients: one */
    CONVNET_ADD,    /* to, more: one for each number */
    CONVNET_UPDATE, /* weights, velocity, gradients: one for each weight */
    CONVNET_N_KERNELS
};

enum { CONVNET_MAX_MEMORY = 6 };

struct convnet_job {
    size_t n;
    /* Lengths and is_written are for the double of CUDA, which checks them. */
    struct {
        void *at;
        size_t n_bytes;
        bool is_written;
    } memory[CONVNET_MAX_MEMORY];
    int rows; /* rows of the batch */
    int side; /* pixels on a side of a convolution's input */
    /*
     * SHRINK: a side, in pixels, of the block that becomes one pixel; POOL, UNPOOL: output
     * channels; UNFOLD, FOLD: input channels; BIAS, SCORE: classes
     */
    int channels;
    bool anew;   /* TALLY: sums begin with zero; SCORE: there is no mask */
    bool mixes;  /* SCORE: there are second labels */
    size_t step; /* SHRINK: numbers from one image to the next */
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

/* Products on a stream of the current device. NULL: failed, and the reason is on stderr. */
void *convnet_products_open(cudaStream_t stream);
void convnet_products_close(void *products);
/* Queued in the stream. Returns NULL, or a message. */
const char *convnet_multiply(void *products, const struct convnet_product *product);

#ifdef __cplusplus
}
#endif

#endif
