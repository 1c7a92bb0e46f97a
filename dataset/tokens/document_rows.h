/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are cut from joined documents: how the catalog stores their places. */
#ifndef DATASET_TOKENS_DOCUMENT_ROWS_H
#define DATASET_TOKENS_DOCUMENT_ROWS_H

#include <stdint.h>

/* The places of the rows 0, 16, 32, ... are stored; the others are found by walking from there. */
enum { MR_TOKEN_STEP = 16 };

/* A place among joined documents. */
struct mr_token_place {
    uint64_t document; /* its number among the joined ones */
    uint64_t offset;   /* tokens before it in that document */
};

#endif
