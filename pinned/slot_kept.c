/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of byte arrays: written where each has its place, then moved together. */
#include "pinned/slot_kept.h"

#include <string.h>

static uint32_t *lengths_of(const struct mr_slot_view *view, const struct mr_slot_kept *kept)
{
    return (void *)(view->data + kept->lengths_off);
}

void mr_slot_kept_put(const struct mr_slot_layout *layout, const struct mr_slot_view *view, uint32_t k, uint32_t place,
                      const uint8_t *bytes, uint64_t len)
{
    const struct mr_slot_kept *kept = &layout->kept[k];
    uint64_t fits = len < kept->max_bytes ? len : kept->max_bytes;
    if (fits > 0)
        memcpy(view->data + kept->values_off + place * kept->max_bytes, bytes, fits);
    lengths_of(view, kept)[place] = (uint32_t)fits;
}

static void join_rows(const struct mr_slot_layout *layout, const struct mr_slot_view *view,
                      const struct mr_slot_kept *kept, uint32_t n)
{
    int64_t *offsets = (void *)(view->data + kept->offsets_off);
    uint8_t *values = view->data + kept->values_off;
    const uint32_t *lengths = lengths_of(view, kept);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t len = lengths[i] < kept->max_bytes ? lengths[i] : kept->max_bytes;
        offsets[i] = (int64_t)at;
        memmove(values + at, values + i * kept->max_bytes, len);
        at += len;
    }
    for (uint64_t i = n; i <= layout->batch_size; i++)
        offsets[i] = (int64_t)at;
}

void mr_slot_kept_join(const struct mr_slot_layout *layout, const struct mr_slot_view *view, uint32_t n)
{
    for (uint32_t k = 0; k < layout->n_kept; k++)
        join_rows(layout, view, &layout->kept[k], n);
}

const int64_t *mr_slot_kept_offsets(const struct mr_slot_layout *layout, const struct mr_slot_view *view, uint32_t k)
{
    return (const void *)(view->data + layout->kept[k].offsets_off);
}
