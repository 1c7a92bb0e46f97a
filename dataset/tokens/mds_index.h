/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a MosaicML dataset, index.json: which shards it has. */
#ifndef DATASET_TOKENS_MDS_INDEX_H
#define DATASET_TOKENS_MDS_INDEX_H

#include "dataset/spec.h"

/*
 * Replace each path FOLDER/index.json by those of its shards. MR_ERR_UNSUPPORTED: a shard is
 * compressed, and its decompressed file is not beside it. MR_ERR_DAMAGED: the index, or a shard's
 * length is not that of the index.
 */
mr_status mr_mds_index_expand(int root, struct mr_spec *spec, mr_error *error);

#endif
