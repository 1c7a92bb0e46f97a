/* SPDX-License-Identifier: Apache-2.0 */
/* timm's policies as text: "rand-m9-mstd0.5-inc1", in quotes. */
#ifndef TRANSFORMS_TEXT_TIMM_TEXT_H
#define TRANSFORMS_TEXT_TIMM_TEXT_H

#include "base/text_writer.h"
#include "transforms/image_ops/image_timm.h"
#include "transforms/text/text_parser.h"

/* The values of a policy. */
mr_status mr_timm_text_read(struct mr_text_parser *p, const struct mr_text_arg *arg,
                            double values_out[MR_TIMM_N_VALUES]);
/* The policy with its quotes. */
void mr_timm_text_put(struct mr_text_writer *w, const double values[MR_TIMM_N_VALUES]);

#endif
