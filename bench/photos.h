/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The photographs of a benchmark: a dataset's JPEG files in one shuffled order, with their bytes in
 * memory and the boxes of train:224 (seed 0, epoch 0), so that all benchmarks do the same work.
 */
#ifndef BENCH_PHOTOS_H
#define BENCH_PHOTOS_H

#include "dataset/dataset.h"
#include "transforms/geometry.h"
#include "transforms/plan_runner.h"

extern const struct mr_codec_limits mr_photos_limits;

struct mr_photo {
    int64_t index; /* in the dataset */
    uint8_t *bytes;
    size_t len;
    uint32_t width;
    uint32_t height;
    struct mr_stage stage; /* the only stage of train:224: box, flip */
    char *path;            /* relative to mr_catalog_root(), or absolute */
    uint64_t box_sum;      /* hash of the box's pixels, decoded by bench/roi_decode.c */
};

struct mr_photos {
    mr_dataset *dataset;
    struct mr_plan plan;    /* train:224, u8, NCHW */
    struct mr_plan bicubic; /* the same with interp=bicubic */
    uint64_t n;
    struct mr_photo *photo; /* in shuffled order */
    uint64_t total_bytes;
    /* Files that are not JPEGs of one or three components, or do not decode. */
    uint64_t n_left_out;
};

/* Load the first photographs of the shuffled order, at most max_photos. */
mr_status mr_photos_load(const char *spec, uint64_t max_photos, struct mr_photos *photos_out,
                         mr_error *error);
void mr_photos_free(struct mr_photos *photos);

#endif
