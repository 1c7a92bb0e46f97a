/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of shards that are kept in files, so that a shard's headers are read once. */
#ifndef DATASET_TAR_TAR_INDEX_FILE_H
#define DATASET_TAR_TAR_INDEX_FILE_H

#include <sys/stat.h>

#include "dataset/tar/tar_group.h"

/* Where they are looked for and written. */
enum mr_tar_index_place {
    MR_TAR_INDEX_AUTO,   /* beside the shard; where that cannot be written, in the user's cache
                            folder */
    MR_TAR_INDEX_BESIDE, /* ".SHARD.HASH.millrace" */
    MR_TAR_INDEX_CACHE,  /* "$XDG_CACHE_HOME/millrace/HASH.millrace", or below ~/.cache */
    MR_TAR_INDEX_NONE,   /* no index of wds2idx is read either */
};

/*
 * Load what was kept of the shard path below root, if it is of this recipe and of a file with the
 * size and the time of st. False: there is none such, and samples_out is empty.
 */
bool mr_tar_index_file_load(enum mr_tar_index_place keep, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            struct mr_tar_samples *samples_out);

/*
 * Keep it. What fails here is no failure: the shard is indexed again the next time. A shard that
 * changed less than two seconds ago is not kept: it may change once more without another time of
 * change.
 */
void mr_tar_index_file_save(enum mr_tar_index_place keep, int root, const char *path,
                            const struct stat *st, const struct mr_tar_recipe *recipe,
                            const struct mr_tar_samples *samples);

#endif
