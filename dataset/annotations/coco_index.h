/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the sorted tables of a COCO annotation file, so its text is parsed only once. */
#ifndef DATASET_ANNOTATIONS_COCO_INDEX_H
#define DATASET_ANNOTATIONS_COCO_INDEX_H

#include "dataset/annotations/coco_table.h"
#include "dataset/index_place.h"

/* Load or parse the file, sort the tables, and keep them. path may be a URL. */
mr_status mr_coco_index_read(enum mr_index_place place, const char *path,
                             struct mr_coco_table *table_out, mr_error *error);

#endif
