/* SPDX-License-Identifier: Apache-2.0 */
/* The datasets of the PASCAL VOC challenges, in their folders. */
#ifndef DATASET_ANNOTATIONS_VOC_H
#define DATASET_ANNOTATIONS_VOC_H

#include "dataset/kind.h"

mr_kind_open_fn mr_voc_open;

#endif
