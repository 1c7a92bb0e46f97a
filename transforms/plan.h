/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transform becomes for a kind of samples, a dtype and a layout: the operations and
 * everything about the output. plan_compile.h makes it once, geometry.h turns it and an image's
 * size into boxes, plan_runner.h runs it.
 *
 * Invariant: it holds no pointers, because it lies in shared memory.
 */
#ifndef TRANSFORMS_PLAN_H
#define TRANSFORMS_PLAN_H

#include "base/error.h"
#include "base/sample_kind.h"
#include "transforms/image_ops/image_op.h"
#include "transforms/interpolation.h"
#include "transforms/padding.h"

#include <millrace/transform.h>

#define MR_PLAN_MAX_OPS 64

enum mr_op_kind {
    MR_OP_RANDOM_RESIZED_CROP = 1,
    MR_OP_RESIZE_SHORT,
    MR_OP_RESIZE,
    MR_OP_CENTER_CROP,
    MR_OP_RANDOM_CROP,
    MR_OP_HFLIP,
    MR_OP_VFLIP,
    MR_OP_EXIF,
    MR_OP_NORMALIZE,
    MR_OP_RGB,
    MR_OP_RANDOM_ERASING,
    /* These mix the rows of a batch. */
    MR_OP_MIXUP,
    MR_OP_CUTMIX,
    MR_OP_MIXUP_OR_CUTMIX,
    MR_OP_TIMM_MIXUP,
    MR_OP_IMAGE, /* one of image_ops/ */
    /* Structures: of image operations and structures. */
    MR_OP_RANDOM_APPLY,
    MR_OP_RANDOM_CHOICE,
    MR_OP_RANDOM_ORDER,
    MR_OP_CHAIN /* an alternative of a choice or an order */
};

/* What random_erasing puts into its boxes. */
enum mr_erase_mode {
    MR_ERASE_CONSTANT = 0, /* `mean`, n_channels of them */
    MR_ERASE_RANDOM,       /* a normal number for each element */
    MR_ERASE_RAND          /* a normal number for each channel of a box */
};

/* A node of the list. A structure's children follow it, each with its own children behind it. */
struct mr_op {
    uint32_t kind;
    uint32_t n_children;
    uint32_t image_op; /* in mr_image_ops */
    uint32_t height;
    uint32_t width;
    uint32_t padding;
    union {
        struct {
            double p;
            double scale[2];
            double ratio[2];
            double mean[3];
            double std[3];
        };
        struct {             /* of operations that mix */
            double alpha[2]; /* of MixUp and of CutMix; 0: never */
            double mix_prob;
            double switch_prob; /* of CutMix, where both are possible */
            double smoothing;   /* of soft labels */
        };
        double args[MR_IMAGE_OP_MAX_ARGS]; /* of image_op; as long as the struct, so that no byte
                                              is undefined */
    };
    uint32_t n_channels;    /* of mean and std, and of fill where one was given */
    uint32_t exact;         /* enum mr_exact */
    uint32_t implied;       /* from a short form: applies only when the dtype is a float */
    uint32_t interpolation; /* enum mr_interpolation, of operations that resize */
    uint32_t padding_mode;  /* enum mr_padding_mode */
    uint8_t fill[4];        /* of a constant padding: red, green, blue, 0 */
    uint32_t erase_mode;    /* enum mr_erase_mode */
    uint32_t count;         /* most boxes of random_erasing */
};

/* Whose order of operations makes floats of pixels, in f32. */
enum mr_exact {
    MR_EXACT_NONE = 0, /* one fma */
    MR_EXACT_V1 = 1,   /* (x / 255 - mean) / std */
    MR_EXACT_V2 = 2    /* (x * (1 / 255) - mean) / std, as torchvision's transforms.v2 */
};

/*
 * The two divisions of an exact order as products, each of which an fma mends by what the product
 * lacks (P. W. Markstein, "Computation of elementary functions on the IBM RISC System/6000
 * processor", 1990). They give the table's bits.
 */
struct mr_quotients {
    uint32_t usable; /* 1: they do so for all 256 bytes of each channel */
    float mend;      /* 1 / 255 for x / 255; 0 for x * (1 / 255), which lacks nothing */
    float inverse[4];
    float minus_mean[4];
    float std[4];
};

struct mr_plan {
    struct mr_sample_kind kind;
    struct mr_op ops[MR_PLAN_MAX_OPS]; /* the geometric ones and those of images, in order */
    uint32_t n_ops;
    struct mr_op erase; /* what becomes of finished floats; of kind 0: nothing */
    struct mr_op mix;   /* how a batch's rows are mixed; of kind 0: not at all */
    uint32_t copy;      /* 1: a raw sample is copied as it is */
    uint32_t use_exif;
    mr_dtype dtype;     /* of the output */
    mr_layout layout;   /* of a picture's output */
    uint32_t out_known; /* 0: the output's size follows the image's; mr_plan_compile_fix_size()
                           must set it */
    uint32_t out_ndim;  /* 3 for pictures */
    int64_t out_shape[MR_MAX_NDIM - 1]; /* as laid out: C,H,W or H,W,C */
    uint64_t out_bytes;                 /* of one sample */
    uint32_t out_height;
    uint32_t out_width;
    uint32_t channels;        /* of the output: 3, or 1 for raw pictures of one channel */
    uint32_t source_channels; /* of a sample's rows */
    uint32_t work_channels;   /* of the rows before the tensor writer: 1 too where it makes three
                                 of one (MR_OP_RGB) */
    uint32_t exact;           /* floats come from table, not from fma */
    float scale[4];           /* one rule for floats: fmaf(x, scale[c], bias[c]) */
    float bias[4];
    float table[4][256];
    struct mr_quotients quotients; /* of an exact plan */
};

#endif
