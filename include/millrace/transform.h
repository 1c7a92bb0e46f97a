/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms: lists of operations, in the order of torchvision's Compose. */
#ifndef MILLRACE_TRANSFORM_H
#define MILLRACE_TRANSFORM_H

#include <millrace/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_transform mr_transform;

/**
 * Make a transform from text (docs/formats.md):
 *
 *   train:224 | eval:232:224 | cifar | none
 *   random_resized_crop(224,scale=0.08:1,ratio=0.75:1.3333)+hflip(0.5)+normalize(mean=...,std=...)
 *   train(224,interp=bicubic) | eval(256:224,interp=bicubic)
 *   resnet50_v2 | vit_b_16:224 | swin_t_eval | simclr | dino_local
 *   view(global1,dino_global1)|view(global2,dino_global2)|view(local,8,dino_local) | dino
 *
 * The fourth line has recipes by name (docs/recipes.md). The last one has views: several pictures
 * of a sample from one read, each an array of the batch (docs/formats.md). The short forms and
 * recipes normalize with the mean and deviation of ImageNet (of CIFAR) if the loader's dtype is a
 * float.
 * Numbers have a decimal point in any locale. A program that computes an argument formats the text:
 *
 *   snprintf(text, sizeof text, "random_resized_crop(%u)+hflip(0.5)", size);
 *
 * error  may be NULL
 * Returns MR_OK; MR_ERR_INVALID with the position in the text; MR_ERR_NO_MEMORY.
 * Ownership: *transform_out is the caller's, to be destroyed; NULL on failure.
 */
MR_API mr_status mr_transform_parse(const char *text, mr_transform **transform_out,
                                    mr_error *error);

/** Free the transform. NULL does nothing. */
MR_API void mr_transform_destroy(mr_transform *transform);

/**
 * Append the operations of a text, in the form of mr_transform_parse(), to each view. It is for
 * programs that add to a text of their user: a later normalize replaces the one that a short form
 * implies.
 *
 * Returns MR_OK; MR_ERR_INVALID with the position in the text, MR_ERR_NO_MEMORY: the transform is
 * then unchanged.
 */
MR_API mr_status mr_transform_append(mr_transform *transform, const char *text, mr_error *error);

/** True if the transform turns image files by their EXIF orientation. False for NULL. */
MR_API bool mr_transform_turns(const mr_transform *transform);

/**
 * Write the long form of a transform: at most size bytes with the final NUL. Returns its length
 * without the NUL.
 */
MR_API size_t mr_transform_format(const mr_transform *transform, char *text_out, size_t size);

/**
 * Write how a transform runs on image files, as text for people. The text has the dtype and shape
 * of a sample, and the passes over its pixels with the operations of each pass. Shares and means
 * are over 1000 draws, which are always the same.
 *
 * width     of the image in pixels, 1 to 65535, after EXIF if the transform applies it
 * height    likewise
 * dtype     as in mr_loader_options; MR_DTYPE_DEFAULT is u8
 * layout    as in mr_loader_options
 * text_out  at most size bytes with the final NUL; NULL if size is 0
 * len_out   NULL, or receives the length of the text without the NUL
 * Returns MR_OK; MR_ERR_INVALID if the transform cannot be used with the dtype; MR_ERR_DAMAGED if
 * it cannot be applied to an image of this size; MR_ERR_NO_MEMORY.
 */
MR_API mr_status mr_transform_passes(const mr_transform *transform, uint32_t width, uint32_t height,
                                     mr_dtype dtype, mr_layout layout, char *text_out, size_t size,
                                     size_t *len_out, mr_error *error);

/** What mr_transform_explain() writes. */
typedef enum mr_explain_form {
    MR_EXPLAIN_JSON = 0,  /* one line of JSON (docs/formats.md) */
    MR_EXPLAIN_WORDS = 1, /* only the calls, for people: "hflip, posterize(bits=4)"; "" if there are
                             none */
    MR_EXPLAIN_BRIEF = 2  /* only the calls, in less space: "resized_crop 90x80+2+1, hflip,
                             posterize 4" */
} mr_explain_form;

/** Options of mr_transform_explain(): the sample, its image and its batch. */
typedef struct mr_explain_options {
    size_t struct_size;

    /* The sample */
    uint64_t seed;        /* the loader's */
    uint64_t epoch;       /* the loader's */
    int64_t index;        /* of the sample; of the substitute if the sample was damaged */
    uint32_t occurrence;  /* how often the epoch has had the index before, by repeat, by weights or
                             by an order of the caller's own; as mr_sampler_occurrence() */
    bool hole;            /* the row has no sample: calls, after and mix are null */
    bool partner_is_hole; /* the row is not mixed, because its partner has no sample */
    uint8_t reserved[2];  /* 0 */
    const char *name;     /* of the sample; NULL: "name" is null */

    /* Its image */
    uint32_t width;        /* of the decoded image in pixels, before EXIF turns it */
    uint32_t height;       /* likewise */
    uint32_t orientation;  /* EXIF's, 1 to 8; 0 means 1. Used if the transform begins with exif */
    uint32_t raw_channels; /* 0: an image file; 1 or 3: a raw image with this many channels */

    /* The batch, if the transform mixes rows */
    uint64_t batch;  /* its number in the epoch */
    uint32_t n_rows; /* its size; 0: mixing is not explained */
    uint32_t row;    /* of the sample, below n_rows */
    uint32_t rank;   /* of the loader */

    uint32_t form; /* an mr_explain_form; default: MR_EXPLAIN_JSON */

    /* The boxes of the sample, if it has some */
    const float *boxes; /* x1, y1, x2, y2 of each in pixels of the decoded image, before any
                           operation; random_iou_crop is drawn for them. NULL: the sample has no
                           boxes, and calls that change only boxes are left out */
    uint64_t n_boxes;   /* up to 65535 */
} mr_explain_options;

#define MR_EXPLAIN_OPTIONS_INIT MR_STRUCT_INIT(mr_explain_options)

/** Do as MR_EXPLAIN_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_explain_options_init(mr_explain_options *options, size_t size);

/**
 * Write how a sample is made from its image. The text lists functions of
 * torchvision.transforms.functional and of Pillow, with the arguments drawn for this sample. A few
 * lines of Python replay them (docs/formats.md). normalize is not listed. With random_erasing,
 * "after" has the boxes of the normalized tensor. If the transform mixes rows and n_rows is set,
 * "mix" has the row's partner, lambda and box, or null if the row is not mixed. With views or
 * crops, "views" has the calls of each picture. With boxes, the functions are those of
 * torchvision.transforms.v2.functional.
 *
 * transform  NULL: the loader's default
 * options    set at least width and height, except for a hole
 * text_out   at most size bytes with the final NUL, without a newline; NULL only measures
 * len_out    NULL, or receives the text's length without the NUL
 *
 * Returns MR_OK; MR_ERR_INVALID (an option, or a transform that cannot be used for such samples);
 * MR_ERR_DAMAGED if the image cannot be cropped or resized in this way; MR_ERR_NO_MEMORY.
 * Threads: any.
 */
MR_API mr_status mr_transform_explain(const mr_transform *transform,
                                      const mr_explain_options *options, char *text_out,
                                      size_t size, size_t *len_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
