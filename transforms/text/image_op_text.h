/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of an image operation in a transform's text. */
#ifndef TRANSFORMS_TEXT_IMAGE_OP_TEXT_H
#define TRANSFORMS_TEXT_IMAGE_OP_TEXT_H

#include "transforms/text/text_parser.h"

/* Read what follows the name of mr_image_ops[which]. args_out: MR_IMAGE_OP_MAX_ARGS doubles. */
mr_status mr_image_op_text_read(struct mr_text_parser *p, struct mr_text_item *item, uint32_t which,
                                double *args_out);

#endif
