/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes many shards at once, and gives what was found in the order of the shards. */
#ifndef DATASET_TAR_JOBS_H
#define DATASET_TAR_JOBS_H

#include "dataset/tar/tar_index.h"

/* Called in the caller's thread, shard by shard. samples are the callee's until it returns. */
typedef mr_status mr_tar_jobs_take(void *user, uint64_t shard, const struct mr_tar_samples *samples,
                                   mr_error *error);

/*
 * Index all shards of a source. The failure of the first shard that fails ends it, however many
 * threads there are.
 */
mr_status mr_tar_jobs_run(const struct mr_tar_source *source, mr_tar_jobs_take *take, void *user,
                          mr_error *error);

#endif
