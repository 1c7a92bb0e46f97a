/* SPDX-License-Identifier: Apache-2.0 */
/* The label file of an image as darknet has it: a line "class x y width height" for each box. */
#ifndef DATASET_ANNOTATIONS_YOLO_LABEL_H
#define DATASET_ANNOTATIONS_YOLO_LABEL_H

#include "base/box_list.h"
#include "dataset/annotations/annotation.h"

/*
 * Append the boxes, which are relative. Unlike darknet, which silently stops reading there, a line
 * that is not a class of 0 or more and four finite numbers is damage; so is a negative width or
 * height.
 */
mr_status mr_yolo_label_parse(const struct mr_annotation *annotation, struct mr_box_list *list,
                              mr_error *error);

#endif
