/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the arguments that several operations have: sizes, ranges, filters, probabilities. */
#include "transforms/text/text_args.h"

#include <math.h>

mr_status mr_text_args_to_integer(struct mr_text_parser *p, const struct mr_text_arg *arg,
                                  double value, uint32_t lo, uint32_t *out)
{
    if (!(value >= lo && value <= 65535) || value != floor(value))
        return mr_text_parser_fail_at(p, arg->place,
                                      lo ? "a size from 1 to 65535 is expected"
                                         : "a number from 0 to 65535 is expected");
    *out = (uint32_t)value;
    return MR_OK;
}

struct mr_text_arg *mr_text_args_take_named_or_next(struct mr_text_item *item, const char *name)
{
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, name);
    return arg ? arg : mr_text_parser_take_arg(item, "");
}

mr_status mr_text_args_take_size(struct mr_text_parser *p, struct mr_text_item *item,
                                 const char *name, uint32_t *height, uint32_t *width, bool *one_out)
{
    struct mr_text_arg *arg = mr_text_args_take_named_or_next(item, name);
    if (!arg)
        return mr_text_parser_fail_at(p, p->at, "a size is expected");
    if (arg->n_values < 1 || arg->n_values > 2)
        return mr_text_parser_fail_at(p, arg->place, "a size is one number or height:width");
    if (one_out)
        *one_out = arg->n_values == 1;
    mr_status status = mr_text_args_to_integer(p, arg, arg->values[0], 1, height);
    if (status == MR_OK)
        status = mr_text_args_to_integer(p, arg, arg->values[arg->n_values - 1], 1, width);
    return status;
}

mr_status mr_text_args_take_range(struct mr_text_parser *p, struct mr_text_item *item,
                                  const char *name, double range[2])
{
    struct mr_text_arg *arg = mr_text_args_take_named_or_next(item, name);
    if (!arg)
        return MR_OK;
    if (arg->n_values != 2)
        return mr_text_parser_fail_at(p, arg->place, "two values, lo:hi, are expected");
    range[0] = arg->values[0];
    range[1] = arg->values[1];
    return MR_OK;
}

mr_status mr_text_args_take_interpolation(struct mr_text_parser *p, struct mr_text_item *item,
                                          enum mr_interpolation *interpolation_out)
{
    uint32_t place = MR_BILINEAR;
    mr_status status = mr_text_parser_take_choice(p, item, mr_text_parser_take_arg(item, "interp"),
                                                  mr_transform_interpolations, MR_N_INTERPOLATIONS,
                                                  "no interpolation has this name", &place);
    *interpolation_out = (enum mr_interpolation)place;
    return status;
}

mr_status mr_text_args_take_whole(struct mr_text_parser *p, struct mr_text_arg *arg, uint32_t *out)
{
    if (!arg)
        return MR_OK;
    if (arg->n_values != 1)
        return mr_text_parser_fail_at(p, arg->place, "one value is expected");
    return mr_text_args_to_integer(p, arg, arg->values[0], 0, out);
}

mr_status mr_text_args_take_probability(struct mr_text_parser *p, struct mr_text_item *item,
                                        double *probability_out)
{
    *probability_out = 0.5;
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, "");
    if (!arg)
        arg = mr_text_parser_take_arg(item, "p");
    if (!arg)
        return MR_OK;
    if (arg->n_values != 1 || !(arg->values[0] >= 0.0 && arg->values[0] <= 1.0))
        return mr_text_parser_fail_at(p, arg->place, "a probability from 0 to 1 is expected");
    *probability_out = arg->values[0];
    return MR_OK;
}
