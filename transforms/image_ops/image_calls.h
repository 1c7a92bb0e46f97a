/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operations of a list draw from, and the list of calls that they append to, for one
 * sample.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_CALLS_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_CALLS_H

#include "base/rng.h"
#include "transforms/image_ops/image_call_kind.h"

enum {
    MR_IMAGE_OP_WHY = 128,   /* bytes of the message that says why arguments do not go together */
    MR_IMAGE_MAX_CALLS = 256 /* of all operations of a list */
};

struct mr_image_calls {
    uint32_t n;
    struct mr_image_call calls[MR_IMAGE_MAX_CALLS];
};

/* What an operation draws from, and where its calls go. */
struct mr_image_params_source {
    const double *args; /* in the order of the parameters, a range as lo and hi */
    struct mr_rng *rng; /* the operation's own, by its place in the list */
    uint32_t width;     /* of the image as the operation sees it */
    uint32_t height;
    struct mr_image_calls *calls;
};

/* Append a call; its arguments beyond n_args are 0. */
void mr_image_calls_add(struct mr_image_calls *calls, enum mr_image_call_kind kind, uint32_t n_args,
                        const double *args);

#endif
