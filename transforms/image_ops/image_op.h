/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image operations that a transform's text may name: their parameters with ranges and defaults,
 * and how they draw calls (image_call_kind.h) for a sample. Names, defaults and distributions are
 * torchvision v1's.
 *
 * A new operation is an entry of the table in image_op.c. Parsing, checks, the text form and draws
 * use that entry.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_OP_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_OP_H

#include "transforms/image_ops/image_calls.h"

enum {
    MR_IMAGE_OP_MAX_PARAMS = 10,
    MR_IMAGE_OP_MAX_ARGS =
        16 /* doubles of all parameters; at least as many as a geometric operation has (plan.h) */
};

enum mr_image_param_kind {
    MR_PARAM_NUMBER,
    MR_PARAM_INTEGER,
    MR_PARAM_CHANNELS, /* 1 or 3 */
    MR_PARAM_ODD,      /* a whole number */
    MR_PARAM_RANGE,    /* two numbers, lo:hi; one number v is center - v : center + v, cut off at
                          `lo` */
    MR_PARAM_SPAN,     /* two numbers, lo:hi; one number v is v:v */
    MR_PARAM_WORD,     /* one of `words`, stored as its index */
    MR_PARAM_PAIR,     /* two numbers, x:y */
    MR_PARAM_RANGES,   /* two ranges, lo:hi:lo:hi; of one, lo:hi, the second is NaN; one number v
                          is -v:v */
    MR_PARAM_COLOR,    /* three whole numbers, r:g:b; one number v is v:v:v */
    MR_PARAM_POLICY    /* a policy of timm in quotes, as the doubles of image_timm.h */
};

struct mr_image_param {
    const char *name;       /* torchvision's */
    const char *short_name; /* NULL, or a shorter name that the text may use as well */
    uint32_t kind;          /* enum mr_image_param_kind */
    double lo;              /* each number is from lo to hi, both included */
    double hi;
    double center;      /* of MR_PARAM_RANGE */
    double defaults[3]; /* a range and a span have two, a color has three */
    bool required;
    bool optional;            /* NaN if it is not given */
    const char *const *words; /* of MR_PARAM_WORD, up to NULL */
};

struct mr_image_op {
    const char *name;
    uint32_t max_calls;
    bool repeats; /* the first parameter says how often max_calls are drawn */
    uint32_t (*count_calls)(const double *args); /* may be NULL; the most calls, if that depends */
    bool sets_channels; /* the first parameter is the number of channels of the image from here
                           on */
    struct mr_image_param params[MR_IMAGE_OP_MAX_PARAMS]; /* up to the first without a name */
    /* May be NULL. True, with the reason, if the arguments do not go together. */
    bool (*refuse)(const double *args, char why_out[MR_IMAGE_OP_WHY]);
    /* Append at most mr_image_op_max_calls() calls. */
    void (*draw)(struct mr_image_params_source *draw);
    /*
     * May be NULL. MR_ERR_DAMAGED, with the reason, if images of that size cannot be changed this
     * way.
     */
    mr_status (*check)(const double *args, int64_t width, int64_t height, mr_error *error);
};

/* The table of mr_image_op_count operations. */
extern const struct mr_image_op mr_image_ops[];
extern const uint32_t mr_image_op_count;

/* Doubles of a parameter, 1 to 7. */
uint32_t mr_image_op_width(const struct mr_image_param *param);

/* Does the size of the image after mr_image_ops[which] depend on draws? */
bool mr_image_op_draws_size(uint32_t which, const double *args);

/* The most calls of mr_image_ops[which] with those arguments. */
uint32_t mr_image_op_max_calls(uint32_t which, const double *args);

#endif
