/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes by name: short forms that stand for longer texts of a transform, as a paper or
 * torchvision's references compose them. They contain only what is done to a single
 * image: no erasing, no mixing.
 */
#ifndef TRANSFORMS_TEXT_TRANSFORM_RECIPE_H
#define TRANSFORMS_TEXT_TRANSFORM_RECIPE_H

#include <stddef.h>
#include <stdint.h>

enum { MR_TRANSFORM_RECIPE_MAX_TEXT = 1024 };

struct mr_transform_recipe {
    const char *name;
    const char *text; /* see mr_transform_recipe_expand() */
    uint32_t size;    /* of the crop, if none is given; 0: the recipe has no size */
    uint32_t resized; /* the shorter side before an evaluation's crop; 0 for training */
};

/* The table of mr_transform_recipe_count recipes. */
extern const struct mr_transform_recipe mr_transform_recipes[];
extern const uint32_t mr_transform_recipe_count;

/* The recipe of that name, in upper or lower case; NULL if there is none. */
const struct mr_transform_recipe *mr_transform_recipe_find(const char *name);

/*
 * Write the recipe's text with its sizes: '@' is the crop's, '#' the side before the crop, '%' a
 * blur's kernel of a tenth of the crop's height. An evaluation's crop is square.
 */
void mr_transform_recipe_expand(const struct mr_transform_recipe *recipe, uint32_t height,
                                uint32_t width, uint32_t resized,
                                char text_out[MR_TRANSFORM_RECIPE_MAX_TEXT]);

#endif
