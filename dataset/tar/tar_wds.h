/* SPDX-License-Identifier: Apache-2.0 */
/* The index that NVIDIA DALI's wds2idx writes of a shard: train.idx beside train.tar. */
#ifndef DATASET_TAR_TAR_WDS_H
#define DATASET_TAR_TAR_WDS_H

#include <sys/stat.h>

#include "dataset/tar/tar_scan.h"

/* The index beside the shard path below root, if there is one. */
bool mr_tar_wds_stat(int root, const char *path, struct stat *st_out);

/*
 * Feed the members of such an index to the event, in their order. *used_out is false, and nothing
 * was fed, where there is none, where it is older than the shard st, of a version without names,
 * leaves a member out, or says anything else that the shard contradicts. Returns MR_OK;
 * MR_ERR_NO_MEMORY; what the event returned.
 */
mr_status mr_tar_wds_read(int root, const char *path, const struct stat *st,
                          struct mr_tar_file *file, const struct mr_tar_events *events,
                          bool *used_out, mr_error *error);

#endif
