/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's keywords for convnet_kernels.cu when it is compiled as C for the double of the CUDA
 * runtime: a kernel is a function, and its threads run one after the other, last to first, when the
 * double's stream reaches it.
 */
#ifndef TESTS_SYSTEM_CONVNET_SHIM_H
#define TESTS_SYSTEM_CONVNET_SHIM_H

#include "examples/convnet_kernels.h"

#undef __global__ /* a toolkit's header defines it */
#define __global__
#define CONVNET_RUN(kernel, job, stream) convnet_shim_run(kernel, job, stream)

struct convnet_shim_index {
    unsigned x;
};

/* Of the running thread; the double runs one at a time. */
static _Thread_local struct convnet_shim_index blockIdx, blockDim, threadIdx;

cudaError_t convnet_shim_run(void (*kernel)(struct convnet_job job), const struct convnet_job *job,
                             cudaStream_t stream);

#endif
