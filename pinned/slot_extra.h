/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte arrays of a slot. A worker writes a row where it would begin if all rows had the maximal
 * length, and its length beside it. When all places are DONE the host moves the rows together, into
 * the form of a ragged array: values and offsets.
 */
#ifndef PINNED_SLOT_EXTRA_H
#define PINNED_SLOT_EXTRA_H

#include "pinned/slot.h"

/*
 * Worker, holding the place: write the place's row of array k. A row longer than the layout's
 * maximum is cut.
 */
void mr_slot_extra_put(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                       uint32_t k, uint32_t place, const uint8_t *bytes, uint64_t len);

/*
 * Host, once per batch, when its places are DONE: move the first n rows of all arrays together, and
 * write their offsets.
 */
void mr_slot_extra_join(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                        uint32_t n);

/* Host, after mr_slot_extra_join(): int64_t[n + 1], the offsets in the values of array k. */
const int64_t *mr_slot_extra_offsets(const struct mr_slot_layout *layout,
                                     const struct mr_slot_view *view, uint32_t k);

#endif
