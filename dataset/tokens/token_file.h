/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of token ids: which format it has, and where its tokens are.
 *
 * Formats: the shards of llm.c (a header of 1,024 bytes, then u16 or u32), raw integers as nanoGPT
 * writes them, the .bin of Megatron-Core, whose .idx lies beside it (megatron_index.h), and shards
 * of MosaicML, X.mds (mds_shard.h).
 */
#ifndef DATASET_TOKENS_TOKEN_FILE_H
#define DATASET_TOKENS_TOKEN_FILE_H

#include <millrace/batch.h>

#include "base/bytes.h"
#include "dataset/extent.h"
#include "dataset/tokens/token_rows.h"

struct mr_token_file {
    mr_dtype dtype;       /* MR_DTYPE_DEFAULT: a shard without samples does not say it */
    struct mr_bytes runs; /* struct mr_token_run; none is empty */
};

/*
 * path: relative to the folder root, or a URL, whose .idx is not looked for; names in messages are
 * without the query. version: of the object at the URL. dtype: what the SPEC says, which a raw file
 * needs; MR_DTYPE_DEFAULT: nothing. MR_ERR_IO: the file cannot be read; MR_ERR_INVALID: the SPEC
 * lacks the dtype, or has another than the file; MR_ERR_DAMAGED: the header is wrong, or the file
 * is shorter or longer than it says; MR_ERR_UNSUPPORTED: a format that is not read.
 * Ownership: the caller frees the runs, also after an error.
 */
mr_status mr_token_file_open(int root, const char *path, const struct mr_object_version *version,
                             mr_dtype dtype, struct mr_token_file *file_out, mr_error *error);
/* MR_ERR_INVALID, unless a file has the dtype that is wanted. MR_DTYPE_DEFAULT: any. */
mr_status mr_token_file_dtype(const char *path, mr_dtype wanted, mr_dtype has, mr_error *error);

#endif
