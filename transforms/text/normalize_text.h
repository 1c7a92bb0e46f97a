/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of normalize. */
#ifndef TRANSFORMS_TEXT_NORMALIZE_TEXT_H
#define TRANSFORMS_TEXT_NORMALIZE_TEXT_H

#include "transforms/text/text_parser.h"

/* Append the operation that the item's arguments describe. */
mr_status mr_normalize_text_add(struct mr_text_parser *p, struct mr_text_item *item);

#endif
