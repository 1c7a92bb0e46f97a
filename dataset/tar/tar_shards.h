/* SPDX-License-Identifier: Apache-2.0 */
/* Expands the paths of a SPEC to the paths of shards: numeric braces and globs. */
#ifndef DATASET_TAR_SHARDS_H
#define DATASET_TAR_SHARDS_H

#include "dataset/catalog_build.h"

/*
 * Append the path of each shard, NUL-terminated, in the order of the patterns. {000..099} counts
 * upwards. * and [...] match existing names, sorted by bytes. %XX is an ordinary byte. A path
 * without a glob is not checked for existence.
 * Returns MR_OK; MR_ERR_INVALID (the pattern); MR_ERR_IO (nothing matches); MR_ERR_NO_MEMORY.
 */
mr_status mr_tar_shards_expand(char *const *patterns, size_t n_patterns, struct mr_bytes *paths,
                               uint64_t *n_out, mr_error *error);

#endif
