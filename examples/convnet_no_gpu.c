/* SPDX-License-Identifier: Apache-2.0 */
/* In place of convnet_cuda.c where the examples are built without cuBLAS. */
#include "examples/convnet_math.h"

const struct convnet_math *convnet_gpu(void)
{
    return NULL;
}
