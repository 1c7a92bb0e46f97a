/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the arguments that several operations have. An output stays as it is if its argument is not
 * given. MR_ERR_INVALID names the character.
 */
#ifndef TRANSFORMS_TEXT_TEXT_ARGS_H
#define TRANSFORMS_TEXT_TEXT_ARGS_H

#include "transforms/text/text_parser.h"

/* A whole number from lo (0 or 1) to 65535. */
mr_status mr_text_args_to_integer(struct mr_text_parser *p, const struct mr_text_arg *arg,
                                  double value, uint32_t lo, uint32_t *out);
/* Take an argument by name, otherwise by position; NULL if it is not given. */
struct mr_text_arg *mr_text_args_take_named_or_next(struct mr_text_item *item, const char *name);
/* A size, which must be given: one value, or height:width. *one_out: it was one value. */
mr_status mr_text_args_take_size(struct mr_text_parser *p, struct mr_text_item *item,
                                 const char *name, uint32_t *height, uint32_t *width,
                                 bool *one_out);
mr_status mr_text_args_take_range(struct mr_text_parser *p, struct mr_text_item *item,
                                  const char *name, double range[2]);
/* `interp`; MR_BILINEAR if it is not given. */
mr_status mr_text_args_take_interpolation(struct mr_text_parser *p, struct mr_text_item *item,
                                          enum mr_interpolation *interpolation_out);
/* One whole number. arg NULL: it is not given. */
mr_status mr_text_args_take_whole(struct mr_text_parser *p, struct mr_text_arg *arg, uint32_t *out);
/* `p`, or a value without a name; 0.5 if it is not given. */
mr_status mr_text_args_take_probability(struct mr_text_parser *p, struct mr_text_item *item,
                                        double *probability_out);

#endif
