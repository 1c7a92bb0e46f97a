/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kinds of calls do, and how a list of calls runs.
 *
 * A new call: a kind in image_call_kind.h, an entry of the table in image_call.c with its
 * arguments, and a function in the file of its family.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_CALL_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_CALL_H

#include "transforms/image_ops/image_call_kind.h"

/* How an argument is written. A call's arguments follow each other in `args`. */
enum mr_image_arg_kind {
    MR_ARG_NUMBER,
    MR_ARG_INTEGER,
    MR_ARG_FILTER, /* enum mr_interpolation; Pillow's integer in JSON */
    MR_ARG_FILL, /* three integers, one for each channel; an image of one channel uses the first */
    MR_ARG_WORD, /* one of `words`, by its index */
    /* These take nothing from `args`. */
    MR_ARG_SIZE,    /* width and height of the image */
    MR_ARG_CONSTANT /* always the integer `value` */
};

#define MR_CALL_MAX_NAMED 8

struct mr_image_arg {
    const char *name; /* torchvision's keyword */
    uint32_t kind;    /* enum mr_image_arg_kind */
    uint32_t n;       /* of a list; 0: one value, not in a list */
    bool optional;    /* not written if it is NaN */
    bool is_neutral;  /* the call changes nothing if each such argument equals its `value` */
    double value;
    const char *const *words;
};

/*
 * What a kind of call does. One of table, change and make is set, or mixes. Values of a call after
 * those of its arguments are not written. None but jpeg allocates. Several
 * threads may call them with different images. Images of 1 x 1 pixels are allowed. With one channel
 * they do the same as with three equal ones.
 */
struct mr_image_call_ops {
    const char *name; /* in torchvision.transforms.functional, otherwise PIL.*, v2.* or timm.* */
    struct mr_image_arg args[MR_CALL_MAX_NAMED]; /* up to the first without a name */
    /* Maps bytes to bytes by channel. Calls with a table that follow each other fold into one. */
    void (*table)(const struct mr_image_call *call, const struct mr_image *image,
                  const struct mr_kernel_ops *kernels, struct mr_image_table *table_out);
    bool looks; /* table reads the image's pixels; otherwise it reads the number of channels only */
    bool mixes; /* one of MR_CALL_MIX_* */
    /* In place. */
    void (*change)(const struct mr_image_call *call, struct mr_image *image,
                   const struct mr_kernel_ops *kernels);
    /*
     * From one image into another of the same size, whose pixels are undefined before. `from` may
     * be overwritten. MR_ERR_DAMAGED, with the reason, if the image does not suit the call;
     * MR_ERR_NO_MEMORY.
     */
    mr_status (*make)(const struct mr_image_call *call, struct mr_image *from, struct mr_image *to,
                      const struct mr_kernel_ops *kernels, mr_error *error);
};

/* By enum mr_image_call_kind. */
extern const struct mr_image_call_ops mr_image_call_ops[MR_N_CALL_KINDS];

/*
 * How many images of memory mr_image_call_run() needs beside the image: one if a call has a make,
 * MR_IMAGE_MIX_SPARES if calls mix, otherwise none.
 */
uint32_t mr_image_call_count_spares(const struct mr_image_call *calls, uint32_t n_calls);

/*
 * The number of walks over the image in mr_image_call_run(). A call's function counts as one walk,
 * even if it reads the image several times.
 */
uint32_t mr_image_call_count_walks(const struct mr_image_call *calls, uint32_t n_calls);

/*
 * Run the calls in order. spare_pixels: as many bytes as mr_image_call_count_spares() images have,
 * or NULL if that is 0. On return image->pixels is its own buffer, or the first of the spares.
 */
mr_status mr_image_call_run(const struct mr_image_call *calls, uint32_t n_calls,
                            struct mr_image *image, uint8_t *spare_pixels,
                            const struct mr_kernel_ops *kernels, mr_error *error);

#endif
