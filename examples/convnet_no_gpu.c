/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces convnet_cuda.c in a build of the examples without cuBLAS. */
#include "convnet_math.h"

const struct convnet_math *convnet_gpu(void)
{
    return NULL;
}
