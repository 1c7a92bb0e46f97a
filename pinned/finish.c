/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes samples on the host, one after the other. Each channel's 256 values are computed once
 * per batch and then looked up.
 */
#include "pinned/finish.h"

#include "pinned/finish_pixel.h"

uint64_t mr_finish_out_bytes(const struct mr_finish *finish)
{
    uint64_t elements = (uint64_t)finish->height * finish->width * finish->out_channels;
    return elements * mr_dtype_size((mr_dtype)finish->dtype);
}

struct lookup {
    uint32_t bits[MR_FINISH_CHANNELS][256];
};

static void fill_lookup(struct lookup *lookup, const struct mr_finish_view *view)
{
    for (uint32_t c = 0; c < view->channels; c++)
        for (uint32_t x = 0; x < 256; x++)
            lookup->bits[c][x] = mr_finish_bits(view, c, (uint8_t)x);
}

static void put_zeros(const struct mr_finish_view *view, uint32_t row)
{
    uint64_t row_bytes = view->row_elements * mr_dtype_size((mr_dtype)view->dtype);
    memset((uint8_t *)view->out + row * row_bytes, 0, row_bytes);
}

/* Channels that the pixels lack are zero already. */
static void put_channel(const struct mr_finish_view *view, const struct lookup *lookup,
                        const struct mr_finish_sample *sample, uint32_t c)
{
    const uint8_t *from = sample->own.pixels + c;
    uint64_t to = sample->first + c * view->channel_stride;
    for (uint64_t pixel = 0; pixel < view->n_pixels; pixel++)
        mr_finish_put(view, to + pixel * view->pixel_stride,
                      lookup->bits[c][from[pixel * view->channels]]);
}

static void erase_boxes(const struct mr_finish_view *view, const struct mr_erase *erase,
                        uint32_t row)
{
    uint64_t row_bytes = view->row_elements * mr_dtype_size((mr_dtype)view->dtype);
    const struct mr_erasing_tensor tensor = {.data = (uint8_t *)view->out + row * row_bytes,
                                             .dtype = (mr_dtype)view->dtype,
                                             .height = view->height,
                                             .width = view->width,
                                             .channels = view->channels,
                                             .pixel_stride = view->pixel_stride,
                                             .channel_stride = view->channel_stride};
    mr_erasing_run(erase, &tensor);
}

/* Pixel by pixel: the lookup has no mixed values. */
static void mix_row(const struct mr_finish_view *view, const struct mr_finish_sample *sample)
{
    for (uint64_t pixel = 0; pixel < view->n_pixels; pixel++)
        mr_finish_pixel(view, sample, pixel);
}

static void finish_one(const struct mr_finish_view *view, const struct lookup *lookup, uint32_t i)
{
    struct mr_finish_sample sample;
    mr_finish_sample_init(&sample, view, i);
    bool has_pixels = sample.own.pixels;
    if (has_pixels && sample.partner.pixels) {
        mix_row(view, &sample);
        return;
    }
    if (!has_pixels || view->out_channels > view->channels)
        put_zeros(view, i);
    for (uint32_t c = 0; has_pixels && c < view->channels; c++)
        put_channel(view, lookup, &sample, c);
    if (has_pixels && view->erases)
        erase_boxes(view, &view->erases[i], i);
}

void mr_finish_run(const struct mr_finish_job *job)
{
    struct mr_finish_view view;
    mr_finish_view_init(&view, job);
    struct lookup lookup;
    fill_lookup(&lookup, &view);
    for (uint32_t i = 0; i < job->n; i++)
        finish_one(&view, &lookup, i);
}
