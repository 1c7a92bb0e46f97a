/* SPDX-License-Identifier: Apache-2.0 */
/* Further members of each sample: what the key keep of a SPEC says. */
#ifndef DATASET_TAR_TAR_EXTRA_H
#define DATASET_TAR_TAR_EXTRA_H

#include "dataset/spec.h"
#include "dataset/tar/tar_group.h"

/*
 * "txt:4096,json:1024": suffixes, and the most bytes that each may have. Returns MR_OK or
 * MR_ERR_INVALID.
 */
mr_status mr_tar_extra_parse(struct mr_spec *spec, struct mr_tar_recipe *recipe, mr_error *error);

#endif
