/* SPDX-License-Identifier: Apache-2.0 */
/* Not CUDA's; see cuda_runtime_api.h in this folder. */
#ifndef TESTS_DOUBLE_INCLUDE_CUDA_RUNTIME_H
#define TESTS_DOUBLE_INCLUDE_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#endif
