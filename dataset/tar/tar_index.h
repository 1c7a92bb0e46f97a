/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of one shard, from its headers. */
#ifndef DATASET_TAR_INDEX_H
#define DATASET_TAR_INDEX_H

#include "dataset/tar/tar_group.h"
#include "dataset/tar/tar_index_file.h"

/* What is indexed: shards below an open folder. */
struct mr_tar_source {
    int root;
    const char *written; /* how messages begin a path below root: as the user wrote the folder,
                            "" or with its slash */
    const struct mr_tar_recipe *recipe;
    enum mr_tar_index_place keep;
    const char *paths; /* NUL-terminated, relative to root */
    const size_t *offs;
    uint64_t n;
};

/*
 * Index shard i. Returns MR_OK (a broken shard too: its notes say where); MR_ERR_IO; MR_ERR_DAMAGED
 * (no tar file); MR_ERR_UNSUPPORTED (compressed, sparse); MR_ERR_NO_MEMORY.
 * Ownership: samples_out is the caller's, to be finished on failure too.
 */
mr_status mr_tar_index_shard(const struct mr_tar_source *source, uint64_t i,
                             struct mr_tar_samples *samples_out, mr_error *error);

#endif
