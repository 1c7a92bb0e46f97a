/* SPDX-License-Identifier: Apache-2.0 */
/* The input of finishing: how every sample is finished, and the work of one part of a batch. */
#ifndef PINNED_FINISH_JOB_H
#define PINNED_FINISH_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/erasing.h"
#include "base/mix.h"
#include <millrace/batch.h>

#define MR_FINISH_CHANNELS 4

/* How every sample of a loader is finished. Constant. */
struct mr_finish {
    uint32_t needed; /* 0: the copy is lent as it is, and the other fields are not used */
    uint32_t height; /* of the pixels in the slot and of the output */
    uint32_t width;
    uint32_t channels;     /* of the pixels in the slot: 1, 3 or 4 */
    uint32_t out_channels; /* of the output; those that the pixels lack are zero */
    uint32_t layout;       /* mr_layout */
    uint32_t dtype;        /* mr_dtype: MR_U8, MR_F32, MR_F16, MR_BF16 */
    uint32_t exact;        /* floats come from the table, not from fma */
    uint32_t erases;       /* boxes of the floats are erased */
    uint32_t mixes;        /* rows are mixed */
    /* fmaf(x, scale[c], bias[c]), rounded to nearest even for 16 bits */
    float scale[MR_FINISH_CHANNELS];
    float bias[MR_FINISH_CHANNELS];
    float table[MR_FINISH_CHANNELS][256];
};

/* The work of one part of a batch. Pointers are the device's own, except finish. */
struct mr_finish_job {
    const struct mr_finish *finish;
    const float *tables; /* a copy of finish->table on the device */
    /* If finish->erases: a copy of mr_normal_nodes on the device. */
    const float *normals;
    const uint8_t *mask;           /* n of them; 0: a hole, which becomes zeros */
    const struct mr_erase *erases; /* n of them, if finish->erases */
    uint32_t n;
    const uint8_t *staging; /* n x height x width x channels: u8 pixels */
    void *out;
    /* What was drawn, if finish->mixes; then the job has all rows of a batch, in their places. */
    struct mr_mix mix;
};

#endif
