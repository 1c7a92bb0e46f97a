/* SPDX-License-Identifier: Apache-2.0 */
/* Named ranges of a thread for NVIDIA's profilers. Without a profiler nothing happens. */
#ifndef PINNED_CUDA_RANGE_H
#define PINNED_CUDA_RANGE_H

void mr_cuda_range_push(const char *name);
void mr_cuda_range_pop(void);

#endif
