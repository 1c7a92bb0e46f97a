/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transform becomes for one kind of samples, one dtype and one layout: its operations and a
 * description of the output. plan_compile.h makes the plan once, geometry.h turns it and an image's
 * size into boxes, plan_runner.h runs it.
 *
 * Invariant: a plan holds no pointers, because it is in shared memory.
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
    MR_OP_RANDOM_RESIZE, /* of the shorter side, from height to width - 1 */
    MR_OP_CENTER_CROP,
    MR_OP_PATCH_CROP, /* begins at a multiple of a patch's side */
    MR_OP_RANDOM_CROP,
    MR_OP_RANDOM_IOU_CROP, /* drawn for the boxes of the sample */
    MR_OP_PAD,
    MR_OP_PAD_IF_SMALLER, /* at the right and at the bottom */
    MR_OP_RANDOM_SHORTEST_SIZE,
    MR_OP_SCALE_JITTER,
    MR_OP_FIXED_SIZE_CROP,
    MR_OP_RANDOM_ZOOM_OUT,
    MR_OP_LETTERBOX,
    MR_OP_FIVE_CROP, /* corners and center, one for each picture of a view */
    MR_OP_TEN_CROP,  /* these, then those of the flipped image */
    MR_OP_HFLIP,
    MR_OP_VFLIP,
    MR_OP_EXIF,
    MR_OP_NORMALIZE,
    MR_OP_RGB,
    MR_OP_MASK,     /* says how masks are made; moves nothing */
    MR_OP_SANITIZE, /* removes boxes; moves nothing */
    MR_OP_RANDOM_ERASING,
    /* These mix the rows of a batch. */
    MR_OP_MIXUP,
    MR_OP_CUTMIX,
    MR_OP_MIXUP_OR_CUTMIX,
    MR_OP_TIMM_MIXUP,
    MR_OP_IMAGE, /* an operation of image_ops/ */
    /* Structures. Their children are image operations and structures. */
    MR_OP_RANDOM_APPLY,
    MR_OP_RANDOM_CHOICE,
    MR_OP_RANDOM_ORDER,
    MR_OP_CHAIN /* one alternative of a random_choice or a random_order */
};

/* What random_erasing writes into its boxes. */
enum mr_erase_mode {
    MR_ERASE_CONSTANT = 0, /* `mean`, n_channels values */
    MR_ERASE_RANDOM,       /* a normal number for each element */
    MR_ERASE_RAND          /* a normal number for each channel of a box */
};

/* A node of the list. A structure's children follow it, each followed by its own children. */
struct mr_op {
    uint32_t kind;
    uint32_t n_children;
    uint32_t image_op; /* index in mr_image_ops */
    uint32_t height;
    uint32_t width;
    union {
        uint32_t padding;
        uint32_t n_sizes; /* of MR_OP_RANDOM_SHORTEST_SIZE */
    };
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
        struct { /* of MR_OP_SANITIZE: boxes below these are removed */
            double min_size;
            double min_area;
        };
        double border[4];                   /* of MR_OP_PAD: left, top, right, bottom */
        double sizes[MR_IMAGE_OP_MAX_ARGS]; /* n_sizes of them */
        double args[MR_IMAGE_OP_MAX_ARGS];  /* of image_op; as long as the structs above, so no byte
                                               is undefined */
    };
    uint32_t n_channels;    /* of mean and std, and of fill if it was given */
    uint32_t exact;         /* enum mr_exact */
    uint32_t implied;       /* from a short form: applies only if the dtype is a float */
    uint32_t interpolation; /* enum mr_interpolation, of operations that resize */
    uint32_t padding_mode;  /* enum mr_padding_mode */
    uint8_t fill[4];        /* of a constant padding: red, green, blue, 0 */
    uint32_t erase_mode;    /* enum mr_erase_mode */
    union {
        uint32_t count;         /* of random_erasing: the largest number of boxes; of
                                   random_iou_crop: trials for each option */
        uint32_t max_size;      /* of the longer side, of MR_OP_RESIZE_SHORT and
                                   MR_OP_RANDOM_SHORTEST_SIZE; 0: any */
        uint32_t patch;         /* of MR_OP_PATCH_CROP */
        uint32_t vertical;      /* of MR_OP_TEN_CROP: 1: the flip is vertical */
        uint32_t pad_if_needed; /* of random_crop: 1: an image that is too small is padded */
        uint32_t mask_dtype;    /* of MR_OP_MASK, whose fill is `padding`, and whose enum
                                   mr_mask_nearest is `interpolation` */
    };
};

enum { MR_MAX_VIEWS = 8, MR_MAX_PICTURES = 64, MR_VIEW_NAME = 24 };

/* Which pictures of a sample a plan makes: those of one view. */
struct mr_view {
    char name[MR_VIEW_NAME]; /* "": the transform has no views */
    uint64_t name_hash;
    uint32_t first; /* the number of the first picture; others follow */
    uint32_t n_pictures;
    uint32_t is_row;  /* 1: a row of a batch has a dimension for the pictures */
    uint32_t n_crops; /* 5 and 10: five_crop and ten_crop give a picture each; otherwise 0 */
    /* Of the plan's operations, structures with what is in them. */
    uint32_t n_shared; /* the first ones: drawn once for all views of a sample */
    uint32_t n_inside; /* those after them: drawn as in a picture of another view */
    uint64_t inside_hash;
    uint32_t inside_picture;
    uint32_t spare;
};

/* Which index of a mask a resize takes. */
enum mr_mask_nearest {
    MR_MASK_NEAREST_TORCH, /* floor(i * f32(in / out)), as torchvision.transforms.v2 */
    MR_MASK_NEAREST_PIL,   /* Pillow's floor((i + 0.5) * in / out) */
    MR_N_MASK_NEARESTS
};

/* How the first further member of a sample that has no boxes becomes its mask. */
struct mr_mask_rule {
    uint32_t is_used; /* 0: samples have no masks */
    uint32_t dtype;   /* mr_dtype: MR_U8, MR_I16, MR_I64 */
    uint32_t nearest; /* enum mr_mask_nearest */
    uint32_t fill;    /* of a border */
};

/* The order of the f32 operations that make floats from pixels. */
enum mr_exact {
    MR_EXACT_NONE = 0, /* one fma */
    MR_EXACT_V1 = 1,   /* (x / 255 - mean) / std */
    MR_EXACT_V2 = 2,   /* (x * (1 / 255) - mean) / std, as torchvision.transforms.v2 */
    /* The same, and each step is rounded to f16 or bf16, as torch computes in these dtypes. */
    MR_EXACT_V1_HALF = 3,
    MR_EXACT_V2_HALF = 4,
    MR_N_EXACT
};

/*
 * The two divisions of an exact order, computed as products. One fma corrects the error of each
 * product (P. W. Markstein, "Computation of elementary functions on the IBM RISC System/6000
 * processor", 1990). The results equal the table's bits.
 */
struct mr_quotients {
    uint32_t usable; /* 1: they equal the divisions for all 256 bytes of each channel */
    float mend;      /* 1 / 255 for x / 255; 0 for x * (1 / 255), which needs no correction */
    float inverse[4];
    float minus_mean[4];
    float std[4];
};

/* What becomes of a further member of a sample. */
enum mr_member_use {
    MR_MEMBER_BYTES, /* a column of its own */
    MR_MEMBER_MASK,
    MR_MEMBER_BOXES
};

struct mr_plan {
    struct mr_sample_kind kind;
    struct mr_view view;
    struct mr_op ops[MR_PLAN_MAX_OPS]; /* of geometry and of images, in order */
    uint32_t n_ops;
    struct mr_op erase; /* applied to finished floats; kind 0: none */
    struct mr_op mix;   /* how a batch's rows are mixed; kind 0: not at all */
    struct mr_mask_rule mask;
    uint32_t takes_mask; /* 1: samples have masks, for this view or, if it is the first one, for
                            another */
    uint32_t draws_for_boxes; /* 1: draws depend on the boxes of the sample */
    uint32_t copy;            /* 1: a raw sample is copied unchanged */
    uint32_t use_exif;
    mr_dtype dtype;     /* of the output */
    mr_layout layout;   /* of a picture's output */
    uint32_t out_known; /* 0: the output's size follows the image's until mr_plan_compile_fix_size()
                           sets it */
    uint32_t out_ndim;  /* 3 for pictures */
    int64_t out_shape[MR_MAX_NDIM - 1]; /* as laid out: C,H,W or H,W,C */
    uint64_t out_bytes;                 /* of one picture; the most, if it keeps its size */
    uint32_t keeps_size; /* 1: each picture has the size that its operations give it */
    uint32_t max_side;   /* of such a picture; 0: only out_bytes limits it */
    uint32_t out_height;
    uint32_t out_width;
    uint32_t channels;        /* of the output: 3, or 1 for raw pictures of one channel */
    uint32_t source_channels; /* of a sample's rows */
    uint32_t work_channels;   /* of the rows before the tensor writer; 1 also if the writer makes
                                 three channels of one (MR_OP_RGB) */
    uint32_t exact;           /* 1: floats come from table, not from fma */
    float scale[4];           /* one rule for floats: fmaf(x, scale[c], bias[c]) */
    float bias[4];
    float table[4][256];
    struct mr_quotients quotients; /* of an exact plan */
};

/* The bytes of a mask of one picture of the output. */
static inline uint64_t mr_plan_mask_bytes(const struct mr_plan *plan)
{
    return (uint64_t)plan->out_height * plan->out_width * mr_dtype_size((mr_dtype)plan->mask.dtype);
}

/* Of member i of the samples; plan is that of the first view. */
static inline enum mr_member_use mr_plan_member_use(const struct mr_plan *plan, uint32_t i)
{
    uint32_t boxes = plan->kind.boxes; /* 1 + the index */
    if (boxes == i + 1)
        return MR_MEMBER_BOXES;
    return plan->takes_mask && i == (boxes == 1) ? MR_MEMBER_MASK : MR_MEMBER_BYTES;
}

#endif
