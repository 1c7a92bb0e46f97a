/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns whose rows differ in length. A worker writes a row where it would begin if all rows had
 * the maximal length, and its length beside it. When all places are DONE the host moves the rows
 * together, into the form of a ragged array: values and offsets.
 */
#ifndef PINNED_SLOT_EXTRA_H
#define PINNED_SLOT_EXTRA_H

#include "pinned/slot.h"

/*
 * Worker, holding the place: write its row. A row longer than the column's row_bytes is cut. len 0:
 * bytes may be NULL.
 */
void mr_slot_extra_put(const struct mr_slot_view *view, uint32_t column, uint32_t place,
                       const uint8_t *bytes, uint64_t len);

/*
 * Host, once per batch, when its places are DONE: move the first n rows of these columns together,
 * and write their offsets.
 */
void mr_slot_extra_join(const struct mr_slot_view *view, uint32_t n);

/* Host, after mr_slot_extra_join(): int64_t[batch_size + 1], the offsets of the rows. */
const int64_t *mr_slot_extra_offsets(const struct mr_slot_view *view, uint32_t column);

/* The bytes of each row that workers have written, of a column whose rows differ in length. */
uint32_t *mr_slot_extra_lengths(const struct mr_slot_view *view, uint32_t column);

#endif
