/* SPDX-License-Identifier: Apache-2.0 */
/* Tar files of samples, as WebDataset and img2dataset write them. */
#ifndef DATASET_TAR_H
#define DATASET_TAR_H

#include "dataset/kind.h"

mr_kind_open_fn mr_tar_open;

#endif
