/* SPDX-License-Identifier: Apache-2.0 */
/* The extra members of each sample: the key `keep` of a SPEC. */
#ifndef DATASET_TAR_TAR_EXTRA_H
#define DATASET_TAR_TAR_EXTRA_H

#include "dataset/spec.h"
#include "dataset/tar/tar_group.h"

/*
 * Parse the key `keep`: "txt:4096,json:1024" gives suffixes, each with its maximum in bytes.
 * Returns MR_OK or MR_ERR_INVALID.
 */
mr_status mr_tar_extra_parse(struct mr_spec *spec, struct mr_tar_recipe *recipe, mr_error *error);

#endif
