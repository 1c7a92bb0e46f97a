/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges by NVTX, which is headers only and finds the profiler by itself; the double of the runtime comes without them.
 * Easy to get wrong: those headers define functions in every file that includes them, so that this one is alone.
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
