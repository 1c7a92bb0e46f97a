/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte arrays of a slot. A worker writes the row of a place where the longest rows would lie, and
 * its length beside it. When all places are done the host moves the rows together, so that values
 * and offsets are what readers of ragged rows expect.
 */
#ifndef PINNED_SLOT_EXTRA_H
#define PINNED_SLOT_EXTRA_H

#include "pinned/slot.h"

/* Worker, holding the place: its row of array k. A length above the layout's is cut. */
void mr_slot_extra_put(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                       uint32_t k, uint32_t place, const uint8_t *bytes, uint64_t len);

/*
 * Host, once per batch, when its places are done: move the first n rows of all arrays together, and
 * say where they are. /
 */
void mr_slot_extra_join(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                        uint32_t n);

/* Host, after that: int64_t[n + 1], offsets in the values of array k. */
const int64_t *mr_slot_extra_offsets(const struct mr_slot_layout *layout,
                                     const struct mr_slot_view *view, uint32_t k);

#endif
