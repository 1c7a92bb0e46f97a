/* SPDX-License-Identifier: Apache-2.0 */
/* One row of token ids: from the bytes of a file to the columns of a batch. */
#ifndef LOADER_WORKERS_TOKEN_ROW_H
#define LOADER_WORKERS_TOKEN_ROW_H

#include "pinned/slot.h"
#include "transforms/plan.h"

/*
 * bytes: the ids of a row and perhaps one more, of the kind's dtype, not aligned. There may be
 * fewer: what is missing is 0, and its loss_mask too. MR_ERR_DAMAGED: an id is not below
 * kind.vocab, negative, or too large for the dtype; or len is wrong.
 */
mr_status mr_token_row_store(const struct mr_plan *plan, const struct mr_slot_view *view,
                             uint32_t place, const uint8_t *bytes, size_t len, mr_error *error);

#endif
