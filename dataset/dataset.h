/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader and this room need from a dataset, besides the public calls. */
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

struct mr_object;
/*
 * Open the object of a file at a URL, in the version that the catalog was made from. MR_PENDING:
 * the file is local.
 */
mr_status mr_dataset_open_object(const struct mr_catalog *catalog, uint64_t file,
                                 struct mr_object **object_out, mr_error *error);

#endif
