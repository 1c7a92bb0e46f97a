/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows through one stage. Easy to get wrong: Pillow rounds to u8 between the two passes, so neither their order nor the
 * rounding may change. Sums stay below 2^30 for any usual number of taps and need no clipping then.
 */
#include "transforms/resample.h"

#include "base/checked.h"

#include <string.h>

#define HALF (1u << (MR_WEIGHT_BITS - 1))
/* Weights are rounded one by one, so many of them may sum to more than 1; up to here no sum reaches 256. */
#define MAX_TAPS_UNCLIPPED 16000

static inline uint8_t clip(uint32_t sum)
{
    uint32_t value = sum >> MR_WEIGHT_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

/* Two rows as the halves of 64-bit words: one multiplication then serves both, and no carry reaches the upper half. */
static void pair_rows(const uint8_t *restrict a, const uint8_t *restrict b, uint32_t len, uint64_t *restrict pairs)
{
    for (uint32_t i = 0; i < len; i++)
        pairs[i] = a[i] | (uint64_t)b[i] << 32;
}

/* Channel c of output i is written at c * plane + i * step. */
static inline __attribute__((always_inline)) void filter_pairs(const struct mr_axis *x, uint32_t channels, bool planar,
                                                               uint32_t n_taps, bool clipped,
                                                               const uint64_t *restrict pairs, uint8_t *restrict a,
                                                               uint8_t *restrict b)
{
    const uint32_t *start = x->start;
    const int32_t *weight = x->weight;
    size_t plane = planar ? x->n : 1;
    size_t step = planar ? 1 : channels;
    for (uint32_t i = 0; i < x->n; i++, weight += x->stride, a += step, b += step) {
        const uint64_t *from = pairs + (size_t)start[i] * channels;
        uint64_t sum[3];
        for (uint32_t c = 0; c < channels; c++)
            sum[c] = HALF | (uint64_t)HALF << 32;
        for (uint32_t k = 0; k < n_taps; k++)
            for (uint32_t c = 0; c < channels; c++)
                sum[c] += from[k * channels + c] * (uint32_t)weight[k];
        for (uint32_t c = 0; c < channels; c++) {
            a[c * plane] = clipped ? clip((uint32_t)sum[c]) : (uint8_t)(sum[c] >> MR_WEIGHT_BITS);
            b[c * plane] = clipped ? clip((uint32_t)(sum[c] >> 32)) : (uint8_t)(sum[c] >> (32 + MR_WEIGHT_BITS));
        }
    }
}

/* The usual numbers of taps as constants, so that the inner loops are unrolled. */
static inline __attribute__((always_inline)) void
filter_by_taps(const struct mr_axis *x, uint32_t channels, bool planar, const uint64_t *pairs, uint8_t *a, uint8_t *b)
{
    switch (x->max_taps) {
    case 2: filter_pairs(x, channels, planar, 2, false, pairs, a, b); break;
    case 3: filter_pairs(x, channels, planar, 3, false, pairs, a, b); break;
    case 4: filter_pairs(x, channels, planar, 4, false, pairs, a, b); break;
    case 5: filter_pairs(x, channels, planar, 5, false, pairs, a, b); break;
    default: filter_pairs(x, channels, planar, x->max_taps, x->max_taps > MAX_TAPS_UNCLIPPED, pairs, a, b); break;
    }
}

static void horizontal_c(const struct mr_axis *x, uint32_t channels, bool planar, uint32_t in_width,
                         const uint8_t *const in[2], uint8_t *const out[2], uint64_t *scratch)
{
    pair_rows(in[0], in[1], in_width * channels, scratch);
    if (channels == 1)
        filter_by_taps(x, 1, false, scratch, out[0], out[1]);
    else if (planar)
        filter_by_taps(x, 3, true, scratch, out[0], out[1]);
    else
        filter_by_taps(x, 3, false, scratch, out[0], out[1]);
}

static inline __attribute__((always_inline)) void sum_rows(const uint8_t *const *rows, const int32_t *weight,
                                                           uint32_t n_taps, uint32_t len, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < len; i++) {
        uint32_t sum = HALF;
        for (uint32_t k = 0; k < n_taps; k++)
            sum += (uint32_t)weight[k] * rows[k][i];
        out[i] = (uint8_t)(sum >> MR_WEIGHT_BITS);
    }
}

/* Any number of taps: strips that fit on the stack, one row after the other. */
static void sum_many_rows(const uint8_t *const *rows, const int32_t *weight, uint32_t n_taps, uint32_t len,
                          uint8_t *restrict out)
{
    enum { STRIP = 512 };
    uint32_t sums[STRIP];
    for (uint32_t at = 0; at < len; at += STRIP) {
        uint32_t n = len - at < STRIP ? len - at : STRIP;
        for (uint32_t i = 0; i < n; i++)
            sums[i] = HALF;
        for (uint32_t k = 0; k < n_taps; k++) {
            const uint8_t *row = rows[k] + at;
            uint32_t w = (uint32_t)weight[k];
            for (uint32_t i = 0; i < n; i++)
                sums[i] += w * row[i];
        }
        for (uint32_t i = 0; i < n; i++)
            out[at + i] = clip(sums[i]);
    }
}

static void vertical_c(const uint8_t *const *rows, const int32_t *weight, uint32_t n_taps, uint32_t len, uint8_t *out)
{
    switch (n_taps) {
    case 1: sum_rows(rows, weight, 1, len, out); break;
    case 2: sum_rows(rows, weight, 2, len, out); break;
    case 3: sum_rows(rows, weight, 3, len, out); break;
    case 4: sum_rows(rows, weight, 4, len, out); break;
    default: sum_many_rows(rows, weight, n_taps, len, out); break;
    }
}

const struct mr_resample_ops *mr_resample_ops_default(void)
{
    static const struct mr_resample_ops plain = {.horizontal = horizontal_c, .vertical = vertical_c};
    return &plain;
}

void mr_resample_fini(struct mr_resample *resample)
{
    mr_axis_fini(&resample->x);
    mr_axis_fini(&resample->y);
    mr_scratch_fini(&resample->held);
    mr_scratch_fini(&resample->ring);
    mr_scratch_fini(&resample->pairs);
    mr_scratch_fini(&resample->taps);
    *resample = (struct mr_resample){0};
}

/* The ring holds the taps of one output row and one row more, since rows come in pairs. */
static mr_status reserve(struct mr_resample *r, mr_error *error)
{
    size_t in_len = (size_t)r->in_width * r->channels;
    r->ring_stride = mr_align_up((size_t)r->x.n * r->channels, 64);
    r->ring_rows = r->y.max_taps + 1;
    mr_status status = mr_scratch_reserve(&r->ring, r->ring_rows, r->ring_stride, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&r->held, in_len, 1, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&r->pairs, in_len, sizeof(uint64_t), error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&r->taps, r->ring_rows, sizeof(const uint8_t *), error);
    return status;
}

/* Where row y of the window goes in the output. */
static uint32_t output_row(const struct mr_resample *r, int64_t y)
{
    return (uint32_t)(r->stage->vflip ? r->stage->window.height - 1 - y : y);
}

/* Columns of the output before the live ones. */
static int64_t left_of_live(const struct mr_stage *s)
{
    int64_t before = s->live.x - s->window.x;
    return s->hflip ? s->window.width - before - s->live.width : before;
}

/* Start row y of the window: columns outside the live part become zero; live_out: the first live one of each plane. */
static void open_row(struct mr_resample *r, int64_t y, uint8_t *live_out[3])
{
    const struct mr_stage *s = r->stage;
    size_t pixel = r->channels / r->n_planes;
    size_t before = (size_t)left_of_live(s) * pixel;
    size_t live = (size_t)s->live.width * pixel;
    size_t behind = (size_t)s->window.width * pixel - before - live;
    for (uint32_t p = 0; p < r->n_planes; p++) {
        uint8_t *row = mr_store_target(r->store, output_row(r, y), p);
        if (before)
            memset(row, 0, before);
        if (behind)
            memset(row + before + live, 0, behind);
        live_out[p] = row + before;
    }
}

static void close_row(struct mr_resample *r, int64_t y)
{
    mr_store_commit(r->store, output_row(r, y));
}

static void write_zero_rows(struct mr_resample *r, int64_t from, int64_t to)
{
    size_t len = (size_t)r->stage->window.width * (r->channels / r->n_planes);
    for (int64_t y = from; y < to; y++) {
        for (uint32_t p = 0; p < r->n_planes; p++)
            memset(mr_store_target(r->store, output_row(r, y), p), 0, len);
        close_row(r, y);
    }
}

mr_status mr_resample_begin(struct mr_resample *resample, const struct mr_stage *stage, uint32_t channels,
                            struct mr_store *store, mr_error *error)
{
    struct mr_resample *r = resample;
    r->ops = mr_resample_ops_default();
    r->stage = stage;
    r->store = store;
    r->channels = channels;
    r->n_planes = mr_store_n_planes(store);
    r->n_pushed = r->n_emitted = 0;
    r->n_held = 0;
    if (stage->live.width == 0) {
        write_zero_rows(r, 0, stage->window.height);
        return MR_OK;
    }
    r->in_width = (uint32_t)stage->need.width;
    mr_status status = mr_axis_build(&r->x, stage->source.width, stage->resized_width, stage->live.x, stage->live.width,
                                     stage->hflip, true, error);
    if (status == MR_OK)
        status = mr_axis_build(&r->y, stage->source.height, stage->resized_height, stage->live.y, stage->live.height,
                               false, false, error);
    if (status == MR_OK)
        status = reserve(r, error);
    if (status != MR_OK)
        return status;
    int64_t above = stage->live.y - stage->window.y;
    write_zero_rows(r, 0, above);
    write_zero_rows(r, above + stage->live.height, stage->window.height);
    return MR_OK;
}

/* An interleaved row to rows of planes, the other way round if the axis is reversed. */
static void copy_pixels(const struct mr_resample *r, const uint8_t *in, uint8_t *const out[3])
{
    size_t n = r->x.n, channels = r->channels;
    if (r->n_planes == 1 && !r->x.reversed) {
        memcpy(out[0], in, n * channels);
        return;
    }
    size_t step = r->n_planes == 1 ? channels : 1;
    for (size_t c = 0; c < channels; c++) {
        uint8_t *to = r->n_planes == 1 ? out[0] + c : out[c];
        for (size_t i = 0; i < n; i++)
            to[i * step] = in[(r->x.reversed ? n - 1 - i : i) * channels + c];
    }
}

static uint8_t *ring_row(struct mr_resample *r, uint32_t i)
{
    return (uint8_t *)r->ring.memory + r->ring_stride * (i % r->ring_rows);
}

/* Output row i of the live part from the rows of the ring. */
static void make_row(struct mr_resample *r, uint32_t i, uint32_t start, uint32_t count)
{
    int64_t y = r->stage->live.y - r->stage->window.y + i;
    uint32_t len = r->x.n * (r->channels / r->n_planes);
    const uint8_t **taps = r->taps.memory;
    uint8_t *out[3];
    open_row(r, y, out);
    for (uint32_t p = 0; p < r->n_planes; p++) {
        size_t offset = (size_t)p * len;
        if (r->y.identity) {
            memcpy(out[p], ring_row(r, start) + offset, len);
            continue;
        }
        for (uint32_t k = 0; k < count; k++)
            taps[k] = ring_row(r, start + k) + offset;
        r->ops->vertical(taps, r->y.weight + (size_t)i * r->y.stride, count, len, out[p]);
    }
    close_row(r, y);
}

/* Output rows whose last tap is among the rows pushed so far. */
static void emit(struct mr_resample *r)
{
    while (r->n_emitted < r->y.n) {
        uint32_t i = r->n_emitted;
        uint32_t start = r->y.identity ? i : r->y.start[i];
        uint32_t count = r->y.identity ? 1 : r->y.count[i];
        if (start + count > r->n_pushed)
            return;
        make_row(r, i, start, count);
        r->n_emitted++;
    }
}

/* One row through the stage where no axis is resampled. */
static void push_plain(struct mr_resample *r, const uint8_t *row)
{
    int64_t y = r->stage->live.y - r->stage->window.y + r->n_pushed;
    uint8_t *out[3];
    open_row(r, y, out);
    copy_pixels(r, row, out);
    close_row(r, y);
    r->n_pushed++;
}

static void push_copied(struct mr_resample *r, const uint8_t *row)
{
    uint8_t *to = ring_row(r, r->n_pushed);
    uint8_t *const out[3] = {to, to + r->x.n, to + 2 * (size_t)r->x.n};
    copy_pixels(r, row, out);
    r->n_pushed++;
    emit(r);
}

/* One row (n 1) or two. */
static void push_filtered(struct mr_resample *r, const uint8_t *a, const uint8_t *b, uint32_t n)
{
    const uint8_t *in[2] = {a, n == 2 ? b : a};
    uint8_t *out[2] = {ring_row(r, r->n_pushed), ring_row(r, r->n_pushed + 1)};
    r->ops->horizontal(&r->x, r->channels, r->n_planes > 1, r->in_width, in, out, r->pairs.memory);
    r->n_pushed += n;
    emit(r);
}

static void push_pairs(struct mr_resample *r, const uint8_t *const *rows, uint32_t n_rows)
{
    uint32_t i = 0;
    if (r->n_held && n_rows) {
        r->n_held = 0;
        push_filtered(r, r->held.memory, rows[i++], 2);
    }
    for (; i + 2 <= n_rows; i += 2)
        push_filtered(r, rows[i], rows[i + 1], 2);
    if (i == n_rows)
        return;
    if (r->n_pushed + 1 == (uint32_t)r->stage->need.height) {
        push_filtered(r, rows[i], NULL, 1);
    } else {
        memcpy(r->held.memory, rows[i], (size_t)r->in_width * r->channels);
        r->n_held = 1;
    }
}

void mr_resample_push(struct mr_resample *resample, const uint8_t *const *rows, uint32_t n_rows)
{
    struct mr_resample *r = resample;
    if (!r->x.identity) {
        push_pairs(r, rows, n_rows);
        return;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        if (r->y.identity)
            push_plain(r, rows[i]);
        else
            push_copied(r, rows[i]);
    }
}
