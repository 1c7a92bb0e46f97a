/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of images with label files beside them, as darknet has them. */
#ifndef DATASET_ANNOTATIONS_YOLO_H
#define DATASET_ANNOTATIONS_YOLO_H

#include "dataset/kind.h"

mr_kind_open_fn mr_yolo_open;

#endif
