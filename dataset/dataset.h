/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader needs from a dataset, besides the public calls. */
#ifndef DATASET_DATASET_H
#define DATASET_DATASET_H

#include <millrace/dataset.h>

#include "dataset/catalog.h"

/* Adds a reference; mr_dataset_destroy() drops one. Threads: any. */
void mr_dataset_retain(mr_dataset *dataset);

const struct mr_sample_kind *mr_dataset_kind(const mr_dataset *dataset);

/* The callbacks; NULL if the dataset has a catalog and the descriptors below. */
const mr_callbacks *mr_dataset_callbacks(const mr_dataset *dataset);

/*
 * The descriptors that workers inherit (O_CLOEXEC here), and the parent's mapping. Both belong to
 * the dataset.
 */
const int *mr_dataset_fds(const mr_dataset *dataset);
const struct mr_catalog *mr_dataset_catalog(const mr_dataset *dataset);

#endif
