/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network's kernels, one thread for each number of the result. A test compiles this file as C
 * for the CPU; then a double of CUDA defines CUDA's keywords and CONVNET_RUN. Only
 * cudaGetLastError() reports a launch that fails.
 */
#include <math.h>

#include "convnet_kernels.h"

enum { THREADS = 256, N_INPUT = 3 * 32 * 32, NOBODY = 4 };
#define THREAD ((size_t)blockIdx.x * blockDim.x + threadIdx.x)

#define REAL float
#define NAME(verb) verb##_f32
#include "convnet_kernels_real.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(verb) verb##_f64
#include "convnet_kernels_real.h"

#ifndef CONVNET_RUN
#define CONVNET_RUN(kernel, job, stream)                                                           \
    (kernel<<<(unsigned)(((job)->n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*(job)),       \
     cudaGetLastError())
#endif

typedef void convnet_function(struct convnet_job job);

/* In the order of enum convnet_kernel. */
static convnet_function *const functions[CONVNET_N_KERNELS][2] = {
    {shrink_f32, shrink_f64}, {unfold_f32, unfold_f64}, {fold_f32, fold_f64},
    {pool_f32, pool_f64},     {unpool_f32, unpool_f64}, {bias_f32, bias_f64},
    {score_f32, score_f64},   {tally_f32, tally_f64},   {add_f32, add_f64},
    {update_f32, update_f64},
};

cudaError_t convnet_launch(enum convnet_kernel kernel, bool is_f64, const struct convnet_job *job,
                           cudaStream_t stream)
{
    return job->n == 0 ? cudaSuccess : CONVNET_RUN(functions[kernel][is_f64], job, stream);
}
