/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader needs from a dataset beside the public calls. */
#ifndef DATASET_DATASET_H
#define DATASET_DATASET_H

#include <millrace/dataset.h>

#include "dataset/catalog.h"

/* Reference counted: mr_dataset_destroy() gives up one. Threads: any. */
void mr_dataset_retain(mr_dataset *dataset);

const struct mr_sample_kind *mr_dataset_kind(const mr_dataset *dataset);

/* The callbacks, or NULL: then catalog and descriptors are those below. */
const mr_callbacks *mr_dataset_callbacks(const mr_dataset *dataset);

/*
 * Descriptors that workers inherit (O_CLOEXEC here) and the parent's own mapping. Ownership: the
 * dataset's.
 */
const int *mr_dataset_fds(const mr_dataset *dataset);
const struct mr_catalog *mr_dataset_catalog(const mr_dataset *dataset);

#endif
