/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of finishing, one descriptor and one pixel at a time, for finish.c and the GPU's kernel alike (nvcc
 * compiles it for both).
 *
 * Invariant: the product and the sum of a float are one fmaf(), never left to the compiler; indices have 64 bits,
 * because one sample may have more than 2^32 bytes.
 *
 * A caller takes a view of its job once, and then for each descriptor
 *   finds its row (none: BAD_RANGE and nothing is written), checks it (not OK, or a hole: zeros), writes its pixels.
 */
#ifndef PINNED_FINISH_PIXEL_H
#define PINNED_FINISH_PIXEL_H

#include "base/half.h"
#include "pinned/finish_job.h"

#include <math.h>

#define MR_NO_ROW UINT32_MAX

/* What a kernel gets of a job by value: no pointer into the host's memory. Sizes and strides are in elements. */
struct mr_finish_view {
    uint32_t height;
    uint32_t width;
    uint32_t channels;
    uint32_t out_channels;
    uint32_t dtype;
    uint32_t exact;
    uint32_t n;
    uint32_t first_place;
    uint64_t n_pixels;       /* of one sample */
    uint64_t pixel_stride;   /* in the output, from pixel to pixel */
    uint64_t channel_stride; /* and from channel to channel */
    uint64_t row_elements;   /* and from sample to sample */
    float scale[MR_FINISH_CHANNELS];
    float bias[MR_FINISH_CHANNELS];
    const float *tables;
    const struct mr_descriptor *descriptors;
    const uint8_t *staging;
    uint64_t staging_off;
    uint64_t staging_len;
    void *out;
    uint32_t *status;
};

/* The host's side of a launch: reads job->finish. */
static inline void mr_finish_view_init(struct mr_finish_view *view, const struct mr_finish_job *job)
{
    const struct mr_finish *finish = job->finish;
    bool planar = finish->layout == MR_NCHW;
    view->height = finish->height;
    view->width = finish->width;
    view->channels = finish->channels;
    view->out_channels = finish->out_channels;
    view->dtype = finish->dtype;
    view->exact = finish->exact;
    view->n = job->n;
    view->first_place = job->first_place;
    view->n_pixels = (uint64_t)finish->height * finish->width;
    view->pixel_stride = planar ? 1 : finish->out_channels;
    view->channel_stride = planar ? view->n_pixels : 1;
    view->row_elements = view->n_pixels * finish->out_channels;
    memcpy(view->scale, finish->scale, sizeof view->scale);
    memcpy(view->bias, finish->bias, sizeof view->bias);
    view->tables = job->tables;
    view->descriptors = job->descriptors;
    view->staging = job->staging;
    view->staging_off = job->staging_off;
    view->staging_len = job->staging_len;
    view->out = job->out;
    view->status = job->status;
}

/* Row of the output that a descriptor fills; MR_NO_ROW when its place is not among this job's. */
MR_HOST_DEVICE uint32_t mr_finish_row(const struct mr_finish_view *view, const struct mr_descriptor *descriptor)
{
    if (descriptor->place < view->first_place || descriptor->place - view->first_place >= view->n)
        return MR_NO_ROW;
    return descriptor->place - view->first_place;
}

/* Do a sample's bytes lie in what was copied? Nothing is added, so that nothing overflows. */
MR_HOST_DEVICE bool mr_finish_is_within(const struct mr_finish_view *view, const struct mr_descriptor *descriptor)
{
    if (descriptor->len != view->n_pixels * view->channels || descriptor->offset < view->staging_off)
        return false;
    uint64_t from = descriptor->offset - view->staging_off;
    return from <= view->staging_len && descriptor->len <= view->staging_len - from;
}

/* enum mr_finished. */
MR_HOST_DEVICE uint32_t mr_finish_check(const struct mr_finish_view *view, const struct mr_descriptor *descriptor)
{
    if (mr_finish_row(view, descriptor) == MR_NO_ROW)
        return MR_FINISHED_BAD_RANGE;
    if (descriptor->encoding == MR_ENCODING_NONE)
        return MR_FINISHED_OK;
    if (descriptor->encoding != MR_ENCODING_U8)
        return MR_FINISHED_BAD_ENCODING;
    return mr_finish_is_within(view, descriptor) ? MR_FINISHED_OK : MR_FINISHED_BAD_RANGE;
}

/* The pixels of a descriptor; NULL where zeros come out: a hole, or one that mr_finish_check() refuses. */
MR_HOST_DEVICE const uint8_t *mr_finish_source(const struct mr_finish_view *view,
                                               const struct mr_descriptor *descriptor)
{
    if (descriptor->encoding == MR_ENCODING_NONE || mr_finish_check(view, descriptor) != MR_FINISHED_OK)
        return NULL;
    return view->staging + (descriptor->offset - view->staging_off);
}

/* The pixel of the source that becomes a pixel of the output; flips other than 1, 2 and 3 mean their low two bits. */
MR_HOST_DEVICE uint64_t mr_finish_mirror(const struct mr_finish_view *view, uint32_t flip, uint64_t pixel)
{
    flip &= 3;
    if (flip == 0)
        return pixel;
    if (flip == 3)
        return view->n_pixels - 1 - pixel;
    uint64_t y = pixel / view->width;
    uint64_t x = pixel - y * view->width;
    return flip == 1 ? y * view->width + (view->width - 1 - x) : (view->height - 1 - y) * view->width + x;
}

/* What a byte of a channel is as a float. */
MR_HOST_DEVICE float mr_finish_float(const struct mr_finish_view *view, uint32_t channel, uint8_t byte)
{
    if (view->exact)
        return view->tables[channel * 256 + byte];
    return fmaf((float)byte, view->scale[channel], view->bias[channel]);
}

/* And the bits of the output element that it becomes, in the low ones of a word. */
MR_HOST_DEVICE uint32_t mr_finish_bits(const struct mr_finish_view *view, uint32_t channel, uint8_t byte)
{
    switch (view->dtype) {
    case MR_F32: return mr_half_bits(mr_finish_float(view, channel, byte));
    case MR_F16: return mr_half_f16(mr_finish_float(view, channel, byte));
    case MR_BF16: return mr_half_bf16(mr_finish_float(view, channel, byte));
    default: return byte;
    }
}

/* Write element i of the output, counted from its first row's first. */
MR_HOST_DEVICE void mr_finish_put(const struct mr_finish_view *view, uint64_t i, uint32_t bits)
{
    switch (view->dtype) {
    case MR_F32: ((uint32_t *)view->out)[i] = bits; break;
    case MR_F16:
    case MR_BF16: ((uint16_t *)view->out)[i] = (uint16_t)bits; break;
    default: ((uint8_t *)view->out)[i] = (uint8_t)bits; break;
    }
}

/* One pixel of a row of the output, all its channels. source: mr_finish_source(), of which NULL gives zeros. */
MR_HOST_DEVICE void mr_finish_pixel(const struct mr_finish_view *view, uint32_t row, const uint8_t *source,
                                    uint32_t flip, uint64_t pixel)
{
    const uint8_t *from = source ? source + mr_finish_mirror(view, flip, pixel) * view->channels : NULL;
    uint64_t to = row * view->row_elements + pixel * view->pixel_stride;
    for (uint32_t c = 0; c < view->out_channels; c++) {
        uint32_t bits = from && c < view->channels ? mr_finish_bits(view, c, from[c]) : 0;
        mr_finish_put(view, to + c * view->channel_stride, bits);
    }
}

#endif
