/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the index of a shard that the wds2idx tool of NVIDIA DALI writes: train.idx beside
 * train.tar.
 */
#ifndef DATASET_TAR_TAR_WDS_H
#define DATASET_TAR_TAR_WDS_H

#include <sys/stat.h>

#include "dataset/tar/tar_scan.h"

/* Stat the index beside the shard `path` below root. False if there is none. */
bool mr_tar_wds_stat(int root, const char *path, struct stat *st_out);

/*
 * Call the event with each member in the index, in order. If the index is not used, *used_out is
 * false and there was no call. It is not used if it is missing, older than a local shard (st), of a
 * version without names, leaves a member out, or contradicts the shard in another way. Returns
 * MR_OK; MR_ERR_NO_MEMORY; or the error of the event.
 */
mr_status mr_tar_wds_read(int root, const char *path, const struct stat *st,
                          struct mr_tar_file *file, const struct mr_tar_events *events,
                          bool *used_out, mr_error *error);

#endif
