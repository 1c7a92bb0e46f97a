/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard of a MosaicML dataset (MDS) with one column of tokens. The layout is that of mosaicml
 * streaming, commit 89e7bb90 (streaming/base/format/mds/writer.py and encodings.py); numbers are
 * little-endian:
 *
 *   u32 n, u32 offsets[n + 1] from the file's begin, the configuration as JSON, samples
 *
 * A sample is the u32 size of its column, unless the encoding gives the size, then the column:
 *
 *   bytes                tokens
 *   ndarray              u8 dtype, shape, tokens
 *   ndarray:int32        shape, tokens
 *   ndarray:int32:2048   tokens
 *
 * The shape is u8 ndim << 2 | log2(bytes of a dimension), then the dimensions.
 */
#ifndef DATASET_TOKENS_MDS_SHARD_H
#define DATASET_TOKENS_MDS_SHARD_H

#include <millrace/batch.h>

#include "base/bytes.h"
#include "dataset/tokens/token_rows.h"
#include "dataset/tokens/token_source.h"

bool mr_mds_is_shard(const char *shown);
/*
 * asked: the dtype of a column of bytes, or MR_DTYPE_DEFAULT. runs receives struct mr_token_run:
 * the samples. Errors as of mr_token_file_open().
 */
mr_status mr_mds_shard_open(const struct mr_token_source *source, mr_dtype asked,
                            mr_dtype *dtype_out, struct mr_bytes *runs, mr_error *error);

#endif
