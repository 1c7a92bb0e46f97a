/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finishing kernel behind one plain C function, so that C files need no nvcc and a test can put
 * a CPU version in its place.
 */
#ifndef PINNED_FINISH_CUDA_H
#define PINNED_FINISH_CUDA_H

#include "pinned/finish_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Finish one batch on a stream of the current device, in one kernel; the job's pointers (but for
 * finish, which is read before this returns) are that device's. n = 0 launches nothing: it only
 * loads the kernels onto the device, because loading at the first launch would wait for everything
 * that runs there.
 *
 * Returns a cudaError_t: cudaErrorNoKernelImageForDevice when the GPU is older than what this was
 * built for.
 */
int mr_finish_cuda_launch(const struct mr_finish_job *job, void *stream);

#ifdef __cplusplus
}
#endif

#endif
