/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns whose rows are padded at the right and at the bottom to the largest height and width of
 * their batch, or at the end to the largest length. A worker writes a row, of its own size, where
 * it would begin if all rows had the largest allowed size. When all places are DONE the host moves
 * the elements to their places in an array of equal rows.
 */
#ifndef PINNED_SLOT_PAD_H
#define PINNED_SLOT_PAD_H

#include "pinned/slot.h"

/*
 * Host, once per batch, when its places are DONE: pad the first n rows, and note their height and
 * width, or their length and 1, in the slot's `padded`.
 */
void mr_slot_pad_rows(const struct mr_slot_view *view, uint32_t n);

/* From row to row of such a column, if all have this height and width. */
uint64_t mr_slot_pad_row_bytes(const struct mr_column *column, const uint32_t padded[2]);

#endif
