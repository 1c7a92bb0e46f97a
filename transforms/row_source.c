/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the rows of a box, wherever the image is. Planes and interleaved pixels differ only in
 * their steps.
 */
#include "transforms/row_source.h"

#include <string.h>

void mr_row_source_init_pixels(struct mr_row_source *source, const uint8_t *pixels, uint32_t width,
                               uint32_t height, uint32_t channels, mr_layout layout, uint8_t *row)
{
    bool planes = layout == MR_NCHW && channels > 1;
    *source = (struct mr_row_source){
        .pixels = pixels, .n_rows = height, .channels = channels, .row = row};
    source->pixel_step = planes ? 1 : channels;
    source->row_step = width * source->pixel_step;
    source->channel_step = planes ? (size_t)width * height : 1;
}

void mr_row_source_init_part(struct mr_row_source *source, const uint8_t *bytes, size_t len,
                             uint64_t offset, uint32_t width, uint32_t channels)
{
    size_t row_step = (size_t)width * channels;
    /* the end of a row that begins before offset */
    size_t cut = (size_t)(offset % row_step), skip = cut ? row_step - cut : 0;
    *source = (struct mr_row_source){
        .channels = channels, .row_step = row_step, .pixel_step = channels, .channel_step = 1};
    source->first_row = (int64_t)(offset / row_step) + (cut ? 1 : 0);
    if (len < skip)
        return;
    source->pixels = bytes + skip;
    source->n_rows = (int64_t)((len - skip) / row_step);
}

void mr_row_source_init_box(struct mr_row_source *source, const uint8_t *pixels, struct mr_box box)
{
    mr_row_source_init_pixels(source, pixels, (uint32_t)box.width, (uint32_t)box.height, 3, MR_NHWC,
                              NULL);
    source->first_row = box.y;
    source->first_column = box.x;
}

void mr_row_source_init_codec(struct mr_row_source *source, struct mr_codec *codec)
{
    *source = (struct mr_row_source){.codec = codec, .channels = 3};
}

mr_status mr_row_source_begin(struct mr_row_source *source, struct mr_box box, mr_error *error)
{
    source->box = box;
    source->n_given = 0;
    if (!source->codec) {
        if (box.y >= source->first_row && box.y + box.height <= source->first_row + source->n_rows)
            return MR_OK;
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "rows %lld to %lld of the sample's pixels were not read",
                            (long long)box.y, (long long)(box.y + box.height - 1));
    }
    return mr_codec_begin(source->codec, (uint32_t)box.x, (uint32_t)box.y, (uint32_t)box.width,
                          (uint32_t)box.height, error);
}

static const uint8_t *interleave_row(const struct mr_row_source *s, const uint8_t *planes)
{
    for (int64_t x = 0; x < s->box.width; x++)
        for (uint32_t c = 0; c < s->channels; c++)
            s->row[x * s->channels + c] = planes[x + (int64_t)(c * s->channel_step)];
    return s->row;
}

mr_status mr_row_source_rows(struct mr_row_source *source,
                             const uint8_t *rows_out[MR_ROW_SOURCE_MAX], uint32_t *n_out,
                             mr_error *error)
{
    struct mr_row_source *s = source;
    if (s->codec)
        return mr_codec_rows(s->codec, rows_out, MR_ROW_SOURCE_MAX, n_out, error);
    bool planes = s->channel_step != 1;
    int64_t left = s->box.height - s->n_given;
    *n_out = planes ? 1 : left < MR_ROW_SOURCE_MAX ? (uint32_t)left : MR_ROW_SOURCE_MAX;
    for (uint32_t i = 0; i < *n_out; i++, s->n_given++) {
        const uint8_t *row = s->pixels +
                             (size_t)(s->box.y - s->first_row + s->n_given) * s->row_step +
                             (size_t)(s->box.x - s->first_column) * s->pixel_step;
        rows_out[i] = planes ? interleave_row(s, row) : row;
    }
    return MR_OK;
}

/*
 * EXIF's eight orientations: mirrored, upside down, or with rows and columns exchanged, as in
 * Pillow's exif_transpose.
 */
void mr_row_source_turn_row(const uint8_t *row, uint32_t y, uint32_t width, uint32_t height,
                            uint32_t orientation, uint8_t *upright)
{
    bool swaps = orientation >= 5;
    bool mirrors_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    bool mirrors_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    size_t line = mirrors_y ? height - 1 - y : y;
    for (uint32_t x = 0; x < width; x++) {
        size_t column = mirrors_x ? width - 1 - x : x;
        size_t at = swaps ? column * height + line : line * width + column;
        memcpy(upright + 3 * at, row + 3 * (size_t)x, 3);
    }
}
