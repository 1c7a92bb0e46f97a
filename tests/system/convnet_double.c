/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's kernels and products on the double of the CUDA runtime. The kernels have the GPU's
 * source, compiled for the CPU; BLAS replaces cuBLAS. The double checks what each of them reads and
 * writes. A kernel's arguments are copied at the launch; its memory is read when it runs.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/double/cuda_double.h"
#include "tests/system/convnet_shim.h"

#include "examples/convnet_kernels.cu"

/* A launch that is queued in its stream. */
struct queued {
    convnet_function *function;
    struct convnet_job job;
    struct convnet_product product;
    uint32_t n_views;
    int at[CONVNET_MAX_MEMORY]; /* the index in job.memory of the i-th view */
};

static void run_kernel(void *user, void *const *views)
{
    struct queued *queued = user;

    for (uint32_t i = 0; i < queued->n_views; i++)
        queued->job.memory[queued->at[i]].at = views[i];
    blockDim.x = THREADS;
    for (size_t i = (queued->job.n + THREADS - 1) / THREADS * THREADS; i-- > 0;) {
        blockIdx.x = (unsigned)(i / THREADS);
        threadIdx.x = (unsigned)(i % THREADS);
        queued->function(queued->job);
    }
    free(queued);
}

static cudaError_t start_kernel(cudaStream_t stream, const struct double_kernel *kernel)
{
    cudaError_t error = double_launch(stream, kernel);

    if (error != cudaSuccess)
        free(kernel->user);
    return error;
}

cudaError_t convnet_shim_run(convnet_function *function, const struct convnet_job *job,
                             cudaStream_t stream)
{
    struct queued *queued = malloc(sizeof *queued);
    struct double_kernel kernel = {.name = "convnet", .run = run_kernel, .user = queued};

    if (queued == NULL)
        return cudaErrorMemoryAllocation;
    *queued = (struct queued){.function = function, .job = *job};
    for (int i = 0; i < CONVNET_MAX_MEMORY; i++) {
        if (job->memory[i].n_bytes == 0)
            continue;
        kernel.accesses[kernel.n_accesses++] = (struct double_access){
            job->memory[i].at, job->memory[i].n_bytes, job->memory[i].is_written};
        queued->at[queued->n_views++] = i;
    }
    return start_kernel(stream, &kernel);
}

/* ---- products ---- */

static void run_product(void *user, void *const *views)
{
    struct queued *queued = user;
    const struct convnet_product *p = &queued->product;
    CBLAS_TRANSPOSE a = p->transposed_a ? CblasTrans : CblasNoTrans,
                    b = p->transposed_b ? CblasTrans : CblasNoTrans;

    if (p->is_f64)
        cblas_dgemm(CblasRowMajor, a, b, p->m, p->n, p->k, 1, views[0], p->lda, views[1], p->ldb,
                    p->beta, views[2], p->ldc);
    else
        cblas_sgemm(CblasRowMajor, a, b, p->m, p->n, p->k, 1, views[0], p->lda, views[1], p->ldb,
                    (float)p->beta, views[2], p->ldc);
    free(queued);
}

/* Bytes of a matrix of rows x columns, with `step` numbers from one row to the next. */
static size_t matrix_bytes(const struct convnet_product *p, int rows, int columns, int step)
{
    return ((size_t)(rows - 1) * (size_t)step + (size_t)columns) *
           (p->is_f64 ? sizeof(double) : sizeof(float));
}

void *convnet_products_open(cudaStream_t stream)
{
    openblas_set_num_threads(1);
    cudaStream_t *products = malloc(sizeof stream);
    if (products != NULL)
        *products = stream;
    return products;
}

void convnet_products_close(void *products)
{
    free(products);
}

const char *convnet_multiply(void *products, const struct convnet_product *p)
{
    struct queued *queued = malloc(sizeof *queued);
    size_t a =
        p->transposed_a ? matrix_bytes(p, p->k, p->m, p->lda) : matrix_bytes(p, p->m, p->k, p->lda);
    size_t b =
        p->transposed_b ? matrix_bytes(p, p->n, p->k, p->ldb) : matrix_bytes(p, p->k, p->n, p->ldb);
    struct double_kernel kernel = {.name = "product",
                                   .accesses = {{(void *)p->a, a, false},
                                                {(void *)p->b, b, false},
                                                {p->c, matrix_bytes(p, p->m, p->n, p->ldc), true}},
                                   .n_accesses = 3,
                                   .run = run_product,
                                   .user = queued};

    if (queued == NULL)
        return "no memory";
    *queued = (struct queued){.product = *p};
    cudaError_t error = start_kernel(*(cudaStream_t *)products, &kernel);
    return error == cudaSuccess ? NULL : cudaGetErrorString(error);
}
