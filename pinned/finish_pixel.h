/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of finishing, one descriptor and one pixel at a time, for finish.c and for the
 * GPU's kernel (nvcc compiles it for both).
 *
 * Invariant: the product and the sum of a float are one fmaf(), never left to the compiler. Indices
 * have 64 bits, because one sample may have more than 2^32 bytes.
 *
 * A caller makes a view of its job once. For each descriptor it finds the row (none: BAD_RANGE, and
 * nothing is written), checks it (if it is not OK or is a hole, zeros are written), and writes its
 * pixels or, in any order, its elements.
 */
#ifndef PINNED_FINISH_PIXEL_H
#define PINNED_FINISH_PIXEL_H

#include "base/half.h"
#include "pinned/finish_job.h"

#include <math.h>

#define MR_NO_ROW UINT32_MAX

/*
 * A job as a kernel gets it, by value: without pointers into the host's memory. Sizes and strides
 * are in elements.
 */
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
    uint64_t channel_stride; /* from channel to channel */
    uint64_t row_elements;   /* from sample to sample */
    float scale[MR_FINISH_CHANNELS];
    float bias[MR_FINISH_CHANNELS];
    const float *tables;
    const float *normals;
    const struct mr_descriptor *descriptors;
    const struct mr_erase *erases; /* NULL: nothing is erased */
    const uint8_t *staging;
    uint64_t staging_off;
    uint64_t staging_len;
    void *out;
    uint32_t *status;
    struct mr_mix mix; /* of kind MR_MIX_NONE if rows are not mixed */
};

/* Called by the host before a launch: reads job->finish. */
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
    view->normals = job->normals;
    view->descriptors = job->descriptors;
    view->erases = finish->erases ? job->erases : NULL;
    view->staging = job->staging;
    view->staging_off = job->staging_off;
    view->staging_len = job->staging_len;
    view->out = job->out;
    view->status = job->status;
    view->mix = job->mix;
    if (!finish->mixes)
        view->mix.kind = MR_MIX_NONE;
}

/* The row of the output that a descriptor fills; MR_NO_ROW if its place is not among this job's. */
MR_HOST_DEVICE uint32_t mr_finish_row(const struct mr_finish_view *view,
                                      const struct mr_descriptor *descriptor)
{
    if (descriptor->place < view->first_place || descriptor->place - view->first_place >= view->n)
        return MR_NO_ROW;
    return descriptor->place - view->first_place;
}

/*
 * True if a sample's bytes are among those that were copied. Subtracts only, so that nothing
 * overflows.
 */
MR_HOST_DEVICE bool mr_finish_is_within(const struct mr_finish_view *view,
                                        const struct mr_descriptor *descriptor)
{
    if (descriptor->len != view->n_pixels * view->channels ||
        descriptor->offset < view->staging_off)
        return false;
    uint64_t from = descriptor->offset - view->staging_off;
    return from <= view->staging_len && descriptor->len <= view->staging_len - from;
}

/* The row's status, enum mr_finished. */
MR_HOST_DEVICE uint32_t mr_finish_check(const struct mr_finish_view *view,
                                        const struct mr_descriptor *descriptor)
{
    if (mr_finish_row(view, descriptor) == MR_NO_ROW)
        return MR_FINISHED_BAD_RANGE;
    if (descriptor->encoding == MR_ENCODING_NONE)
        return MR_FINISHED_OK;
    if (descriptor->encoding != MR_ENCODING_U8)
        return MR_FINISHED_BAD_ENCODING;
    return mr_finish_is_within(view, descriptor) ? MR_FINISHED_OK : MR_FINISHED_BAD_RANGE;
}

/*
 * The pixels of a descriptor; NULL if the output is zeros: a hole, or one that mr_finish_check()
 * refuses.
 */
MR_HOST_DEVICE const uint8_t *mr_finish_source(const struct mr_finish_view *view,
                                               const struct mr_descriptor *descriptor)
{
    if (descriptor->encoding == MR_ENCODING_NONE ||
        mr_finish_check(view, descriptor) != MR_FINISHED_OK)
        return NULL;
    return view->staging + (descriptor->offset - view->staging_off);
}

/*
 * The pixel of the source that becomes a pixel of the output. Only the low two bits of flip are
 * used.
 */
MR_HOST_DEVICE uint64_t mr_finish_mirror(const struct mr_finish_view *view, uint32_t flip,
                                         uint64_t pixel)
{
    flip &= 3;
    if (flip == 0)
        return pixel;
    if (flip == 3)
        return view->n_pixels - 1 - pixel;
    uint64_t y = pixel / view->width;
    uint64_t x = pixel - y * view->width;
    return flip == 1 ? y * view->width + (view->width - 1 - x)
                     : (view->height - 1 - y) * view->width + x;
}

/* The float of a channel's byte. */
MR_HOST_DEVICE float mr_finish_float(const struct mr_finish_view *view, uint32_t channel,
                                     uint8_t byte)
{
    if (view->exact)
        return view->tables[channel * 256 + byte];
    return fmaf((float)byte, view->scale[channel], view->bias[channel]);
}

/* The bits of a float as an output element, in the low bits of a word. */
MR_HOST_DEVICE uint32_t mr_finish_encode(const struct mr_finish_view *view, float value)
{
    switch (view->dtype) {
    case MR_F16: return mr_half_f16(value);
    case MR_BF16: return mr_half_bf16(value);
    default: return mr_half_bits(value);
    }
}

/* The bits of the output element of a channel's byte. */
MR_HOST_DEVICE uint32_t mr_finish_bits(const struct mr_finish_view *view, uint32_t channel,
                                       uint8_t byte)
{
    return view->dtype == MR_U8 ? byte
                                : mr_finish_encode(view, mr_finish_float(view, channel, byte));
}

/* Write element i of the output, counted from the start of row 0. */
MR_HOST_DEVICE void mr_finish_put(const struct mr_finish_view *view, uint64_t i, uint32_t bits)
{
    switch (view->dtype) {
    case MR_F32: ((uint32_t *)view->out)[i] = bits; break;
    case MR_F16:
    case MR_BF16: ((uint16_t *)view->out)[i] = (uint16_t)bits; break;
    default: ((uint8_t *)view->out)[i] = (uint8_t)bits; break;
    }
}

/* A descriptor's sample. */
struct mr_finish_source {
    const uint8_t *pixels;        /* mr_finish_source(); NULL: zeros */
    const struct mr_erase *erase; /* NULL: no boxes */
    uint32_t flip;
};

/* A row of the output: what its pixels have in common. */
struct mr_finish_sample {
    struct mr_finish_source own;
    struct mr_finish_source partner; /* no pixels: the row is not mixed */
    uint64_t first;                  /* index of its first element in the output */
};

MR_HOST_DEVICE struct mr_finish_source mr_finish_source_at(const struct mr_finish_view *view,
                                                           uint32_t i)
{
    const struct mr_descriptor *descriptor = &view->descriptors[i];
    struct mr_finish_source source = {mr_finish_source(view, descriptor), NULL, descriptor->flip};
    if (view->erases && view->erases[i].n > 0)
        source.erase = &view->erases[i];
    return source;
}

/*
 * The sample that descriptor i's is mixed with: the descriptor in the partner's place, unless that
 * is a hole or the row itself.
 */
MR_HOST_DEVICE struct mr_finish_source mr_finish_partner_of(const struct mr_finish_view *view,
                                                            uint32_t i)
{
    uint32_t k = mr_mix_partner(view->mix.rule, i, view->n);
    struct mr_finish_source none = {NULL, NULL, 0};
    if (view->mix.kind == MR_MIX_NONE || k == i || k >= view->n ||
        mr_finish_row(view, &view->descriptors[i]) != i ||
        mr_finish_row(view, &view->descriptors[k]) != k)
        return none;
    return mr_finish_source_at(view, k);
}

/* False if the descriptor has no row. */
MR_HOST_DEVICE bool mr_finish_sample_init(struct mr_finish_sample *sample,
                                          const struct mr_finish_view *view, uint32_t i)
{
    uint32_t row = mr_finish_row(view, &view->descriptors[i]);
    sample->own = mr_finish_source_at(view, i);
    sample->partner = mr_finish_partner_of(view, i);
    sample->first = row * view->row_elements;
    return row != MR_NO_ROW;
}

/* A pixel of one source, and what its channels have in common. */
struct mr_finish_spot {
    const uint8_t *from;          /* its channels in the source; NULL: no pixel */
    const struct mr_erase *erase; /* the box that it is in; NULL: in none */
    uint32_t box;
};

/* A pixel of the output. */
struct mr_finish_mixed {
    struct mr_finish_spot own;
    struct mr_finish_spot partner; /* no pixels: nothing is added */
    uint32_t y;                    /* used only for boxes and mixing */
    uint32_t x;
};

MR_HOST_DEVICE struct mr_finish_spot mr_finish_spot_at(const struct mr_finish_view *view,
                                                       const struct mr_finish_source *source,
                                                       uint64_t pixel, uint32_t y, uint32_t x)
{
    struct mr_finish_spot spot = {source->pixels, NULL, 0};
    if (!source->pixels)
        return spot;
    spot.from += mr_finish_mirror(view, source->flip, pixel) * view->channels;
    int32_t box = source->erase ? mr_erasing_find(source->erase, y, x) : -1;
    if (box >= 0) {
        spot.erase = source->erase;
        spot.box = (uint32_t)box;
    }
    return spot;
}

/*
 * Inside the box of MR_MIX_CUT the partner replaces the row; its own boxes apply only if floats are
 * mixed.
 */
MR_HOST_DEVICE void mr_finish_mix_in(const struct mr_finish_view *view,
                                     const struct mr_finish_sample *sample, uint64_t pixel,
                                     struct mr_finish_mixed *mixed)
{
    bool is_inside = mr_mix_in_box(&view->mix, (int32_t)mixed->x, (int32_t)mixed->y);
    if (view->mix.kind == MR_MIX_CUT && !is_inside)
        return;
    struct mr_finish_spot spot =
        mr_finish_spot_at(view, &sample->partner, pixel, mixed->y, mixed->x);
    if (view->mix.kind == MR_MIX_UP)
        mixed->partner = spot;
    else if (view->mix.rule == MR_MIX_FLOATS)
        mixed->own = spot;
    else
        mixed->own.from = spot.from;
}

MR_HOST_DEVICE struct mr_finish_mixed mr_finish_mixed_at(const struct mr_finish_view *view,
                                                         const struct mr_finish_sample *sample,
                                                         uint64_t pixel)
{
    struct mr_finish_mixed mixed = {{NULL, NULL, 0}, {NULL, NULL, 0}, 0, 0};
    if (!sample->own.erase && !sample->partner.pixels) {
        if (sample->own.pixels)
            mixed.own.from = sample->own.pixels +
                             mr_finish_mirror(view, sample->own.flip, pixel) * view->channels;
        return mixed;
    }
    mixed.y = (uint32_t)(pixel / view->width);
    mixed.x = (uint32_t)(pixel - (uint64_t)mixed.y * view->width);
    mixed.own = mr_finish_spot_at(view, &sample->own, pixel, mixed.y, mixed.x);
    if (mixed.own.from && sample->partner.pixels)
        mr_finish_mix_in(view, sample, pixel, &mixed);
    return mixed;
}

/* The finished float of one channel of a pixel. */
MR_HOST_DEVICE float mr_finish_value(const struct mr_finish_view *view,
                                     const struct mr_finish_spot *spot, uint32_t y, uint32_t x,
                                     uint32_t c)
{
    if (spot->erase)
        return mr_erasing_value(spot->erase, spot->box, y, x, c, view->normals);
    return mr_finish_float(view, c, spot->from[c]);
}

MR_HOST_DEVICE uint32_t mr_finish_mixed_bits(const struct mr_finish_view *view,
                                             const struct mr_finish_mixed *mixed, uint32_t c)
{
    if (!mixed->own.from || c >= view->channels)
        return 0;
    bool adds = mixed->partner.from, of_floats = view->mix.rule == MR_MIX_FLOATS;
    if (!mixed->own.erase && !(adds && of_floats)) {
        uint8_t byte = mixed->own.from[c];
        return mr_finish_bits(view, c,
                              adds ? mr_mix_bytes(&view->mix, byte, mixed->partner.from[c]) : byte);
    }
    float value = mr_finish_value(view, &mixed->own, mixed->y, mixed->x, c);
    if (adds && of_floats)
        value = mr_mix_floats(&view->mix, value,
                              mr_finish_value(view, &mixed->partner, mixed->y, mixed->x, c));
    return mr_finish_encode(view, value);
}

/* Write one pixel, all its channels. */
MR_HOST_DEVICE void mr_finish_pixel(const struct mr_finish_view *view,
                                    const struct mr_finish_sample *sample, uint64_t pixel)
{
    struct mr_finish_mixed mixed = mr_finish_mixed_at(view, sample, pixel);
    uint64_t to = sample->first + pixel * view->pixel_stride;
    for (uint32_t c = 0; c < view->out_channels; c++, to += view->channel_stride)
        mr_finish_put(view, to, mr_finish_mixed_bits(view, &mixed, c));
}

/* Write one element of an interleaved output; the index counts from the row's start. */
MR_HOST_DEVICE void mr_finish_element(const struct mr_finish_view *view,
                                      const struct mr_finish_sample *sample, uint64_t element)
{
    uint64_t pixel = element / view->out_channels;
    struct mr_finish_mixed mixed = mr_finish_mixed_at(view, sample, pixel);
    uint32_t c = (uint32_t)(element - pixel * view->out_channels);
    mr_finish_put(view, sample->first + element, mr_finish_mixed_bits(view, &mixed, c));
}

#endif
