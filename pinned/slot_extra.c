/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of byte arrays: a worker writes each at its own place, then the host moves them together. */
#include "pinned/slot_extra.h"

#include <string.h>

static uint32_t *find_lengths(const struct mr_slot_view *view, const struct mr_slot_extra *extra)
{
    return (void *)(view->data + extra->lengths_off);
}

void mr_slot_extra_put(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                       uint32_t k, uint32_t place, const uint8_t *bytes, uint64_t len)
{
    const struct mr_slot_extra *extra = &layout->extra[k];
    uint64_t fits = len < extra->max_bytes ? len : extra->max_bytes;
    if (fits > 0)
        memcpy(view->data + extra->values_off + place * extra->max_bytes, bytes, fits);
    find_lengths(view, extra)[place] = (uint32_t)fits;
}

static void join_rows(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                      const struct mr_slot_extra *extra, uint32_t n)
{
    int64_t *offsets = (void *)(view->data + extra->offsets_off);
    uint8_t *values = view->data + extra->values_off;
    const uint32_t *lengths = find_lengths(view, extra);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t len = lengths[i] < extra->max_bytes ? lengths[i] : extra->max_bytes;
        offsets[i] = (int64_t)at;
        memmove(values + at, values + i * extra->max_bytes, len);
        at += len;
    }
    for (uint64_t i = n; i <= layout->batch_size; i++)
        offsets[i] = (int64_t)at;
}

void mr_slot_extra_join(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                        uint32_t n)
{
    for (uint32_t k = 0; k < layout->n_extra; k++)
        join_rows(layout, view, &layout->extra[k], n);
}

const int64_t *mr_slot_extra_offsets(const struct mr_slot_layout *layout,
                                     const struct mr_slot_view *view, uint32_t k)
{
    return (const void *)(view->data + layout->extra[k].offsets_off);
}
