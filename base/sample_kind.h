/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the samples of a dataset are. The dataset fills it in; transforms are compiled for it.
 * Workers get a copy in shared memory, so it holds no pointers.
 */
#ifndef BASE_SAMPLE_KIND_H
#define BASE_SAMPLE_KIND_H

#include <millrace/batch.h>

#define MR_MAX_EXTRA 3 /* byte arrays beside image and label */
#define MR_EXTRA_NAME 32

/*
 * Bytes that come with each sample, as they are: a row of its own length in an array of the batch.
 */
struct mr_extra {
    char name[MR_EXTRA_NAME];         /* of the array */
    char offsets[MR_EXTRA_NAME + 16]; /* of the array that says where rows begin */
    uint64_t max_bytes;               /* of a row */
};

struct mr_sample_kind {
    uint32_t encoded; /* 1: bytes of an image file, of any size; the fields up to data_bytes are
                         then zero */
    uint32_t picture; /* 1: encoded, or raw u8 of 3 dimensions with 1 or 3 channels: image
                         transforms apply */
    mr_dtype dtype;   /* of a raw sample's elements */
    uint32_t ndim;    /* of a raw sample, without the batch dimension */
    int64_t shape[MR_MAX_NDIM - 1];
    mr_layout layout;     /* of a raw picture: MR_NCHW means shape is C,H,W; MR_NHWC means H,W,C */
    uint64_t data_bytes;  /* of a raw sample */
    mr_dtype label_dtype; /* MR_I64 with label_ndim 0 for one integer */
    uint32_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
    uint64_t label_bytes; /* of one label as delivered: 8 for an integer */
    uint32_t n_extra;
    uint32_t spare;
    struct mr_extra extra[MR_MAX_EXTRA];
};

#endif
