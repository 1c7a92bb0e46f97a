/* SPDX-License-Identifier: Apache-2.0 */
/* The size of images that the transform does not resize. */
#ifndef LOADER_IMAGE_SIZE_H
#define LOADER_IMAGE_SIZE_H

#include "dataset/dataset.h"
#include "transforms/plan.h"

#include <millrace/loader.h>

/*
 * If the output's size is that of the image (for example transform none on files), read the first
 * image's header and fix the size. Tries up to 16 samples until one is not damaged.
 */
mr_status mr_image_size_fix(mr_dataset *dataset, struct mr_plan *plan,
                            const mr_loader_options *options, mr_error *error);

#endif
