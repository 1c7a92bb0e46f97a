/* SPDX-License-Identifier: Apache-2.0 */
/* Widens the token ids of a file, and checks them. */
#ifndef DATASET_TOKENS_TOKEN_IDS_H
#define DATASET_TOKENS_TOKEN_IDS_H

#include "base/sample_kind.h"

/*
 * Converts n ids, which need not be aligned, and returns the largest of them or, if one is
 * negative, a number with bit 63, which is above all limits.
 */
typedef uint64_t mr_token_ids_fn(const uint8_t *bytes, size_t n, void *out);
/* to: MR_I32 or MR_I64. */
mr_token_ids_fn *mr_token_ids_converter(mr_dtype from, mr_dtype to);
/* All ids are below it: the size of the vocabulary, or else the largest of the dtype and one. */
uint64_t mr_token_ids_limit(const struct mr_sample_kind *kind, mr_dtype to);
/* One id after the other. MR_ERR_DAMAGED: names the first that is not below the limit. */
mr_status mr_token_ids_check(const struct mr_sample_kind *kind, mr_dtype to, const uint8_t *bytes,
                             size_t n, mr_error *error);

#endif
