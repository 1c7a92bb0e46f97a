/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of token ids: which format it has, and where its tokens are.
 *
 * Formats: the shards of llm.c (a header of 1,024 bytes, then u16 or u32), raw integers as nanoGPT
 * writes them, and the .bin of Megatron-Core, whose .idx lies beside it (megatron_index.h).
 */
#ifndef DATASET_TOKENS_TOKEN_FILE_H
#define DATASET_TOKENS_TOKEN_FILE_H

#include <millrace/batch.h>

#include "base/error.h"
#include "dataset/extent.h"

struct mr_token_file {
    mr_dtype dtype;
    uint64_t offset; /* of the first token, in bytes */
    uint64_t n_tokens;
};

/*
 * path: relative to the folder root, or a URL, whose .idx is not looked for; names in messages are
 * without the query. version: of the object at the URL. dtype: what the SPEC says, which a raw file
 * needs; MR_DTYPE_DEFAULT: nothing. MR_ERR_IO: the file cannot be read; MR_ERR_INVALID: the SPEC
 * lacks the dtype, or has another than the file; MR_ERR_DAMAGED: the header is wrong, or the file
 * is shorter or longer than it says; MR_ERR_UNSUPPORTED: a format that is not read.
 */
mr_status mr_token_file_open(int root, const char *path, const struct mr_object_version *version,
                             mr_dtype dtype, struct mr_token_file *file_out, mr_error *error);
/* MR_ERR_INVALID, unless a file has the dtype that is wanted. MR_DTYPE_DEFAULT: any. */
mr_status mr_token_file_dtype(const char *path, mr_dtype wanted, mr_dtype has, mr_error *error);

#endif
