/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call: a function of torchvision.transforms.functional with its arguments, after all draws. For
 * each sample the operations of a list become calls (image_op.h). Only calls touch pixels.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_CALL_KIND_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_CALL_KIND_H

#include "base/error.h"
#include "transforms/image_ops/image.h"

struct mr_kernel_ops;

enum mr_image_call_kind {
    MR_CALL_INVERT,
    MR_CALL_POSTERIZE,
    MR_CALL_SOLARIZE,
    MR_CALL_SOLARIZE_ADD,
    MR_CALL_AUTOCONTRAST,
    MR_CALL_EQUALIZE,
    MR_CALL_GRAYSCALE,
    MR_CALL_BRIGHTNESS,
    MR_CALL_CONTRAST,
    MR_CALL_SATURATION,
    MR_CALL_HUE,
    MR_CALL_SHARPNESS,
    MR_CALL_GAUSSIAN_BLUR,
    MR_CALL_PIL_GAUSSIAN_BLUR,
    MR_CALL_ROTATE,
    MR_CALL_AFFINE,
    MR_CALL_PERSPECTIVE,
    MR_CALL_PIL_AFFINE,
    MR_CALL_HFLIP,
    MR_CALL_VFLIP,
    MR_CALL_PERMUTE_CHANNELS,
    MR_CALL_JPEG,
    MR_CALL_AFFINE_V2, /* the same with v2's arithmetic, whose places may differ in the last bit */
    /* On tensors (image_tensor.h). */
    MR_CALL_TENSOR_BRIGHTNESS,
    MR_CALL_TENSOR_CONTRAST,
    MR_CALL_TENSOR_SATURATION,
    MR_CALL_TENSOR_SHARPNESS,
    MR_CALL_TENSOR_AUTOCONTRAST,
    MR_CALL_TENSOR_ROTATE,
    MR_CALL_TENSOR_AFFINE,
    /* A mixture of chains of calls (image_mix.h): a start, each chain after a MIX_CHAIN, an end. */
    MR_CALL_MIX_START,
    MR_CALL_MIX_CHAIN,
    MR_CALL_MIX_END,
    MR_CALL_ROTATE_EXPAND, /* the image becomes as large as the turned one */
    MR_N_CALL_KINDS
};

#define MR_CALL_MAX_ARGS 13

struct mr_image_call {
    uint32_t kind; /* enum mr_image_call_kind */
    double args[MR_CALL_MAX_ARGS];
};

/* Maps a byte to a byte, by channel. An image with one channel uses the first row alone. */
struct mr_image_table {
    uint8_t bytes[3][256];
};

#endif
