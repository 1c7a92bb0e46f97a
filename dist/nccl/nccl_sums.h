/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl module's kernels (nccl_sums.cu); each has one C function that launches it. Tests have
 * the same functions in plain C, next to the double of CUDA.
 */
#ifndef DIST_NCCL_NCCL_SUMS_H
#define DIST_NCCL_NCCL_SUMS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Load the kernels on the current device. Otherwise CUDA loads them at the first launch, and may
 * then wait for all work on the device, such as a collective that waits for another rank.
 */
cudaError_t mr_nccl_sums_load(void);
/*
 * sums[0] += *value, one number of dtype (mr_dtype), and sums[1] += count; in f64, on the current
 * device.
 */
cudaError_t mr_nccl_sums_add(double *sums, const void *value, uint32_t dtype, double count,
                             cudaStream_t stream);
/* to[i] += sums[i] and sums[i] = 0, for i < n. */
cudaError_t mr_nccl_sums_take(double *to, double *sums, uint32_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
