/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens in each format. Token i of a file is i * 7 % 251. */
#ifndef TESTS_DATASET_TOKEN_FILES_H
#define TESTS_DATASET_TOKEN_FILES_H

#include <stdint.h>

#include "tests/dataset/tree.h"

enum { N_TOKENS = 1000, LLMC_HEADER = 1024, N_DOCUMENTS = 7, MAX_BYTES = 8192 };

/* Bytes of a file that is being made. */
struct bytes {
    uint8_t at[MAX_BYTES];
    size_t len;
};

void bytes_put(struct bytes *bytes, const void *value, size_t len);
/* Append tokens of size bytes. */
void bytes_tokens(struct bytes *bytes, size_t size);
struct bytes bytes_llmc(uint32_t magic, uint32_t version, size_t size);
/* An .idx. The documents have 1, 2, 3, ... tokens, and the last one the rest. */
struct bytes bytes_index(uint8_t dtype, size_t size);
/*
 * A shard of MDS of i32 with this encoding: ndarray, ndarray:int32, ndarray:int32:N or bytes. The
 * samples have the lengths in order, which a 0 ends.
 */
struct bytes bytes_mds(const char *encoding, const uint32_t *lengths);
/* Its index.json with one shard. */
struct bytes bytes_mds_index(const char *shard, size_t n_bytes, const char *compression);

void bytes_write(const struct tree *tree, const char *name, const struct bytes *bytes);
/* "tokens:" and the path, with keys. One buffer. */
const char *tokens_spec(const struct tree *tree, const char *name, const char *keys);

#endif
