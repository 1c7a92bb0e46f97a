/* SPDX-License-Identifier: Apache-2.0 */
/* Parses annotation files of COCO. */
#ifndef DATASET_ANNOTATIONS_COCO_JSON_H
#define DATASET_ANNOTATIONS_COCO_JSON_H

#include "dataset/annotations/coco_table.h"

/*
 * Read the images, boxes and categories of an opened file in their order; everything else, such as
 * segmentations, is passed over. MR_ERR_DAMAGED names the line and the byte.
 * MR_ERR_UNSUPPORTED: this build has no JSON parser.
 */
mr_status mr_coco_json_parse(int fd, const char *path, struct mr_coco_table *table_out,
                             mr_error *error);

#endif
