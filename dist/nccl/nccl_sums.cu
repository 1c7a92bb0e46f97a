/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels that add up metrics on the device.
 *
 * Invariant: two adds to the same number run one after the other; nccl_metric_sums.c orders them.
 * Nothing here is atomic, so the result is the same every time.
 */
#include "dist/nccl/nccl_sums.h"

#include <millrace/batch.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum { THREADS = 256, MAX_BLOCKS = 1024 };

static __device__ double as_double(const void *value, uint32_t dtype)
{
    switch (dtype) {
    case MR_F16: return (double)__half2float(*(const __half *)value);
    case MR_BF16: return (double)__bfloat162float(*(const __nv_bfloat16 *)value);
    case MR_F32: return (double)*(const float *)value;
    case MR_F64: return *(const double *)value;
    case MR_I32: return (double)*(const int32_t *)value;
    default: return (double)*(const int64_t *)value;
    }
}

static __global__ void add_number(double *sums, const void *value, uint32_t dtype, double count)
{
    sums[0] += as_double(value, dtype);
    sums[1] += count;
}

static __global__ void __launch_bounds__(THREADS) take_sums(double *to, double *sums, uint32_t n)
{
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        to[i] += sums[i];
        sums[i] = 0;
    }
}

static bool is_number(uint32_t dtype)
{
    return dtype == MR_F16 || dtype == MR_BF16 || dtype == MR_F32 || dtype == MR_F64 ||
           dtype == MR_I32 || dtype == MR_I64;
}

cudaError_t mr_nccl_sums_load(void)
{
    struct cudaFuncAttributes attributes;
    cudaError_t code = cudaFuncGetAttributes(&attributes, (const void *)add_number);
    return code == cudaSuccess ? cudaFuncGetAttributes(&attributes, (const void *)take_sums) : code;
}

cudaError_t mr_nccl_sums_add(double *sums, const void *value, uint32_t dtype, double count,
                             cudaStream_t stream)
{
    if (!is_number(dtype))
        return cudaErrorInvalidValue;
    void *arguments[] = {&sums, &value, &dtype, &count};
    return cudaLaunchKernel((const void *)add_number, dim3(1, 1, 1), dim3(1, 1, 1), arguments, 0,
                            stream);
}

cudaError_t mr_nccl_sums_take(double *to, double *sums, uint32_t n, cudaStream_t stream)
{
    if (n == 0)
        return cudaSuccess;
    dim3 grid = {1, 1, 1};
    dim3 block = {THREADS, 1, 1};
    grid.x = (n - 1) / THREADS + 1;
    if (grid.x > MAX_BLOCKS)
        grid.x = MAX_BLOCKS;
    void *arguments[] = {&to, &sums, &n};
    return cudaLaunchKernel((const void *)take_sums, grid, block, arguments, 0, stream);
}
