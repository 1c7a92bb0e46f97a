/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to a sample's list of calls. */
#include "transforms/image_ops/image_calls.h"

#include <assert.h>
#include <string.h>

void mr_image_calls_add(struct mr_image_calls *calls, enum mr_image_call_kind kind, uint32_t n_args,
                        const double *args)
{
    assert(calls->n < MR_IMAGE_MAX_CALLS && n_args <= MR_CALL_MAX_ARGS);
    struct mr_image_call *call = &calls->calls[calls->n++];
    *call = (struct mr_image_call){.kind = kind};
    if (n_args)
        memcpy(call->args, args, n_args * sizeof *args);
}
