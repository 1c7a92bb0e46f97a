/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether copies slow down a busy GPU: kernels alone, and the same kernels while a loader copies as
 * fast as it can.
 */
#ifndef TESTS_GPU_GPU_STEP_BUSY_H
#define TESTS_GPU_GPU_STEP_BUSY_H

#include "tests/gpu/gpu_cuda.h"

void gpu_step_busy(struct gpu_setup *setup, struct gpu_cuda *cuda);

#endif
