/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boxes of a sample that random erasing overwrites, and their values. If a device makes the
 * sample's floats, the boxes are stored beside the sample's descriptor. A box holds all that is
 * needed: a normal number follows from the counter and the element's place in its box, so host and
 * device can compute them in any order.
 *
 * Invariant: boxes may come from another process. Whatever their values are, nothing outside the
 * tensor is read or written.
 */
#ifndef BASE_ERASING_H
#define BASE_ERASING_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/normal.h"
#include "base/rng_block.h"

#include <millrace/batch.h>

enum { MR_ERASE_MAX_BOXES = 4, MR_ERASE_MAX_CHANNELS = 4 };

/* i and j are the box's top and left in the tensor. Where boxes overlap, the last one is used. */
struct mr_erase_box {
    int32_t i, j, h, w;
    float values[MR_ERASE_MAX_CHANNELS]; /* one for each channel; not used with is_random */
};

struct mr_erase {
    uint64_t key[2]; /* key, index, occurrence and place determine the normal numbers
                        (base/rng.h) */
    uint64_t index;
    uint64_t occurrence;
    uint32_t place;     /* of box 0; box k has place + k */
    uint32_t is_random; /* each element has its own normal number, in the order channel, row,
                           column */
    uint32_t n;
    uint32_t spare;
    struct mr_erase_box boxes[MR_ERASE_MAX_BOXES];
};
static_assert(sizeof(struct mr_erase) == 176, "boxes are shared between workers, host and devices");

MR_HOST_DEVICE uint32_t mr_erasing_count(const struct mr_erase *erase)
{
    return erase->n < MR_ERASE_MAX_BOXES ? erase->n : (uint32_t)MR_ERASE_MAX_BOXES;
}

/* The number of the box that is used at a pixel; -1: no box covers it. */
MR_HOST_DEVICE int32_t mr_erasing_find(const struct mr_erase *erase, uint32_t y, uint32_t x)
{
    for (uint32_t k = mr_erasing_count(erase); k-- > 0;) {
        const struct mr_erase_box *box = &erase->boxes[k];
        if (y - (uint32_t)box->i < (uint32_t)box->h && x - (uint32_t)box->j < (uint32_t)box->w)
            return (int32_t)k;
    }
    return -1;
}

/* The random words for the eight elements of box k from 8 * block on. */
MR_HOST_DEVICE void mr_erasing_words(const struct mr_erase *erase, uint32_t k, uint64_t block,
                                     uint32_t words_out[MR_RNG_BLOCK_WORDS])
{
    const uint64_t counter[4] = {erase->index, block, (uint64_t)erase->place + k,
                                 erase->occurrence};
    mr_rng_block_make(erase->key, counter, words_out);
}

/* The number of an element in its box. */
MR_HOST_DEVICE uint64_t mr_erasing_element(const struct mr_erase_box *box, uint32_t c, uint32_t y,
                                           uint32_t x)
{
    uint64_t row = (uint64_t)c * (uint32_t)box->h + (y - (uint32_t)box->i);
    return row * (uint32_t)box->w + (x - (uint32_t)box->j);
}

/*
 * The value of box k at one of its pixels and a channel. normals: mr_normal_nodes, or a device's
 * copy of them.
 */
MR_HOST_DEVICE float mr_erasing_value(const struct mr_erase *erase, uint32_t k, uint32_t y,
                                      uint32_t x, uint32_t c, const float *normals)
{
    const struct mr_erase_box *box = &erase->boxes[k];
    uint32_t words[MR_RNG_BLOCK_WORDS];
    if (!erase->is_random)
        return box->values[c];
    uint64_t element = mr_erasing_element(box, c, y, x);
    mr_erasing_words(erase, k, element / MR_RNG_BLOCK_WORDS, words);
    return mr_normal_of(normals, words[element % MR_RNG_BLOCK_WORDS]);
}

/* A sample of floats. Strides in elements. */
struct mr_erasing_tensor {
    void *data;
    mr_dtype dtype; /* MR_F32, MR_F16 or MR_BF16 */
    uint32_t height;
    uint32_t width;
    uint32_t channels; /* at most MR_ERASE_MAX_CHANNELS */
    size_t pixel_stride;
    size_t channel_stride;
};

/* Overwrite the boxes in a tensor of finished floats, on the host. */
void mr_erasing_run(const struct mr_erase *erase, const struct mr_erasing_tensor *tensor);

#endif
