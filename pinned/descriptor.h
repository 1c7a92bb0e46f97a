/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes one sample in a slot, so that a device can finish it. The worker that made the sample
 * writes it; it is copied with the batch's small block. u8 pixels are the only encoding. Another
 * encoding would be one more number here and one more case in the finishing functions.
 */
#ifndef PINNED_DESCRIPTOR_H
#define PINNED_DESCRIPTOR_H

#include <assert.h>
#include <stdint.h>

enum mr_encoding {
    MR_ENCODING_NONE = 0, /* a hole: the output is zeros */
    MR_ENCODING_U8 = 1    /* interleaved pixels, height x width x channels bytes */
};

struct mr_descriptor {
    uint32_t encoding;
    /*
     * To do while finishing: 1 mirrors horizontally, 2 vertically, 3 both. 0 for u8 pixels, which
     * workers flip.
     */
    uint32_t flip;
    uint64_t offset; /* of the sample's bytes, from the start of the slot's data */
    uint64_t len;
    uint32_t place; /* its row in the batch */
    uint32_t spare;
    /* x, y, width, height of the output within the encoded image; for pixels, all of it. */
    int32_t box[4];
};
static_assert(sizeof(struct mr_descriptor) == 48,
              "descriptors are shared between workers, host and devices");

/* The finishing status of each row. */
enum mr_finished {
    MR_FINISHED_OK = 0,
    MR_FINISHED_BAD_ENCODING = 1,
    MR_FINISHED_BAD_RANGE = 2 /* its bytes are outside the room for a sample of this size */
};

#endif
