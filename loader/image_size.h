/* SPDX-License-Identifier: Apache-2.0 */
/* The size of images that the transform leaves as they are. */
#ifndef LOADER_IMAGE_SIZE_H
#define LOADER_IMAGE_SIZE_H

#include "dataset/dataset.h"
#include "transforms/plan.h"

#include <millrace/loader.h>

/*
 * Where the output's size follows the image's (transform none on files, say), read the first
 * image's header and fix it. Looks at up to 16 samples for one that is not damaged.
 */
mr_status mr_image_size_fix(mr_dataset *dataset, struct mr_plan *plan,
                            const mr_loader_options *options, mr_error *error);

#endif
