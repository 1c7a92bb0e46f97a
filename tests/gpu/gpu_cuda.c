/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, memory and the gate of these programs. While the gate is closed nothing may be
 * allocated, freed or loaded, because that can wait for the whole device.
 */
#include "tests/gpu/gpu_cuda.h"

#include <stdlib.h>
#include <string.h>

void gpu_cuda_ok(struct gpu_cuda *cuda, int error, const char *what)
{
    if (error != cudaSuccess)
        gpu_report_die(cuda->report, "%s: %s (%s)", what, cudaGetErrorString((cudaError_t)error),
                       cudaGetErrorName((cudaError_t)error));
}

struct gpu_cuda gpu_cuda_open(struct gpu_setup *setup)
{
    struct gpu_cuda cuda = {.report = &setup->report, .gate_limit_ns = INT64_C(5000000000)};
    int driver = 0;
    int runtime = 0;
    void *gate;
    if (!gpu_setup_on_gpu(setup))
        gpu_report_die(cuda.report, "this program needs a GPU, not %s", setup->device);
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        gpu_report_die(cuda.report, "no NVIDIA driver");
    cudaRuntimeGetVersion(&runtime);
    if (driver / 1000 < runtime / 1000)
        gpu_report_die(cuda.report, "the driver knows CUDA %d.%d, this program needs %d",
                       driver / 1000, driver % 1000 / 10, runtime / 1000);
    cuda.ordinal = (int)strtol(setup->device + 5, NULL, 10);
    gpu_cuda_ok(&cuda, cudaSetDevice(cuda.ordinal), "cudaSetDevice");
    int n_sm;
    gpu_cuda_ok(&cuda, cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, cuda.ordinal),
                "cudaDeviceGetAttribute");
    cuda.n_sm = (uint32_t)n_sm;
    gpu_cuda_ok(&cuda, gpu_kernels_load(), "loading the kernels");
    gpu_cuda_ok(&cuda, cudaHostAlloc(&gate, sizeof *cuda.gate, cudaHostAllocMapped),
                "cudaHostAlloc");
    memset(gate, 0, sizeof *cuda.gate);
    cuda.gate = gate;
    return cuda;
}

void gpu_cuda_close(struct gpu_cuda *cuda)
{
    gpu_cuda_ok(cuda, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    gpu_cuda_ok(cuda, cudaFreeHost((void *)cuda->gate), "cudaFreeHost");
}

const char *gpu_cuda_stream_name(enum gpu_stream_kind kind)
{
    static const char *const names[GPU_STREAM_KINDS] = {"the NULL stream", "a blocking stream",
                                                        "a non-blocking stream"};
    return names[kind];
}

cudaStream_t gpu_cuda_stream(struct gpu_cuda *cuda, enum gpu_stream_kind kind)
{
    cudaStream_t stream = NULL;
    if (kind != GPU_STREAM_NULL)
        gpu_cuda_ok(cuda,
                    cudaStreamCreateWithFlags(&stream, kind == GPU_STREAM_BLOCKING
                                                           ? cudaStreamDefault
                                                           : cudaStreamNonBlocking),
                    "cudaStreamCreateWithFlags");
    return stream;
}

void gpu_cuda_stream_end(struct gpu_cuda *cuda, cudaStream_t stream)
{
    if (stream)
        gpu_cuda_ok(cuda, cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void gpu_cuda_sync(struct gpu_cuda *cuda, cudaStream_t stream)
{
    gpu_cuda_ok(cuda, cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void *gpu_cuda_alloc(struct gpu_cuda *cuda, uint64_t len_bytes)
{
    void *memory;
    gpu_cuda_ok(cuda, cudaMalloc(&memory, len_bytes), "cudaMalloc");
    return memory;
}

void gpu_cuda_close_gate(struct gpu_cuda *cuda, cudaStream_t stream)
{
    cuda->gate->open = 0;
    cuda->gate->timed_out = 0;
    gpu_cuda_ok(cuda, gpu_kernel_wait(cuda->gate, cuda->gate_limit_ns, stream),
                "the gate's launch");
}

bool gpu_cuda_open_gate(struct gpu_cuda *cuda)
{
    gpu_kernel_open(cuda->gate);
    return cuda->gate->timed_out == 0;
}
