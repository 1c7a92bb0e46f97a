/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finishing kernel as one plain C function, so that C files need no nvcc and a test can replace
 * it by a CPU version.
 */
#ifndef PINNED_FINISH_CUDA_H
#define PINNED_FINISH_CUDA_H

#include "pinned/finish_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Finish one batch in one kernel, on a stream of the current device. The job's pointers are that
 * device's, except finish, which is read before this returns. With n = 0 nothing is launched: the
 * kernels are only loaded onto the device, because loading them at the first launch would wait for
 * everything that runs there.
 *
 * Returns a cudaError_t: cudaErrorNoKernelImageForDevice if the GPU is older than those that this
 * was built for.
 */
int mr_finish_cuda_launch(const struct mr_finish_job *job, void *stream);

#ifdef __cplusplus
}
#endif

#endif
