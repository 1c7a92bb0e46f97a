/* SPDX-License-Identifier: Apache-2.0 */
/* The annotation of an image as VOC has it: XML with an <object> for each box. */
#ifndef DATASET_ANNOTATIONS_VOC_XML_H
#define DATASET_ANNOTATIONS_VOC_XML_H

#include "base/box_list.h"
#include "dataset/annotations/annotation.h"

/*
 * Append the boxes. The label is the number of the object's name among the classes of the dataset,
 * is_crowd its <difficult>.
 */
mr_status mr_voc_xml_parse(const struct mr_annotation *annotation, struct mr_box_list *list,
                           mr_error *error);

#endif
