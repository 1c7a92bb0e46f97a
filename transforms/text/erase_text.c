/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_erasing(p,scale,ratio,value,count): by position or by name. The words of value may also be
 * given alone.
 */
#include "transforms/text/erase_text.h"

#include "base/words.h"
#include "transforms/erase.h"

#include <math.h>

static const char *const modes[] = {[MR_ERASE_RANDOM] = "random", [MR_ERASE_RAND] = "rand"};

static struct mr_text_arg *take_arg(struct mr_text_item *item, const char *name)
{
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, name);
    return arg ? arg : mr_text_parser_take_arg(item, "");
}

static mr_status take_numbers(struct mr_text_parser *p, struct mr_text_item *item, const char *name,
                              uint32_t n, double *values, const char *words)
{
    const struct mr_text_arg *arg = take_arg(item, name);
    if (!arg)
        return MR_OK;
    if (arg->n_values != n)
        return mr_text_parser_fail_at(p, arg->place, words);
    for (uint32_t i = 0; i < n; i++)
        values[i] = arg->values[i];
    return MR_OK;
}

static mr_status take_value(struct mr_text_parser *p, struct mr_text_item *item, struct mr_op *op)
{
    static const char words[] = "a value is one number, three as in 0.1:0:0.2, random, or rand";
    const struct mr_text_arg *arg = mr_text_parser_take_arg(item, "value");
    for (uint32_t mode = MR_ERASE_RANDOM; mode <= MR_ERASE_RAND; mode++) {
        bool found = arg && mr_word_is(modes[mode], arg->word);
        mr_status status = arg ? MR_OK : mr_text_parser_take_flag(p, item, modes[mode], &found);
        if (found)
            op->erase_mode = mode;
        if (found || status != MR_OK)
            return status;
    }
    if (!arg)
        arg = mr_text_parser_take_arg(item, "");
    if (!arg)
        return MR_OK;
    if (arg->n_values != 1 && arg->n_values != 3)
        return mr_text_parser_fail_at(p, arg->place, words);
    op->n_channels = arg->n_values;
    for (uint32_t i = 0; i < arg->n_values; i++) {
        op->mean[i] = arg->values[i];
        if (!isfinite((float)arg->values[i]))
            return mr_text_parser_fail_at(p, arg->place, "a finite value is expected");
    }
    return MR_OK;
}

static mr_status check_numbers(struct mr_text_parser *p, const struct mr_text_item *item,
                               const struct mr_op *op, double count)
{
    if (!(op->p >= 0 && op->p <= 1))
        return mr_text_parser_fail_at(p, item->place, "p: a probability from 0 to 1 is expected");
    if (!(op->scale[0] >= 0 && op->scale[0] <= op->scale[1] && op->scale[1] <= 1))
        return mr_text_parser_fail_at(
            p, item->place, "scale: two parts of the area, 0 <= lo <= hi <= 1, are expected");
    if (!(op->ratio[0] >= 1e-6 && op->ratio[0] <= op->ratio[1] && op->ratio[1] <= 1e6))
        return mr_text_parser_fail_at(p, item->place, "ratio: 1e-6 <= lo <= hi <= 1e6 is expected");
    if (!(count >= 1 && count <= MR_ERASE_MAX_BOXES) || count != floor(count))
        return mr_text_parser_fail_at(p, item->place, "count: a number from 1 to 4 is expected");
    return MR_OK;
}

mr_status mr_erase_text_add(struct mr_text_parser *p, struct mr_text_item *item)
{
    struct mr_op op = {.kind = MR_OP_RANDOM_ERASING,
                       .p = 0.5,
                       .scale = {0.02, 0.33},
                       .ratio = {0.3, 3.3},
                       .n_channels = 1};
    double count = 1;
    mr_status status = take_numbers(p, item, "p", 1, &op.p, "a probability is expected");
    if (status == MR_OK)
        status = take_numbers(p, item, "scale", 2, op.scale, "two values, lo:hi, are expected");
    if (status == MR_OK)
        status = take_numbers(p, item, "ratio", 2, op.ratio, "two values, lo:hi, are expected");
    if (status == MR_OK)
        status = take_value(p, item, &op);
    if (status == MR_OK)
        status = take_numbers(p, item, "count", 1, &count, "one number is expected");
    if (status == MR_OK)
        status = check_numbers(p, item, &op, count);
    if (status != MR_OK)
        return status;
    op.count = (uint32_t)count;
    return mr_transform_append_op(p->transform, &op, p->error);
}

void mr_erase_text_put(struct mr_text_writer *w, const struct mr_op *op)
{
    mr_text_writer_put_double(w, op->p);
    const double *const pairs[] = {op->scale, op->ratio};
    for (int i = 0; i < 2; i++) {
        mr_text_writer_put(w, i ? ",ratio=" : ",scale=");
        mr_text_writer_put_double(w, pairs[i][0]);
        mr_text_writer_put(w, ":");
        mr_text_writer_put_double(w, pairs[i][1]);
    }
    mr_text_writer_put(w, ",value=%s",
                       op->erase_mode != MR_ERASE_CONSTANT ? modes[op->erase_mode] : "");
    for (uint32_t c = 0; op->erase_mode == MR_ERASE_CONSTANT && c < op->n_channels; c++) {
        mr_text_writer_put(w, "%s", c ? ":" : "");
        mr_text_writer_put_double(w, op->mean[c]);
    }
    if (op->count > 1)
        mr_text_writer_put(w, ",count=%u", op->count);
}
