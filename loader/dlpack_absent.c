/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces dlpack.c if <dlpack/dlpack.h> was missing at build time. */
#include "loader/core.h"

mr_status mr_batch_to_dlpack(mr_batch *batch, const char *name, void *stream, struct DLManagedTensor **tensor_out)
{
    (void)name;
    (void)stream;
    if (tensor_out)
        *tensor_out = NULL;
    if (!batch)
        return MR_ERR_INVALID;
    return mr_error_set(&batch->error, MR_ERR_UNSUPPORTED, "this build has no DLPack");
}
