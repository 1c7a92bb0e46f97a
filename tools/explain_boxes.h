/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of a sample for its explanation: random_iou_crop is drawn for them. */
#ifndef TOOLS_EXPLAIN_BOXES_H
#define TOOLS_EXPLAIN_BOXES_H

#include <millrace/millrace.h>

/*
 * Set boxes and n_boxes of the options to those of the sample, if the dataset's samples have boxes.
 * Its index and size are set. Free options->boxes afterwards. Returns as mr_dataset_boxes(); MR_OK
 * if the samples have no boxes.
 */
mr_status mr_explain_boxes_read(const mr_dataset *dataset, mr_explain_options *options,
                                mr_error *error);

#endif
