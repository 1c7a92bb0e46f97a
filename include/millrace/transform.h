/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transforms: a list of operations in the order in which torchvision would compose them.
 */
#ifndef MILLRACE_TRANSFORM_H
#define MILLRACE_TRANSFORM_H

#include <millrace/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_transform mr_transform;

/**
 * Make an empty list of operations. The functions below append to it; each returns MR_OK,
 * MR_ERR_INVALID or MR_ERR_NO_MEMORY. error may be NULL.
 *
 * Returns MR_OK; MR_ERR_INVALID, MR_ERR_NO_MEMORY.
 * Ownership: *transform_out is the caller's, to be destroyed.
 */
MR_API mr_status mr_transform_create(mr_transform **transform_out, mr_error *error);
/** Free the transform. NULL does nothing. */
MR_API void mr_transform_destroy(mr_transform *transform);

/**
 * Make a transform from text (docs/formats.md):
 *
 *   train:224 | eval:232:224 | cifar | none
 *   random_resized_crop(224,scale=0.08:1,ratio=0.75:1.3333)+hflip(0.5)+normalize(mean=0.485:0.456:0.406,std=...)
 *   train(224,interp=bicubic) | eval(256:224,interp=bicubic)
 *   resnet50_v2 | vit_b_16:224 | swin_t_eval | simclr | dino_local    (recipes by name:
 * docs/recipes.md)
 *
 * The short forms include ImageNet's (CIFAR's) mean and deviation, which apply if the loader's
 * dtype is a float.
 * Returns MR_OK, or MR_ERR_INVALID with the position in the text.
 */
MR_API mr_status mr_transform_parse(const char *text, mr_transform **transform_out,
                                    mr_error *error);

/**
 * Append the operations of a text, in the form of mr_transform_parse(). Some arguments have no
 * other form:
 *
 *   mr_transform_append(transform,
 * "random_resized_crop(224,interp=bicubic)+color_jitter(0.4,0.4,0.4)", &error);
 *
 * Returns MR_OK, or MR_ERR_INVALID with the position in the text; the transform is then as it was.
 */
MR_API mr_status mr_transform_append(mr_transform *transform, const char *text, mr_error *error);

/**
 * Write the long form of a transform: at most size bytes with the final NUL. Returns its length
 * without the NUL. /
 */
MR_API size_t mr_transform_format(const mr_transform *transform, char *text_out, size_t size);

/**
 * Write how a transform runs on image files, as text for people: the type and shape of a sample,
 * and the passes over its pixels with the operations that each one makes. Shares and means are of
 * 1000 draws, which are always the same.
 *
 * width, height  of the image, 1 to 65535, upright where the transform turns it
 * dtype, layout  as in mr_loader_options; MR_DTYPE_DEFAULT is u8
 * text_out  at most size bytes with the final NUL; NULL if size is 0
 * len_out  the length of the text without the NUL; may be NULL
 * Returns MR_OK; MR_ERR_INVALID if the transform does not suit the dtype; MR_ERR_DAMAGED if it does
 * not suit an image of this size; MR_ERR_NO_MEMORY.
 */
MR_API mr_status mr_transform_passes(const mr_transform *transform, uint32_t width, uint32_t height,
                                     mr_dtype dtype, mr_layout layout, char *text_out, size_t size,
                                     size_t *len_out, mr_error *error);

/**
 * torchvision's RandomResizedCrop: a crop of scale_lo to scale_hi of the image's area and of aspect
 * ratio ratio_lo to ratio_hi, resized to height x width pixels.
 */
MR_API mr_status mr_transform_random_resized_crop(mr_transform *transform, uint32_t height,
                                                  uint32_t width, double scale_lo, double scale_hi,
                                                  double ratio_lo, double ratio_hi,
                                                  mr_error *error);
/** torchvision's Resize(int): the shorter side becomes size pixels; the aspect ratio stays. */
MR_API mr_status mr_transform_resize_short(mr_transform *transform, uint32_t size, mr_error *error);
/** torchvision's Resize((h, w)). */
MR_API mr_status mr_transform_resize(mr_transform *transform, uint32_t height, uint32_t width,
                                     mr_error *error);
/** torchvision's CenterCrop; a smaller image is padded with zeros. */
MR_API mr_status mr_transform_center_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                          mr_error *error);
/**
 * torchvision's RandomCrop, after padding pixels of zeros on every side. A smaller image makes the
 * sample damaged. Other paddings have no function: mr_transform_append(transform,
 * "random_crop(32,padding=4,padding_mode=reflect)").
 */
MR_API mr_status mr_transform_random_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                          uint32_t padding, mr_error *error);
/** Flip the image with probability p, 0 to 1. */
MR_API mr_status mr_transform_hflip(mr_transform *transform, double p, mr_error *error);
MR_API mr_status mr_transform_vflip(mr_transform *transform, double p, mr_error *error);
/**
 * Turn the image upright by its EXIF orientation; must come first. Without it nothing turns, as in
 * torchvision.
 */
MR_API mr_status mr_transform_exif(mr_transform *transform, mr_error *error);
/** Does it turn image files by their EXIF orientation? NULL does not. */
MR_API bool mr_transform_turns(const mr_transform *transform);
/**
 * torchvision's v2.RGB, grayscale to RGB: the one channel of a raw picture becomes three equal
 * ones. It may stand anywhere in the list, and normalize may then have three means. Files are RGB
 * already, so they do not change.
 */
MR_API mr_status mr_transform_rgb(mr_transform *transform, mr_error *error);
/**
 * Normalize each channel: (x / 255 - mean) / std, computed as fma(x, scale, bias). Must come last,
 * but for random_erasing and mixing, which mr_transform_append() appends.
 * n_channels  1 or 3, the entries of mean and std
 * exact  in torchvision's order of operations instead, with its three roundings
 */
MR_API mr_status mr_transform_normalize(mr_transform *transform, uint32_t n_channels,
                                        const double *mean, const double *std, bool exact,
                                        mr_error *error);

/** What mr_transform_explain() writes. */
typedef enum mr_explain_form {
    MR_EXPLAIN_JSON = 0,  /* a line of JSON, docs/formats.md */
    MR_EXPLAIN_WORDS = 1, /* the calls alone, for people: "hflip, posterize(bits=4)"; "" where
                             there are none */
    MR_EXPLAIN_BRIEF = 2  /* the same for narrow places: "resized_crop 90x80+2+1, hflip,
                             posterize 4" */
} mr_explain_form;

/** Options of mr_transform_explain(): more about the sample. */
typedef struct mr_explain_options {
    size_t struct_size;
    const char *name;      /* of the sample; NULL: null */
    uint32_t orientation;  /* EXIF's, 1 to 8; 0: 1. It counts where the transform begins with
                              exif */
    uint32_t raw_channels; /* 0: an image file; 1 or 3: a raw picture of so many channels */
    bool hole;             /* no sample came: calls, after and mix are null */
    mr_explain_form form;

    /* Of the batch, where the transform mixes its rows */
    uint64_t batch;  /* its number in the epoch */
    uint32_t n_rows; /* its size; 0: mixing is not explained */
    uint32_t row;    /* the sample's, below n_rows */
    uint32_t rank;
    uint32_t partner_is_hole; /* 1: the row stays as it is, because no sample came for its
                                 partner */
} mr_explain_options;

#define MR_EXPLAIN_OPTIONS_INIT MR_STRUCT_INIT(mr_explain_options)

/**
 * Write how a sample is made of its image: functions of torchvision.transforms.functional and of
 * Pillow, with the arguments that this sample drew. A few lines of Python replay them,
 * docs/formats.md. normalize is not among them. With random_erasing the boxes of the normalized
 * tensor follow, as "after"; where rows are mixed and n_rows is set, the row's partner, lambda and
 * box, as "mix", or null where the row stays as it is.
 *
 * transform   NULL: the loader's default
 * seed        the loader's
 * index       of the sample; for a stand-in of a damaged one, the stand-in's
 * occurrence  how often the epoch had the index before, by repeat, by weights or by an order of the
 *             caller's own
 * width       of the decoded image in pixels, before EXIF turns it; height likewise
 * options     NULL: all defaults
 * text_out    at most size bytes with the final NUL, without a newline; NULL only measures
 * len_out     NULL, or receives the text's length without the NUL
 *
 * Returns MR_OK; MR_ERR_INVALID (an option, or the transform does not suit such samples);
 * MR_ERR_DAMAGED if the image cannot be cropped or resized so; MR_ERR_NO_MEMORY.
 * Threads: any.
 */
MR_API mr_status mr_transform_explain(const mr_transform *transform, uint64_t seed, uint64_t epoch,
                                      int64_t index, uint64_t occurrence, uint32_t width,
                                      uint32_t height, const mr_explain_options *options,
                                      char *text_out, size_t size, size_t *len_out,
                                      mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
