/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLAS. cuBLAS stores matrices by columns, so the transposed matrices are
 * multiplied in reverse order. By default cuBLAS may round f32 to fewer bits; that is switched off,
 * and so are atomics, so that the bits are the same each time.
 */
#include <cublas_v2.h>
#include <stdio.h>

#include "convnet_kernels.h"

void *convnet_products_open(cudaStream_t stream)
{
    cublasHandle_t handle = NULL;
    cublasStatus_t status = cublasCreate(&handle);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetStream(handle, stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_NOT_ALLOWED);
    if (status == CUBLAS_STATUS_SUCCESS)
        return handle;
    fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
    convnet_products_close(handle);
    return NULL;
}

void convnet_products_close(void *products)
{
    if (products != NULL)
        cublasDestroy(products);
}

const char *convnet_multiply(void *products, const struct convnet_product *p)
{
    cublasOperation_t op_a = p->transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = p->transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status;

    if (p->is_f64) {
        double one = 1, beta = p->beta;
        status = cublasDgemm(products, op_b, op_a, p->n, p->m, p->k, &one, p->b, p->ldb, p->a,
                             p->lda, &beta, p->c, p->ldc);
    } else {
        float one = 1, beta = (float)p->beta;
        status = cublasSgemm(products, op_b, op_a, p->n, p->m, p->k, &one, p->b, p->ldb, p->a,
                             p->lda, &beta, p->c, p->ldc);
    }
    return status == CUBLAS_STATUS_SUCCESS ? NULL : cublasGetStatusString(status);
}
