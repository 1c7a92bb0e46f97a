/* SPDX-License-Identifier: Apache-2.0 */
/* One row of token ids: from the bytes of a file to the columns "tokens" and "labels". */
#ifndef LOADER_WORKERS_TOKEN_ROW_H
#define LOADER_WORKERS_TOKEN_ROW_H

#include "transforms/plan.h"

/*
 * bytes: the ids of a row and one more, of the kind's dtype, not aligned. Both rows are written in
 * the plan's dtype; the labels are the ids after those of the row. MR_ERR_DAMAGED: an id is not
 * below kind.vocab, negative, or too large for the dtype; or len is wrong.
 */
mr_status mr_token_row_store(const struct mr_plan *plan, const uint8_t *bytes, size_t len,
                             void *tokens_out, void *labels_out, mr_error *error);

#endif
