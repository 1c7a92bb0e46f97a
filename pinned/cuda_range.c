/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named ranges with NVTX, which consists of headers only and finds the profiler by itself. Those
 * headers define functions in every file that includes them, so only this file does. The double of
 * the runtime has no NVTX.
 */
#include "pinned/cuda_range.h"

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

void mr_cuda_range_push(const char *name)
{
    (void)nvtxRangePushA(name);
}

void mr_cuda_range_pop(void)
{
    (void)nvtxRangePop();
}

#else

void mr_cuda_range_push(const char *name)
{
    (void)name;
}

void mr_cuda_range_pop(void) {}

#endif
