/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that take a known time, or wait for the host. Each function launches one on a stream and
 * returns the CUDA runtime's error. NULL is the default stream of the current device.
 * gpu_kernels_double.c has the same kernels on the double of the runtime.
 */
#ifndef TESTS_GPU_GPU_KERNELS_H
#define TESTS_GPU_GPU_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Load all kernels now: the first launch of a kernel may wait for the device, and so for a closed
 * gate.
 */
int gpu_kernels_load(void);

/* Keep every thread of n_blocks blocks busy for this time. */
int gpu_kernel_spin(int64_t ns, uint32_t n_blocks, uint32_t n_threads, void *stream);

/* Mapped memory that the host writes and the device reads. */
struct gpu_gate {
    uint32_t open;      /* written by the host */
    uint32_t timed_out; /* written by the device: the limit was reached first */
    uint32_t number;    /* how often it was opened */
};
/* Later work on the stream waits until the gate is open, at most limit_ns. */
int gpu_kernel_wait(volatile struct gpu_gate *gate, int64_t limit_ns, void *stream);
/* Called by the host: open the gate. */
void gpu_kernel_open(volatile struct gpu_gate *gate);

/* out[i] = in[i] * 1.5 + 1, as fast as the memory allows. */
int gpu_kernel_memory(float *out, const float *in, uint64_t n, uint32_t n_blocks, void *stream);
/* n_rounds of dependent multiply-adds in every thread; memory: one word each at the end. */
int gpu_kernel_compute(float *out, uint32_t n_rounds, uint32_t n_blocks, void *stream);

/* *sum = the sum of n bytes, which stands for a training step's first kernel. */
int gpu_kernel_sum(unsigned long long *sum, const uint8_t *bytes, uint64_t n, void *stream);

#ifdef __cplusplus
}
#endif

#endif
