/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of finishing, one sample and one pixel at a time, for finish.c and for the GPU's
 * kernel (nvcc compiles it for both).
 *
 * Invariant: the product and the sum of a float are one fmaf(), never left to the compiler. Indices
 * have 64 bits, because one sample may have more than 2^32 bytes.
 *
 * A caller makes a view of its job once. For each row it makes a sample, and writes its pixels or,
 * in any order, its elements.
 */
#ifndef PINNED_FINISH_PIXEL_H
#define PINNED_FINISH_PIXEL_H

#include "base/half.h"
#include "pinned/finish_job.h"

#include <math.h>

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
    uint64_t n_pixels;       /* of one sample */
    uint64_t pixel_stride;   /* in the output, from pixel to pixel */
    uint64_t channel_stride; /* from channel to channel */
    uint64_t row_elements;   /* from sample to sample */
    uint64_t source_bytes;   /* from sample to sample in the staging */
    float scale[MR_FINISH_CHANNELS];
    float bias[MR_FINISH_CHANNELS];
    const float *tables;
    const float *normals;
    const uint8_t *mask;
    const struct mr_erase *erases; /* NULL: nothing is erased */
    const uint8_t *staging;
    void *out;
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
    view->n_pixels = (uint64_t)finish->height * finish->width;
    view->pixel_stride = planar ? 1 : finish->out_channels;
    view->channel_stride = planar ? view->n_pixels : 1;
    view->row_elements = view->n_pixels * finish->out_channels;
    view->source_bytes = view->n_pixels * finish->channels;
    memcpy(view->scale, finish->scale, sizeof view->scale);
    memcpy(view->bias, finish->bias, sizeof view->bias);
    view->tables = job->tables;
    view->normals = job->normals;
    view->mask = job->mask;
    view->erases = finish->erases ? job->erases : NULL;
    view->staging = job->staging;
    view->out = job->out;
    view->mix = job->mix;
    if (!finish->mixes)
        view->mix.kind = MR_MIX_NONE;
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

/* A sample as it was copied. */
struct mr_finish_source {
    const uint8_t *pixels;        /* NULL: a hole, which becomes zeros */
    const struct mr_erase *erase; /* NULL: no boxes */
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
    struct mr_finish_source source = {NULL, NULL};
    if (view->mask[i])
        source.pixels = view->staging + i * view->source_bytes;
    if (view->erases && view->erases[i].n > 0)
        source.erase = &view->erases[i];
    return source;
}

/* The sample that row i is mixed with, unless that is a hole or the row itself. */
MR_HOST_DEVICE struct mr_finish_source mr_finish_partner_of(const struct mr_finish_view *view,
                                                            uint32_t i)
{
    uint32_t k = mr_mix_partner(view->mix.rule, i, view->n);
    struct mr_finish_source none = {NULL, NULL};
    if (view->mix.kind == MR_MIX_NONE || k == i || k >= view->n)
        return none;
    return mr_finish_source_at(view, k);
}

MR_HOST_DEVICE void mr_finish_sample_init(struct mr_finish_sample *sample,
                                          const struct mr_finish_view *view, uint32_t i)
{
    sample->own = mr_finish_source_at(view, i);
    sample->partner = mr_finish_partner_of(view, i);
    sample->first = i * view->row_elements;
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
    spot.from += pixel * view->channels;
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
            mixed.own.from = sample->own.pixels + pixel * view->channels;
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
