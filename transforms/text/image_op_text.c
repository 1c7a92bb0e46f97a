/* SPDX-License-Identifier: Apache-2.0 */
/* Checks arguments against the parameters of an operation. */
#include "transforms/text/image_op_text.h"
#include "transforms/text/timm_text.h"

#include "base/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mr_status refuse_value(struct mr_text_parser *p, const struct mr_text_arg *arg,
                              const struct mr_image_param *param)
{
    static const char *const kinds[] = {[MR_PARAM_NUMBER] = "a number",
                                        [MR_PARAM_INTEGER] = "a whole number",
                                        [MR_PARAM_ODD] = "an odd number",
                                        [MR_PARAM_SPAN] = "a number or lo:hi",
                                        [MR_PARAM_RANGE] = "a number or lo:hi",
                                        [MR_PARAM_PAIR] = "x:y, two numbers",
                                        [MR_PARAM_RANGES] = "a number, lo:hi or lo:hi:lo:hi",
                                        [MR_PARAM_COLOR] = "a whole number or r:g:b"};
    char words[100];
    if (param->kind == MR_PARAM_CHANNELS)
        snprintf(words, sizeof words, "%s: 1 or 3 is expected", param->name);
    else
        snprintf(words, sizeof words, "%s: %s from %g to %g is expected", param->name,
                 kinds[param->kind], param->lo, param->hi);
    return mr_text_parser_fail_at(p, arg->place, words);
}

static bool is_possible(const struct mr_image_param *param, const double *values)
{
    bool possible = true, whole = true, ordered = true;
    uint32_t n = mr_image_op_width(param);
    n = param->kind == MR_PARAM_RANGES && isnan(values[2]) ? 2 : n;
    for (uint32_t i = 0; i < n; i++) {
        possible = possible && values[i] >= param->lo && values[i] <= param->hi;
        whole = whole && values[i] == floor(values[i]);
        ordered = ordered && (i % 2 == 0 || values[i - 1] <= values[i]);
    }
    switch ((enum mr_image_param_kind)param->kind) {
    case MR_PARAM_NUMBER:
    case MR_PARAM_PAIR: return possible;
    case MR_PARAM_CHANNELS: return values[0] == 1.0 || values[0] == 3.0;
    case MR_PARAM_ODD: return possible && fmod(values[0], 2.0) == 1.0;
    case MR_PARAM_RANGE:
    case MR_PARAM_SPAN:
    case MR_PARAM_RANGES: return possible && ordered;
    default: return possible && whole;
    }
}

/* Write all values of a parameter from one number. */
static void spread_value(const struct mr_image_param *param, double value, double *values_out)
{
    if (param->kind == MR_PARAM_RANGE) {
        double lo = param->center - value;
        values_out[0] = param->lo == 0.0 && lo < 0.0 ? 0.0 : lo;
        values_out[1] = param->center + value;
    } else if (param->kind == MR_PARAM_RANGES) {
        values_out[0] = 0.0 - value; /* no -0 */
        values_out[1] = value;
    } else {
        for (uint32_t i = 0; i < mr_image_op_width(param); i++)
            values_out[i] = value;
    }
}

/* Use the default of a parameter that is not given. */
static void take_default(const struct mr_image_param *param, double *values_out)
{
    for (uint32_t i = 0; i < mr_image_op_width(param); i++)
        values_out[i] = param->optional ? NAN : param->defaults[i];
}

/* May the parameter be given with n values? */
static bool takes_values(const struct mr_image_param *param, uint32_t n)
{
    uint32_t width = mr_image_op_width(param);
    if (param->kind == MR_PARAM_RANGES)
        return n == 1 || n == 2 || n == 4;
    return n == width || (n == 1 && param->kind != MR_PARAM_PAIR);
}

static mr_status take_word(struct mr_text_parser *p, struct mr_text_arg *arg,
                           const struct mr_image_param *param, struct mr_text_item *item,
                           double *place_out)
{
    char refusal[60];
    uint32_t n = 0, place = UINT32_MAX;
    while (param->words[n])
        n++;
    snprintf(refusal, sizeof refusal, "%s: no choice has this name", param->name);
    mr_status status = mr_text_parser_take_choice(p, item, arg, param->words, n, refusal, &place);
    if (place != UINT32_MAX)
        *place_out = place;
    return status;
}

static mr_status refuse_missing(struct mr_text_parser *p, const struct mr_text_item *item,
                                const struct mr_image_param *param)
{
    char words[100];
    snprintf(words, sizeof words, "%s needs %s", item->name, param->name);
    return mr_text_parser_fail_at(p, item->place, words);
}

static struct mr_text_arg *take_named(struct mr_text_item *item, const struct mr_image_param *param)
{
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, param->name);
    return arg || !param->short_name ? arg : mr_text_parser_take_arg(item, param->short_name);
}

static mr_status take_param(struct mr_text_parser *p, struct mr_text_item *item,
                            const struct mr_image_param *param, double *values_out)
{
    struct mr_text_arg *arg = take_named(item, param);
    if (param->kind == MR_PARAM_WORD) {
        *values_out = param->required ? -1.0 : param->defaults[0];
        mr_status status = take_word(p, arg, param, item, values_out);
        return status == MR_OK && *values_out < 0.0 ? refuse_missing(p, item, param) : status;
    }
    arg = arg ? arg : mr_text_parser_take_arg(item, "");
    if (!arg && param->required)
        return refuse_missing(p, item, param);
    if (param->kind == MR_PARAM_POLICY)
        return mr_timm_text_read(p, arg, values_out);
    take_default(param, values_out);
    if (!arg)
        return MR_OK;
    if (!takes_values(param, arg->n_values))
        return refuse_value(p, arg, param);
    bool spreads = param->kind == MR_PARAM_RANGE || param->kind == MR_PARAM_RANGES;
    if (arg->n_values == 1 && spreads && arg->values[0] < 0.0)
        return refuse_value(p, arg, param);
    if (arg->n_values == 1)
        spread_value(param, arg->values[0], values_out);
    else
        memcpy(values_out, arg->values, arg->n_values * sizeof *values_out);
    return is_possible(param, values_out) ? MR_OK : refuse_value(p, arg, param);
}

/* The message also lists the parameters that exist. */
static mr_status refuse_unused(struct mr_text_parser *p, const struct mr_text_item *item,
                               const struct mr_image_param *params)
{
    char known[300];
    int used = snprintf(known, sizeof known, "; %s has", item->name);
    for (uint32_t i = 0;
         i < MR_IMAGE_OP_MAX_PARAMS && params[i].name && used > 0 && (size_t)used < sizeof known;
         i++)
        used += snprintf(known + used, sizeof known - (size_t)used, "%s %s", i ? "," : "",
                         params[i].name);
    return mr_text_parser_refuse_unused(p, item, known);
}

mr_status mr_image_op_text_read(struct mr_text_parser *p, struct mr_text_item *item, uint32_t which,
                                double *args_out)
{
    const struct mr_image_op *op = &mr_image_ops[which];
    const struct mr_image_param *params = op->params;
    double *args = args_out;
    mr_status status = mr_text_parser_read_args(p, item);
    for (uint32_t i = 0; i < MR_IMAGE_OP_MAX_PARAMS && params[i].name && status == MR_OK; i++) {
        status = take_param(p, item, &params[i], args);
        args += mr_image_op_width(&params[i]);
    }
    if (status == MR_OK)
        status = refuse_unused(p, item, params);
    char why[MR_IMAGE_OP_WHY];
    bool refused = status == MR_OK && op->refuse && op->refuse(args_out, why);
    return refused ? mr_text_parser_fail_at(p, item->place, why) : status;
}
