/* SPDX-License-Identifier: Apache-2.0 */
/* Where tokens are in a file, and how the catalog stores the places of rows that are windows. */
#ifndef DATASET_TOKENS_TOKEN_ROWS_H
#define DATASET_TOKENS_TOKEN_ROWS_H

#include <stdint.h>

/* Stretches of tokens, equally long and at equal distances: samples of a shard, or a whole file. */
struct mr_token_run {
    uint64_t offset;   /* of the first token, in bytes */
    uint64_t n_tokens; /* of each stretch */
    uint64_t n;        /* stretches */
    uint64_t distance; /* of their begins, in bytes */
};

/* The rows of a run, in the catalog. */
struct mr_token_rows {
    uint64_t first_row; /* of the dataset */
    uint64_t file;
    uint64_t first_in_file; /* the same row, counted in its file */
    uint64_t n_each;        /* rows of each stretch */
    uint64_t offset;        /* of the first stretch, in bytes */
    uint64_t distance;
};

#endif
