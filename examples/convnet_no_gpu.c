/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces convnet_cuda.c if the examples are built without cuBLAS. */
#include "convnet_math.h"

const struct convnet_math *convnet_gpu(void)
{
    return NULL;
}
