/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes many shards in parallel, and delivers the results in the order of the shards. */
#ifndef DATASET_TAR_JOBS_H
#define DATASET_TAR_JOBS_H

#include "dataset/tar/tar_index.h"

/* Called in the thread of the caller, shard by shard. samples are valid until it returns. */
typedef mr_status mr_tar_jobs_take(void *user, uint64_t shard, const struct mr_tar_samples *samples,
                                   mr_error *error);

/*
 * Index all shards of a source. It ends with the error of the first shard, in their order, that
 * failed, whatever the number of threads.
 */
mr_status mr_tar_jobs_run(const struct mr_tar_source *source, mr_tar_jobs_take *take, void *user,
                          mr_error *error);

#endif
