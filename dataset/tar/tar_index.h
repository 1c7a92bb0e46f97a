/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the samples of one shard. */
#ifndef DATASET_TAR_INDEX_H
#define DATASET_TAR_INDEX_H

#include "dataset/tar/tar_group.h"
#include "dataset/tar/tar_index_file.h"

/* The shards to index, below an open folder. */
struct mr_tar_source {
    int root;
    const char *written; /* the prefix of a path in messages: the folder as the user wrote it, with
                            its slash, or "" */
    const struct mr_tar_recipe *recipe;
    enum mr_index_place index_place;
    const char *paths; /* NUL-terminated, relative to root */
    const size_t *offs;
    uint64_t n;
};

/*
 * Index shard i. Returns MR_OK, also for a broken shard, whose notes say where it is broken;
 * MR_ERR_IO; MR_ERR_DAMAGED (not a tar file); MR_ERR_UNSUPPORTED (compressed, sparse);
 * MR_ERR_NO_MEMORY.
 * Ownership: the caller finishes samples_out, after a failure too.
 */
mr_status mr_tar_index_shard(const struct mr_tar_source *source, uint64_t i,
                             struct mr_tar_samples *samples_out, mr_error *error);

#endif
