/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle of the schedules: every byte is a function of (sequence, row, position), so a late,
 * early or mixed-up copy is detected.
 *
 * Invariant: nothing here shares code with pinned/finish*, or both could have the same fault. So
 * 16-bit floats are found by bisection among the values of the format.
 */
#include "tests/pinned/schedule_oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SALT_PIXEL = 1, SALT_LABEL, SALT_INDEX, SALT_GEOMETRY, SALT_KIND };

static uint32_t mix(uint64_t sequence, uint32_t salt, uint32_t row, uint32_t i)
{
    uint32_t h =
        (uint32_t)sequence * 0x9E3779B1u + salt * 0x27D4EB2Fu + row * 0x85EBCA6Bu + i * 0xC2B2AE35u;
    h = (h ^ h >> 15) * 0x2C1B3C6Du;
    h = (h ^ h >> 12) * 0x297A2D39u;
    return h ^ h >> 15;
}

static bool is_hole(uint64_t sequence, uint32_t row)
{
    return mix(sequence, SALT_KIND, row, 0) % 8 == 0;
}

static uint8_t make_pixel(uint64_t sequence, uint32_t row, uint32_t i)
{
    return (uint8_t)(mix(sequence, SALT_PIXEL, row, i) >> 24);
}

static void fill_row(const struct oracle *o, const struct mr_slot_view *view, uint64_t sequence,
                     uint32_t row)
{
    const struct mr_slot_layout *l = &o->layout;
    bool hole = is_hole(sequence, row);
    uint8_t *pixels = view->data + row * l->sample_bytes;
    for (uint32_t i = 0; i < l->sample_bytes; i++)
        pixels[i] = hole && !o->finish.needed ? 0 : make_pixel(sequence, row, i);
    uint8_t *label = mr_slot_row(view, MR_COLUMN_LABEL, row);
    for (uint32_t i = 0; i < l->columns.column[MR_COLUMN_LABEL].row_bytes; i++)
        label[i] = (uint8_t)mix(sequence, SALT_LABEL, row, i);
    *mr_slot_index(view, row) = (int64_t)mix(sequence, SALT_INDEX, row, 0);
    *mr_slot_mask(view, row) = !hole;
    int32_t *geometry = mr_slot_row(view, MR_COLUMN_GEOMETRY, row);
    for (uint32_t i = 0; i < 8; i++)
        geometry[i] = (int32_t)mix(sequence, SALT_GEOMETRY, row, i);
}

void oracle_fill(const struct oracle *oracle, const struct mr_slot_view *view, uint64_t sequence)
{
    for (uint32_t row = 0; row < oracle->layout.batch_size; row++)
        fill_row(oracle, view, sequence, row);
}

void oracle_scribble(const struct oracle *oracle, const struct mr_slot_view *view)
{
    memset(view->data, 0xA5, oracle->layout.used_bytes);
}

/* The value of a positive 16-bit code. */
static double decode(uint32_t dtype, uint32_t code)
{
    if (dtype == MR_BF16) {
        uint32_t bits = code << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    uint32_t exponent = code >> 10;
    double fraction = code & 1023;
    return exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
}

/* The code with the nearest value; of two equally near codes, the even one. */
static uint32_t encode(uint32_t dtype, float value)
{
    double size = fabs((double)value);
    uint32_t low = 0;
    uint32_t high = dtype == MR_BF16 ? 0x7F7F : 0x7BFF;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (decode(dtype, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double below = size - decode(dtype, low);
    double above = decode(dtype, high) - size;
    uint32_t code = below < above || (below == above && low % 2 == 0) ? low : high;
    return code | (signbit(value) ? 0x8000u : 0);
}

uint32_t oracle_value(struct oracle *oracle, uint32_t channel, uint8_t pixel)
{
    const struct mr_finish *f = &oracle->finish;
    uint32_t bits = pixel;
    if (channel >= f->channels || f->dtype == MR_U8)
        return channel >= f->channels ? 0 : bits;
    if (oracle->known[channel][pixel])
        return oracle->bits[channel][pixel];
    float value = f->exact ? f->table[channel][pixel]
                           : fmaf((float)pixel, f->scale[channel], f->bias[channel]);
    if (f->dtype == MR_F32)
        memcpy(&bits, &value, sizeof bits);
    else
        bits = encode(f->dtype, value);
    oracle->known[channel][pixel] = true;
    oracle->bits[channel][pixel] = bits;
    return bits;
}

/* The expected element at (channel, y, x) of a finished row. */
static uint32_t finished(struct oracle *o, uint64_t sequence, uint32_t row, uint32_t channel,
                         uint32_t y, uint32_t x)
{
    const struct mr_finish *f = &o->finish;
    if (is_hole(sequence, row) || channel >= f->channels)
        return 0;
    uint32_t i = (y * f->width + x) * f->channels + channel;
    return oracle_value(o, channel, make_pixel(sequence, row, i));
}

static bool check_finished_row(struct oracle *o, uint64_t sequence, uint32_t row,
                               const uint8_t *image, char why[160])
{
    const struct mr_finish *f = &o->finish;
    size_t size = mr_dtype_size((mr_dtype)f->dtype);
    uint32_t n = f->height * f->width * f->out_channels;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t area = f->height * f->width;
        uint32_t channel = f->layout == MR_NCHW ? i / area : i % f->out_channels;
        uint32_t at = f->layout == MR_NCHW ? i % area : i / f->out_channels;
        uint32_t expected = finished(o, sequence, row, channel, at / f->width, at % f->width);
        uint32_t found = 0;
        memcpy(&found, image + i * size, size);
        if (found != expected) {
            snprintf(why, 160, "batch %llu, row %u, element %u of %u: %#x, not %#x",
                     (unsigned long long)sequence, row, i, n, found, expected);
            return false;
        }
    }
    return true;
}

static bool check_plain_row(const struct oracle *o, uint64_t sequence, uint32_t row,
                            const uint8_t *image, char why[160])
{
    for (uint32_t i = 0; i < o->layout.sample_bytes; i++) {
        uint8_t expected = is_hole(sequence, row) ? 0 : make_pixel(sequence, row, i);
        if (image[i] != expected) {
            snprintf(why, 160, "batch %llu, row %u, byte %u: %u, not %u",
                     (unsigned long long)sequence, row, i, image[i], expected);
            return false;
        }
    }
    return true;
}

bool oracle_check_image(struct oracle *oracle, uint64_t sequence, uint32_t first, uint32_t n,
                        const uint8_t *image, char why[160])
{
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *row = image + i * oracle->row_bytes;
        bool ok = oracle->finish.needed ? check_finished_row(oracle, sequence, first + i, row, why)
                                        : check_plain_row(oracle, sequence, first + i, row, why);
        if (!ok)
            return false;
    }
    return true;
}

static bool differs(const char *what, uint64_t sequence, uint32_t row, char why[160])
{
    snprintf(why, 160, "batch %llu, row %u: wrong %s", (unsigned long long)sequence, row, what);
    return false;
}

bool oracle_check_small(const struct oracle *oracle, uint64_t sequence, uint32_t n,
                        const uint8_t *small, char why[160])
{
    const struct mr_slot_layout *l = &oracle->layout;
    for (uint32_t row = 0; row < n; row++) {
        for (uint32_t i = 0; i < l->columns.column[MR_COLUMN_LABEL].row_bytes; i++)
            if (small[row * l->columns.column[MR_COLUMN_LABEL].row_bytes + i] !=
                (uint8_t)mix(sequence, SALT_LABEL, row, i))
                return differs("label", sequence, row, why);
        int64_t index;
        memcpy(&index,
               small + (l->columns.column[MR_COLUMN_INDEX].off - l->small_off) + row * sizeof index,
               sizeof index);
        if (index != (int64_t)mix(sequence, SALT_INDEX, row, 0))
            return differs("index", sequence, row, why);
        if (small[l->columns.column[MR_COLUMN_MASK].off - l->small_off + row] !=
            !is_hole(sequence, row))
            return differs("mask", sequence, row, why);
        int32_t geometry[8];
        memcpy(geometry,
               small + (l->columns.column[MR_COLUMN_GEOMETRY].off - l->small_off) +
                   row * sizeof geometry,
               sizeof geometry);
        for (uint32_t i = 0; i < 8; i++)
            if (geometry[i] != (int32_t)mix(sequence, SALT_GEOMETRY, row, i))
                return differs("geometry", sequence, row, why);
    }
    return true;
}
