/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixup(alpha), cutmix(alpha), mixup_or_cutmix(mixup,cutmix,switch_prob): torchvision's.
 * timm_mixup(mixup,cutmix,prob,switch_prob,label_smoothing,mode=batch): timm's Mixup.
 * All arguments are given by position or by name, mode only by name.
 */
#include "transforms/text/mix_text.h"

#include "base/words.h"

/*
 * Below this, the logarithms that lambda is computed from would overflow. lambda is then 0 or 1 in
 * any case.
 */
#define LEAST_ALPHA 1e-6
#define MOST_ALPHA 1000.0

/* a probability or a share; an alpha; an alpha, or 0 to switch that way of mixing off */
enum number_kind { SHARE, ALPHA, ALPHA_OR_0 };

static mr_status take_number(struct mr_text_parser *p, struct mr_text_item *item, const char *name,
                             enum number_kind what, double *value)
{
    static const char *const refusals[] = {[SHARE] = "a number from 0 to 1 is expected",
                                           [ALPHA] = "an alpha from 1e-6 to 1000 is expected",
                                           [ALPHA_OR_0] =
                                               "an alpha of 0, or from 1e-6 to 1000, is expected"};
    const double least = what == ALPHA ? LEAST_ALPHA : 0.0, most = what == SHARE ? 1.0 : MOST_ALPHA;
    const struct mr_text_arg *arg = mr_text_parser_take_arg(item, name);
    if (!arg)
        arg = mr_text_parser_take_arg(item, "");
    if (!arg)
        return MR_OK;
    const double given = arg->values[0];
    const bool is_tiny = what == ALPHA_OR_0 && given > 0 && given < LEAST_ALPHA;
    if (arg->n_values != 1 || !(given >= least && given <= most) || is_tiny)
        return mr_text_parser_fail_at(p, arg->place, refusals[what]);
    *value = given;
    return MR_OK;
}

/* timm's elem and pair modes draw for each row. Here one draw serves the whole batch. */
static mr_status take_mode(struct mr_text_parser *p, struct mr_text_item *item)
{
    const struct mr_text_arg *arg = mr_text_parser_take_arg(item, "mode");
    if (!arg || mr_word_is("batch", arg->word))
        return MR_OK;
    return mr_text_parser_fail_at(p, arg->place, "mode: only batch is available");
}

static mr_status take_timm(struct mr_text_parser *p, struct mr_text_item *item, struct mr_op *op)
{
    op->alpha[0] = 1;
    op->smoothing = 0.1;
    mr_status status = take_number(p, item, "mixup", ALPHA_OR_0, &op->alpha[0]);
    if (status == MR_OK)
        status = take_number(p, item, "cutmix", ALPHA_OR_0, &op->alpha[1]);
    if (status == MR_OK && op->alpha[0] + op->alpha[1] == 0)
        status = mr_text_parser_fail_at(p, item->place,
                                        "mixup and cutmix are both 0; one alpha must be above 0");
    if (status == MR_OK)
        status = take_number(p, item, "prob", SHARE, &op->mix_prob);
    if (status == MR_OK)
        status = take_number(p, item, "switch_prob", SHARE, &op->switch_prob);
    if (status == MR_OK)
        status = take_number(p, item, "label_smoothing", SHARE, &op->smoothing);
    return status == MR_OK ? take_mode(p, item) : status;
}

static mr_status take_both(struct mr_text_parser *p, struct mr_text_item *item, struct mr_op *op)
{
    op->alpha[0] = op->alpha[1] = 1;
    mr_status status = take_number(p, item, "mixup", ALPHA, &op->alpha[0]);
    if (status == MR_OK)
        status = take_number(p, item, "cutmix", ALPHA, &op->alpha[1]);
    return status == MR_OK ? take_number(p, item, "switch_prob", SHARE, &op->switch_prob) : status;
}

static mr_status take_one(struct mr_text_parser *p, struct mr_text_item *item, double *alpha)
{
    *alpha = 1;
    return take_number(p, item, "alpha", ALPHA, alpha);
}

static uint32_t find_kind(const char *name)
{
    for (uint32_t kind = MR_OP_MIXUP; kind < MR_OP_TIMM_MIXUP; kind++)
        if (mr_word_is(mr_transform_op_name(&(struct mr_op){.kind = kind}), name))
            return kind;
    return MR_OP_TIMM_MIXUP;
}

mr_status mr_mix_text_add(struct mr_text_parser *p, struct mr_text_item *item)
{
    struct mr_op op = {
        .kind = find_kind(item->name), .alpha = {0, 0}, .mix_prob = 1, .switch_prob = 0.5};
    mr_status status = op.kind == MR_OP_TIMM_MIXUP ? take_timm(p, item, &op)
                       : op.kind == MR_OP_MIXUP_OR_CUTMIX
                           ? take_both(p, item, &op)
                           : take_one(p, item, &op.alpha[op.kind == MR_OP_CUTMIX]);
    if (status != MR_OK)
        return status;
    return mr_transform_append_op(p->transform, &op, p->error);
}

static void put_number(struct mr_text_writer *w, const char *before, double value)
{
    mr_text_writer_put(w, "%s", before);
    mr_text_writer_put_double(w, value);
}

void mr_mix_text_put(struct mr_text_writer *w, const struct mr_op *op)
{
    if (op->kind == MR_OP_MIXUP || op->kind == MR_OP_CUTMIX) {
        put_number(w, "", op->alpha[op->kind == MR_OP_CUTMIX]);
        return;
    }
    put_number(w, "mixup=", op->alpha[0]);
    put_number(w, ",cutmix=", op->alpha[1]);
    if (op->kind == MR_OP_TIMM_MIXUP)
        put_number(w, ",prob=", op->mix_prob);
    put_number(w, ",switch_prob=", op->switch_prob);
    if (op->kind == MR_OP_TIMM_MIXUP)
        put_number(w, ",label_smoothing=", op->smoothing);
}
