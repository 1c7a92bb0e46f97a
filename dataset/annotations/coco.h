/* SPDX-License-Identifier: Apache-2.0 */
/* Images with an annotation file as COCO has it. */
#ifndef DATASET_ANNOTATIONS_COCO_H
#define DATASET_ANNOTATIONS_COCO_H

#include "dataset/kind.h"

mr_kind_open_fn mr_coco_open;

#endif
