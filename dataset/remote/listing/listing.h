/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists what an object store has below a prefix, or a web server below a folder, as a dataset of
 * one image a file.
 */
#ifndef DATASET_REMOTE_LISTING_LISTING_H
#define DATASET_REMOTE_LISTING_LISTING_H

#include <millrace/dataset.h>

#include "dataset/catalog.h"
#include "dataset/extent.h"

/* Make the catalog of mr_dataset_from_store(). The caller closes the descriptors, also on failure.
 */
mr_status mr_listing_open(const char *url, const mr_dataset_options *options,
                          int fds_out[MR_CATALOG_N_FDS], mr_error *error);

/*
 * Find the first file below a URL that ends with a slash, and write its URL. MR_ERR_DAMAGED: there
 * is none.
 */
mr_status mr_listing_find(const char *url, char file_url_out[MR_CATALOG_PATH], mr_error *error);

#endif
