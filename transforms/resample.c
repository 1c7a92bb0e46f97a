/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes rows through one stage. Four input rows become a strip of the ring. Output rows are made
 * from strips and go to the tensor writer. Usually rows take the horizontal pass on their way into
 * the ring. If the vertical pass comes first, they take it on their way out, four at a time.
 *
 * Invariant: the caller's rows are gone after a push, so rows that do not fill a strip yet are
 * copied.
 */
#include "transforms/resample.h"

#include "base/checked.h"

#include <string.h>

void mr_resample_fini(struct mr_resample *resample)
{
    mr_axis_fini(&resample->x);
    mr_axis_fini(&resample->y);
    mr_scratch_fini(&resample->held);
    mr_scratch_fini(&resample->late);
    mr_scratch_fini(&resample->ring);
    mr_scratch_fini(&resample->horizontal_tables);
    mr_scratch_fini(&resample->vertical_tables);
    mr_scratch_fini(&resample->order);
    mr_scratch_fini(&resample->padded.tables);
    mr_scratch_fini(&resample->padded.rows);
    *resample = (struct mr_resample){0};
}

/* Make room for n times len bytes at a multiple of MR_KERNELS_ALIGN. */
static mr_status reserve_aligned(struct mr_scratch *scratch, size_t n, size_t len, uint8_t **at_out,
                                 mr_error *error)
{
    size_t total;
    if (!mr_checked_mul(n, len, &total) || total > SIZE_MAX - MR_KERNELS_ALIGN)
        return mr_error_memory(error, SIZE_MAX);
    mr_status status = mr_scratch_reserve(scratch, total + MR_KERNELS_ALIGN - 1, 1, error);
    if (status == MR_OK)
        *at_out = mr_scratch_align(scratch, MR_KERNELS_ALIGN);
    return status;
}

/* Build both axes, with the machine's set if they are of a usual size, otherwise in plain C. */
static mr_status build_axes(struct mr_resample *r, mr_error *error)
{
    const struct mr_stage *s = r->stage;
    if (!r->kernels)
        r->kernels = mr_kernels_best();
    bool usual = mr_axis_is_usual(s->interpolation, s->source.width, s->resized_width) &&
                 mr_axis_is_usual(s->interpolation, s->source.height, s->resized_height);
    r->used = usual ? r->kernels : &mr_kernels_c;
    mr_status status =
        mr_axis_build(&r->x, s->interpolation, s->source.width, s->resized_width, s->live.x,
                      s->live.width, s->hflip, true, r->used->fill, error);
    if (status == MR_OK)
        status = mr_axis_build(&r->y, s->interpolation, s->source.height, s->resized_height,
                               s->live.y, s->live.height, false, false, r->used->fill, error);
    return status;
}

/* Pillow 13 filters columns first if that leaves it less to do. A single pass has no order. */
static bool is_vertical_first(const struct mr_resample *r)
{
    const struct mr_stage *s = r->stage;
    int64_t rows_less = s->source.height - s->resized_height,
            columns_less = s->source.width - s->resized_width;
    return !r->x.identity && !r->y.identity && rows_less > 0 && rows_less > 2 * columns_less;
}

/*
 * Prepare what the two passes read. A row of a strip has slack at its end, because loops may write
 * up to four values too many.
 */
static mr_status prepare_passes(struct mr_resample *r, mr_error *error)
{
    size_t stride = mr_align_up((size_t)r->x.pitch * r->channels + 4, MR_KERNELS_ALIGN);
    r->vertical_first = is_vertical_first(r);
    r->horizontal = (struct mr_resample_horizontal){
        .x = &r->x, .channels = r->channels, .row_bytes = (uint32_t)r->row_bytes, .stride = stride};
    r->vertical = (struct mr_resample_vertical){.y = &r->y, .stride = stride};
    if (r->vertical_first)
        r->vertical.stride = mr_align_up(r->row_bytes, MR_KERNELS_ALIGN);
    mr_status status =
        reserve_aligned(&r->horizontal_tables, 1, r->used->horizontal_bytes(&r->horizontal),
                        &r->horizontal.tables, error);
    if (status == MR_OK)
        status = reserve_aligned(&r->vertical_tables, 1, r->used->vertical_bytes(&r->y),
                                 &r->vertical.tables, error);
    if (status != MR_OK)
        return status;
    r->used->horizontal_make(&r->horizontal);
    r->used->vertical_make(&r->vertical);
    return MR_OK;
}

/*
 * The ring holds the taps of one output row, wherever they begin in a strip. Its size is a power of
 * two.
 */
static mr_status reserve_ring(struct mr_resample *r, mr_error *error)
{
    uint32_t need = (r->y.max_taps + 2 * (MR_STRIP_ROWS - 1)) / MR_STRIP_ROWS;
    for (r->n_strips = 1; r->n_strips < need;)
        r->n_strips *= 2;
    r->strip_bytes = r->vertical.stride * r->used->strip_bytes;
    r->held_bytes = r->vertical_first ? r->row_bytes : r->horizontal.row_bytes;
    mr_status status =
        reserve_aligned(&r->ring, r->n_strips, r->strip_bytes, &r->first_strip, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&r->held, MR_STRIP_ROWS, r->held_bytes, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&r->order, 2 * (size_t)r->n_strips, sizeof *r->strips, error);
    r->strips = r->order.memory;
    for (uint32_t i = 0; status == MR_OK && i < r->n_strips; i++)
        r->strips[i] = r->strips[r->n_strips + i] = r->first_strip + i * r->strip_bytes;
    return status;
}

/*
 * vertical_first: make room for one strip of the horizontal pass, and for the rows that it is made
 * from.
 */
static mr_status reserve_late(struct mr_resample *r, mr_error *error)
{
    size_t strip_bytes = r->horizontal.stride * r->used->strip_bytes;
    r->late_bytes = mr_align_up(r->horizontal.row_bytes, MR_KERNELS_ALIGN);
    mr_status status = reserve_aligned(&r->late, 1, strip_bytes + MR_STRIP_ROWS * r->late_bytes,
                                       &r->late_strip, error);
    if (status == MR_OK)
        r->late_rows = r->late_strip + strip_bytes;
    return status;
}

/* Columns of the output before the live ones. */
static int64_t left_of_live(const struct mr_stage *s)
{
    int64_t before = s->live.x - s->window.x;
    return s->hflip ? s->window.width - before - s->live.width : before;
}

/*
 * Find where output rows go. This is done once for an image, because it is a large part of a row's
 * cost.
 */
static void find_output(struct mr_resample *r)
{
    const struct mr_stage *s = r->stage;
    bool any = s->live.width > 0; /* otherwise the row is blank, and all of it is filled */
    uint8_t *first = mr_tensor_write_target(r->writer, 0);
    r->before = any ? (size_t)left_of_live(s) * r->channels : 0;
    r->live_bytes = (size_t)(any ? s->live.width : s->window.width) * r->channels;
    r->after = (size_t)s->window.width * r->channels - r->before - r->live_bytes;
    r->in_place = mr_tensor_write_is_in_place(r->writer);
    r->out_step = (size_t)(mr_tensor_write_target(r->writer, 1) - first);
    r->out = first + r->before;
}

/* Where row y of the window goes in the output. */
static uint32_t output_row(const struct mr_resample *r, int64_t y)
{
    return (uint32_t)(r->stage->vflip ? r->stage->window.height - 1 - y : y);
}

/* Fill len bytes of pixels, at least one. The copied part doubles. */
static void fill_pixels(const struct mr_resample *r, uint8_t *pixels, size_t len)
{
    memcpy(pixels, r->stage->fill, r->channels);
    for (size_t n = r->channels; n < len; n *= 2)
        memcpy(pixels + n, pixels, n < len - n ? n : len - n);
}

/*
 * Start output row y: columns outside the live part are filled. Returns the place of the first live
 * column.
 */
static uint8_t *open_row(struct mr_resample *r, uint32_t y)
{
    uint8_t *row = r->out + y * r->out_step;
    if (r->before)
        fill_pixels(r, row - r->before, r->before);
    if (r->after)
        fill_pixels(r, row + r->live_bytes, r->after);
    return row;
}

static void close_row(struct mr_resample *r, uint32_t y)
{
    if (!r->in_place)
        mr_tensor_write_commit(r->writer, y);
}

static void write_filled_rows(struct mr_resample *r, int64_t from, int64_t to)
{
    for (int64_t y = from; y < to; y++) {
        uint32_t row = output_row(r, y);
        fill_pixels(r, open_row(r, row), r->live_bytes);
        close_row(r, row);
    }
}

static bool copies_rows(const struct mr_resample *r)
{
    return r->stage->is_padded || (r->x.identity && r->y.identity);
}

/* Where row i of the live part goes in the output. */
static uint32_t live_row(const struct mr_resample *r, uint32_t i)
{
    return output_row(r, r->stage->live.y - r->stage->window.y + i);
}

/* Write live row i, which is not resampled. */
static void put_copied(struct mr_resample *r, uint32_t i, const uint8_t *row)
{
    uint32_t y = live_row(r, i);
    if (!r->in_place && !r->stage->hflip && r->before + r->after == 0) {
        mr_tensor_write_commit_row(r->writer, row, y);
        return;
    }
    uint8_t *out = open_row(r, y);
    if (!r->stage->hflip)
        memcpy(out, row, r->live_bytes);
    else
        r->writer->kernels->mirror(row, (uint32_t)r->stage->live.width, r->channels, out);
    close_row(r, y);
}

/* Padded stages. */

#define NO_ROW UINT32_MAX

static void fill_places(const struct mr_stage *s, uint32_t *columns, uint32_t *first,
                        uint32_t *next)
{
    int64_t left, right, top, bottom;
    mr_padding_span(s->padding_mode, s->source.width, s->live.x, s->live.width, &left, &right);
    mr_padding_span(s->padding_mode, s->source.height, s->live.y, s->live.height, &top, &bottom);
    for (int64_t i = 0; i < s->live.width; i++)
        columns[i] =
            (uint32_t)(mr_padding_place(s->padding_mode, s->source.width, s->live.x + i) - left);
    for (int64_t i = 0; i < s->need.height; i++)
        first[i] = NO_ROW;
    for (int64_t i = s->live.height; i-- > 0;) {
        uint32_t *chain =
            &first[mr_padding_place(s->padding_mode, s->source.height, s->live.y + i) - top];
        next[i] = *chain;
        *chain = (uint32_t)i;
    }
}

static mr_status begin_padded(struct mr_resample *r, mr_error *error)
{
    const struct mr_stage *s = r->stage;
    struct padded *p = &r->padded;
    size_t n_places = (size_t)s->live.width + (size_t)s->need.height + (size_t)s->live.height;
    mr_status status = mr_scratch_reserve(&p->tables, n_places, sizeof *p->columns, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&p->rows, (size_t)s->live.width, r->channels, error);
    if (status != MR_OK)
        return status;
    p->columns = p->tables.memory;
    p->first = p->columns + s->live.width;
    p->next = p->first + s->need.height;
    p->row = p->rows.memory;
    fill_places(s, p->columns, p->first, p->next);
    return MR_OK;
}

/* Write columns [from, to) of a live row, one by one. */
static void pad_columns(struct mr_resample *r, const uint8_t *row, int64_t from, int64_t to)
{
    size_t n = r->channels;
    for (int64_t i = from; i < to; i++)
        memcpy(r->padded.row + (size_t)i * n, row + r->padded.columns[i] * n, n);
}

static int64_t clamp_place(int64_t i, int64_t hi)
{
    return i < 0 ? 0 : i > hi ? hi : i;
}

/* Write one row to all places that show it. */
static void push_padded(struct mr_resample *r, const uint8_t *row)
{
    const struct mr_stage *s = r->stage;
    struct padded *p = &r->padded;
    size_t n = r->channels;
    int64_t left = clamp_place(-s->live.x, s->live.width);
    int64_t right = clamp_place(s->source.width - s->live.x, s->live.width);
    uint32_t i = p->first[r->n_pushed++];
    if (i == NO_ROW)
        return;
    pad_columns(r, row, 0, left < right ? left : s->live.width);
    if (left < right) {
        memcpy(p->row + (size_t)left * n, row + p->columns[left] * n, (size_t)(right - left) * n);
        pad_columns(r, row, right, s->live.width);
    }
    for (; i != NO_ROW; i = p->next[i])
        put_copied(r, i, p->row);
}

mr_status mr_resample_begin(struct mr_resample *resample, const struct mr_stage *stage,
                            uint32_t channels, struct mr_tensor_writer *writer, mr_error *error)
{
    struct mr_resample *r = resample;
    r->stage = stage;
    r->writer = writer;
    r->channels = channels;
    r->n_pushed = r->n_in_ring = r->n_emitted = 0;
    if (stage->window.width == 0 || stage->window.height == 0)
        return MR_OK; /* the writer may have no memory either */
    find_output(r);
    if (stage->live.width == 0) {
        write_filled_rows(r, 0, stage->window.height);
        return MR_OK;
    }
    r->row_bytes = (size_t)stage->need.width * channels;
    mr_status status = stage->is_padded ? begin_padded(r, error) : build_axes(r, error);
    if (status == MR_OK && !copies_rows(r))
        status = prepare_passes(r, error);
    if (status == MR_OK && !copies_rows(r))
        status = reserve_ring(r, error);
    if (status == MR_OK && !copies_rows(r) && r->vertical_first)
        status = reserve_late(r, error);
    if (status != MR_OK)
        return status;
    int64_t above = stage->live.y - stage->window.y;
    write_filled_rows(r, 0, above);
    write_filled_rows(r, above + stage->live.height, stage->window.height);
    return MR_OK;
}

/* Take one row through a stage in which no axis is resampled. */
static void push_copied(struct mr_resample *r, const uint8_t *row)
{
    if (r->stage->is_padded)
        push_padded(r, row);
    else
        put_copied(r, r->n_pushed++, row);
}

/* The strip of the ring that has input row `row`. */
static uint32_t find_strip(const struct mr_resample *r, uint32_t row)
{
    return row / MR_STRIP_ROWS & (r->n_strips - 1);
}

/* vertical_first: take the waiting rows, up to `last`, through the horizontal pass. */
static void finish_rows(struct mr_resample *r, uint32_t last)
{
    const uint8_t *rows[MR_STRIP_ROWS];
    uint32_t first = last / MR_STRIP_ROWS * MR_STRIP_ROWS;
    for (uint32_t i = 0; i < MR_STRIP_ROWS; i++)
        rows[i] = r->late_rows + (first + i < last ? i : last - first) * r->late_bytes;
    r->used->horizontal(&r->horizontal, rows, r->late_strip);
    for (uint32_t i = first; i <= last; i++) {
        uint32_t y = live_row(r, i);
        r->used->take_row(r->late_strip, r->horizontal.stride, i - first, (uint32_t)r->live_bytes,
                          open_row(r, y));
        close_row(r, y);
    }
}

/* Make output row i of the live part. */
static void make_row(struct mr_resample *r, uint32_t i)
{
    const uint8_t *const *strips = r->strips + find_strip(r, r->y.start[i]);
    if (r->vertical_first) {
        r->used->vertical(&r->vertical, i, strips, (uint32_t)r->row_bytes,
                          r->late_rows + i % MR_STRIP_ROWS * r->late_bytes);
        if (i % MR_STRIP_ROWS == MR_STRIP_ROWS - 1 || i + 1 == r->y.n)
            finish_rows(r, i);
        return;
    }
    uint32_t y = live_row(r, i);
    r->used->vertical(&r->vertical, i, strips, (uint32_t)r->live_bytes, open_row(r, y));
    close_row(r, y);
}

/* Make the output rows whose last tap is in the ring. */
static void emit_rows(struct mr_resample *r)
{
    for (; r->n_emitted < r->y.n; r->n_emitted++) {
        uint32_t i = r->n_emitted;
        if (r->y.start[i] + r->y.count[i] > r->n_in_ring)
            return;
        make_row(r, i);
    }
}

/* The waiting rows become a strip. After the last row of the input that row is repeated. */
static void make_strip(struct mr_resample *r)
{
    for (uint32_t i = r->n_pushed - r->n_in_ring; i < MR_STRIP_ROWS; i++)
        r->waiting[i] = r->waiting[i - 1];
    uint8_t *strip = r->first_strip + find_strip(r, r->n_in_ring) * r->strip_bytes;
    if (r->vertical_first)
        r->used->put_rows(r->waiting, (uint32_t)r->row_bytes, r->vertical.stride, strip);
    else
        r->used->horizontal(&r->horizontal, r->waiting, strip);
    r->n_in_ring = r->n_pushed;
    emit_rows(r);
}

/* Copy a waiting row, with enough bytes for the loops. */
static void hold_row(struct mr_resample *r, uint32_t i)
{
    uint8_t *to = (uint8_t *)r->held.memory + (size_t)i * r->held_bytes;
    if (r->waiting[i] != to)
        memcpy(to, r->waiting[i], r->row_bytes);
    r->waiting[i] = to;
}

static void push_resampled(struct mr_resample *r, const uint8_t *row)
{
    uint32_t i = r->n_pushed - r->n_in_ring;
    r->waiting[i] = row;
    if (r->held_bytes > r->row_bytes)
        hold_row(r, i);
    r->n_pushed++;
    if (i + 1 == MR_STRIP_ROWS || r->n_pushed == (uint32_t)r->stage->need.height)
        make_strip(r);
}

void mr_resample_push(struct mr_resample *resample, const uint8_t *const *rows, uint32_t n_rows)
{
    struct mr_resample *r = resample;
    bool copies = copies_rows(r);
    for (uint32_t i = 0; i < n_rows; i++) {
        if (copies)
            push_copied(r, rows[i]);
        else
            push_resampled(r, rows[i]);
    }
    for (uint32_t i = 0; !copies && i < r->n_pushed - r->n_in_ring; i++)
        hold_row(r, i);
}
