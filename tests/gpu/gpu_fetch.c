/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies synchronously. After mr_loader_next() the batch is available to the host, so nothing else
 * must be waited for.
 */
#include "tests/gpu/gpu_fetch.h"

#include <cuda_runtime_api.h>
#include <string.h>

int gpu_fetch(void *to, mr_device from_device, const void *from, size_t len_bytes)
{
    if (from_device.kind != MR_DEVICE_CUDA) {
        memcpy(to, from, len_bytes);
        return 0;
    }
    int before = 0;
    cudaError_t code = cudaGetDevice(&before);
    if (code == cudaSuccess)
        code = cudaSetDevice(from_device.id);
    if (code == cudaSuccess)
        code = cudaMemcpy(to, from, len_bytes, cudaMemcpyDeviceToHost);
    cudaError_t back = cudaSetDevice(before);
    return (int)(code == cudaSuccess ? back : code);
}
