/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations and short forms that a transform's text may name outside structures, except the
 * image operations (image_op_text.h).
 */
#ifndef TRANSFORMS_TEXT_TEXT_ITEMS_H
#define TRANSFORMS_TEXT_TEXT_ITEMS_H

#include "transforms/text/text_parser.h"

struct mr_text_operation {
    const char *name;
    /* Take the item's arguments, and append the operations that it stands for. */
    mr_status (*add)(struct mr_text_parser *p, struct mr_text_item *item);
};

/* The table of mr_text_item_count entries. */
extern const struct mr_text_operation mr_text_items[];
extern const uint32_t mr_text_item_count;

#endif
