/* SPDX-License-Identifier: Apache-2.0 */
/* mixup(), cutmix(), mixup_or_cutmix() and timm_mixup() as text. */
#ifndef TRANSFORMS_TEXT_MIX_TEXT_H
#define TRANSFORMS_TEXT_MIX_TEXT_H

#include "base/text_writer.h"
#include "transforms/text/text_parser.h"

/* Append the operation that the item's name and arguments describe. */
mr_status mr_mix_text_add(struct mr_text_parser *p, struct mr_text_item *item);
/* The arguments of the long form. */
void mr_mix_text_put(struct mr_text_writer *w, const struct mr_op *op);

#endif
