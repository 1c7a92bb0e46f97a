/* SPDX-License-Identifier: Apache-2.0 */
/* Saves the index of a shard in a file, so its headers are read only once. */
#ifndef DATASET_TAR_TAR_INDEX_FILE_H
#define DATASET_TAR_TAR_INDEX_FILE_H

#include <sys/stat.h>

#include "dataset/index_place.h"
#include "dataset/tar/tar_group.h"

/*
 * Load the index file of the shard `path` below root. It must have this recipe, and the size and
 * modification time in st. False: there is no such file, and samples_out is empty.
 */
bool mr_tar_index_file_load(enum mr_index_place index_place, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            struct mr_tar_samples *samples_out);

/*
 * Save the index file. A failure is ignored: the shard is indexed again next time. A shard that
 * changed less than two seconds ago is not saved: it could change again without a new modification
 * time.
 */
void mr_tar_index_file_save(enum mr_index_place index_place, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            const struct mr_tar_samples *samples);

#endif
