/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the images of a dataset into groups by the shapes in their annotations or headers. */
#ifndef LOADER_ASPECT_GROUPS_H
#define LOADER_ASPECT_GROUPS_H

#include "sampler/groups.h"

#include <millrace/loader.h>

/*
 * The groups of create_aspect_ratio_groups() of torchvision's references/detection, with
 * options->aspect_ratio_groups as its k. upright: images are turned by their EXIF orientation. An
 * image whose size is not known counts as a square. MR_ERR_INVALID if the samples are no images, or
 * come from callbacks; MR_ERR_NO_MEMORY.
 * Blocks: while several threads read the header of every image whose size is stated neither by an
 * annotation nor by a pack's index, and was not kept by an earlier call (header_sizes.h).
 */
mr_status mr_aspect_groups_make(const mr_dataset *dataset, bool upright,
                                const mr_loader_options *options, struct mr_groups **groups_out,
                                mr_error *error);

#endif
