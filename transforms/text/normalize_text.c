/* SPDX-License-Identifier: Apache-2.0 */
/* Reads normalize(mean=...,std=...) of a transform's text. */
#include "transforms/text/normalize_text.h"

#include <stdio.h>

/* Take an argument by name, otherwise by position; NULL if it is not given. */
static struct mr_text_arg *take_values(struct mr_text_item *item, const char *name)
{
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, name);
    return arg ? arg : mr_text_parser_take_arg(item, "");
}

/* *exact_out: the one that is among the arguments, or MR_EXACT_NONE. */
static mr_status take_exact(struct mr_text_parser *p, struct mr_text_item *item,
                            enum mr_exact *exact_out)
{
    mr_status status = MR_OK;
    *exact_out = MR_EXACT_NONE;
    for (enum mr_exact exact = MR_EXACT_V1; exact < MR_N_EXACT && status == MR_OK; exact++) {
        bool is_there;
        status = mr_text_parser_take_flag(p, item, mr_transform_exact_words[exact], &is_there);
        if (status == MR_OK && is_there && *exact_out != MR_EXACT_NONE) {
            char words[100];
            snprintf(words, sizeof words, "%s and %s exclude each other",
                     mr_transform_exact_words[*exact_out], mr_transform_exact_words[exact]);
            return mr_text_parser_fail_at(p, item->place, words);
        }
        if (status == MR_OK && is_there)
            *exact_out = exact;
    }
    return status;
}

mr_status mr_normalize_text_add(struct mr_text_parser *p, struct mr_text_item *item)
{
    struct mr_text_arg *mean = take_values(item, "mean");
    struct mr_text_arg *std = take_values(item, "std");
    bool implied = false;
    enum mr_exact how;
    static const char needs[] =
        "normalize needs mean= and std=, of one or three values each, as in "
        "mean=0.485:0.456:0.406,std=0.229:0.224:0.225";
    if (!mean || !std)
        return mr_text_parser_fail_at(p, item->place, needs);
    if (mean->n_values != std->n_values || (std->n_values != 1 && std->n_values != 3))
        return mr_text_parser_fail_at(p, std->place, needs);
    mr_status status = take_exact(p, item, &how);
    if (status == MR_OK)
        status = mr_text_parser_take_flag(p, item, "if_float", &implied);
    if (status != MR_OK)
        return status;
    struct mr_text_arg *extra = mr_text_parser_take_arg(item, "");
    if (extra)
        return mr_text_parser_fail_at(p, extra->place, needs);
    return mr_transform_normalize(p->transform, mean->n_values, mean->values, std->values, how,
                                  implied, p->error);
}
