/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that take a known time or wait for the host. Time is the GPU's own nanosecond clock, so a
 * change of its frequency does not change durations.
 */
#include "tests/gpu/gpu_kernels.h"

#include <cuda_runtime.h>

enum { THREADS = 256 };

static __device__ int64_t now_ns(void)
{
    int64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void spin(int64_t ns)
{
    int64_t end = now_ns() + ns;
    while (now_ns() < end) {
    }
}

static __global__ void wait(volatile struct gpu_gate *gate, int64_t limit_ns)
{
    int64_t end = now_ns() + limit_ns;
    while (!gate->open) {
        if (now_ns() > end) {
            gate->timed_out = 1;
            return;
        }
    }
}

static __global__ void memory(float *out, const float *in, uint64_t n)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * blockDim.x)
        out[i] = in[i] * 1.5f + 1.0f;
}

static __global__ void compute(float *out, uint32_t n_rounds)
{
    float a = (float)threadIdx.x;
    float b = (float)blockIdx.x;
    for (uint32_t i = 0; i < n_rounds; i++) {
        a = fmaf(a, 0.999f, 0.5f);
        b = fmaf(b, 0.998f, 0.25f);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b;
}

static __global__ void sum(unsigned long long *total, const uint8_t *bytes, uint64_t n)
{
    unsigned long long mine = 0;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * blockDim.x)
        mine += bytes[i];
    atomicAdd(total, mine);
}

extern "C" int gpu_kernels_load(void)
{
    const void *const kernels[] = {(const void *)spin, (const void *)wait, (const void *)memory,
                                   (const void *)compute, (const void *)sum};
    for (const void *kernel : kernels) {
        cudaFuncAttributes attributes;
        cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
        if (error != cudaSuccess)
            return (int)error;
    }
    return 0;
}

extern "C" int gpu_kernel_spin(int64_t ns, uint32_t n_blocks, uint32_t n_threads, void *stream)
{
    spin<<<n_blocks, n_threads, 0, (cudaStream_t)stream>>>(ns);
    return (int)cudaGetLastError();
}

extern "C" int gpu_kernel_wait(volatile struct gpu_gate *gate, int64_t limit_ns, void *stream)
{
    wait<<<1, 1, 0, (cudaStream_t)stream>>>(gate, limit_ns);
    return (int)cudaGetLastError();
}

extern "C" void gpu_kernel_open(volatile struct gpu_gate *gate)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    gate->number++;
    gate->open = 1;
}

extern "C" int gpu_kernel_memory(float *out, const float *in, uint64_t n, uint32_t n_blocks,
                                 void *stream)
{
    memory<<<n_blocks, THREADS, 0, (cudaStream_t)stream>>>(out, in, n);
    return (int)cudaGetLastError();
}

extern "C" int gpu_kernel_compute(float *out, uint32_t n_rounds, uint32_t n_blocks, void *stream)
{
    compute<<<n_blocks, THREADS, 0, (cudaStream_t)stream>>>(out, n_rounds);
    return (int)cudaGetLastError();
}

extern "C" int gpu_kernel_sum(unsigned long long *total, const uint8_t *bytes, uint64_t n,
                              void *stream)
{
    cudaError_t error = cudaMemsetAsync(total, 0, sizeof *total, (cudaStream_t)stream);
    if (error == cudaSuccess) {
        sum<<<64, THREADS, 0, (cudaStream_t)stream>>>(total, bytes, n);
        error = cudaGetLastError();
    }
    return (int)error;
}
