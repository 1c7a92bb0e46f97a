/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds for each column and each row of the output the column or row of the decoded mask that it
 * shows. All operations that move masks treat the axes apart, so this is done once for each axis,
 * from the last operation to the first.
 */
#include "transforms/masks/mask_run.h"

#include "transforms/axis.h"
#include "transforms/codec_png.h"

#include <math.h>
#include <string.h>

enum axis { COLUMNS, ROWS };

void mr_mask_run_fini(struct mr_mask_run *run)
{
    mr_mask_inflate_fini(&run->pixels);
    mr_scratch_fini(&run->columns);
}

/* torch computes the scale and the product in f32. */
static int64_t find_torch_nearest(int64_t in, int64_t out, int64_t i)
{
    float scale = (float)in / (float)out;
    int64_t nearest = (int64_t)floorf((float)i * scale);
    return nearest < in ? nearest : in - 1;
}

static int64_t find_nearest(enum mr_mask_nearest rule, int64_t in, int64_t out, int64_t i)
{
    int64_t first, end;
    if (in == out)
        return i;
    if (rule == MR_MASK_NEAREST_TORCH)
        return find_torch_nearest(in, out, i);
    mr_axis_span(MR_NEAREST, in, out, i, 1, &first, &end);
    return first;
}

/* The place of the step's input that place i of its output shows; -1: the fill. */
static int64_t undo_step(const struct mr_geometry_step *step, enum axis axis,
                         enum mr_mask_nearest rule, int64_t i)
{
    bool along_x = axis == COLUMNS;
    int64_t size = along_x ? step->width : step->height;
    int64_t start = along_x ? step->box.x : step->box.y;
    int64_t cut = along_x ? step->box.width : step->box.height;
    int64_t resized = along_x ? step->resized_width : step->resized_height;
    switch ((enum mr_op_kind)step->op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP: return start + find_nearest(rule, cut, resized, i);
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RANDOM_RESIZE:
    case MR_OP_RANDOM_SHORTEST_SIZE:
    case MR_OP_SCALE_JITTER:
    case MR_OP_RESIZE: return find_nearest(rule, size, resized, i);
    case MR_OP_LETTERBOX:
        i = mr_padding_place(MR_PADDING_CONSTANT, resized, start + i);
        return i < 0 ? i : find_nearest(rule, size, resized, i);
    case MR_OP_RANDOM_IOU_CROP:
    case MR_OP_CENTER_CROP: return mr_padding_place(MR_PADDING_CONSTANT, size, start + i);
    case MR_OP_RANDOM_CROP:
    case MR_OP_PAD:
    case MR_OP_PAD_IF_SMALLER:
    case MR_OP_FIXED_SIZE_CROP:
    case MR_OP_RANDOM_ZOOM_OUT:
        return mr_padding_place((enum mr_padding_mode)step->op->padding_mode, size, start + i);
    case MR_OP_HFLIP: return along_x && step->flips ? size - 1 - i : i;
    case MR_OP_VFLIP: return !along_x && step->flips ? size - 1 - i : i;
    default: return i;
    }
}

static int64_t find_source(const struct mr_geometry_steps *steps, enum axis axis,
                           enum mr_mask_nearest rule, int64_t i)
{
    for (uint32_t s = steps->n; s-- > 0 && i >= 0;)
        i = undo_step(&steps->steps[s], axis, rule, i);
    return i;
}

/* The decoded mask. */
struct source {
    const uint8_t *pixels;
    size_t pixel_bytes; /* 1, or 2 with the high byte first */
    size_t row_bytes;
};

static inline uint32_t read_index(const uint8_t *row, size_t pixel_bytes, int64_t x)
{
    const uint8_t *pixel = row + (size_t)x * pixel_bytes;
    return pixel_bytes == 1 ? pixel[0] : (uint32_t)pixel[0] << 8 | pixel[1];
}

/* Returns the largest value. Inlined, so that the loop does not ask for what all pixels share. */
static inline __attribute__((always_inline)) uint32_t
put_row(const uint8_t *row, size_t pixel_bytes, const int32_t *columns, uint32_t n, uint32_t fill,
        mr_dtype dtype, void *out)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = !row || columns[i] < 0 ? fill : read_index(row, pixel_bytes, columns[i]);
        most = value > most ? value : most;
        switch (dtype) {
        case MR_U8: ((uint8_t *)out)[i] = (uint8_t)value; break;
        case MR_I16: ((int16_t *)out)[i] = (int16_t)value; break;
        default: ((int64_t *)out)[i] = (int64_t)value; break;
        }
    }
    return most;
}

/* Returns the largest value. y is -1 for a row of the fill. */
static uint32_t write_row(const struct source *source, int64_t y, const int32_t *columns,
                          uint32_t n, uint32_t fill, mr_dtype dtype, void *out)
{
    const uint8_t *row = y < 0 ? NULL : source->pixels + (size_t)y * source->row_bytes;
    if (source->pixel_bytes > 1)
        return put_row(row, source->pixel_bytes, columns, n, fill, dtype, out);
    switch (dtype) {
    case MR_U8: return put_row(row, 1, columns, n, fill, MR_U8, out);
    case MR_I16: return put_row(row, 1, columns, n, fill, MR_I16, out);
    default: return put_row(row, 1, columns, n, fill, MR_I64, out);
    }
}

static mr_status write_rows(const struct mr_mask_rule *rule, const struct mr_geometry_steps *steps,
                            const struct mr_mask_size *size, const struct source *source,
                            const int32_t *columns, uint8_t *out, mr_error *error)
{
    uint32_t limit = rule->dtype == MR_U8 ? UINT8_MAX : rule->dtype == MR_I16 ? INT16_MAX : 65535;
    size_t row_bytes = size->out_width * mr_dtype_size((mr_dtype)rule->dtype);
    int64_t before = INT64_MAX;
    for (uint32_t i = 0; i < size->out_height; i++, out += row_bytes) {
        int64_t y = find_source(steps, ROWS, (enum mr_mask_nearest)rule->nearest, i);
        if (y == before) {
            memcpy(out, out - row_bytes, row_bytes);
            continue;
        }
        before = y;
        uint32_t most =
            write_row(source, y, columns, size->out_width, rule->fill, (mr_dtype)rule->dtype, out);
        if (most > limit)
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "its mask has the value %u, which %s "
                                "cannot hold",
                                most, mr_dtype_name((mr_dtype)rule->dtype));
    }
    return MR_OK;
}

void mr_mask_run_set(struct mr_mask_run *run, const uint8_t *bytes, size_t len)
{
    run->bytes = bytes;
    run->len = len;
    run->is_decoded = false;
}

static mr_status decode(struct mr_mask_run *run, const struct mr_codec_limits *limits,
                        uint32_t width, uint32_t height, mr_error *error)
{
    if (run->is_decoded)
        return MR_OK;
    mr_status status =
        mr_codec_png_read_indices(limits, run->bytes, run->len, width, height, &run->pixels, error);
    run->is_decoded = status == MR_OK;
    return status;
}

mr_status mr_mask_run(struct mr_mask_run *run, const struct mr_mask_rule *rule,
                      const struct mr_codec_limits *limits, const struct mr_geometry_steps *steps,
                      const struct mr_mask_size *size, void *out, mr_error *error)
{
    struct source source;
    mr_status status = decode(run, limits, size->width, size->height, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&run->columns, size->out_width, sizeof(int32_t), error);
    if (status != MR_OK)
        return status;
    source.pixels = run->pixels.first;
    source.pixel_bytes = run->pixels.pixel_bytes;
    source.row_bytes = run->pixels.row_bytes;
    int32_t *columns = (void *)run->columns.memory;
    for (uint32_t i = 0; i < size->out_width; i++)
        columns[i] = (int32_t)find_source(steps, COLUMNS, (enum mr_mask_nearest)rule->nearest, i);
    return write_rows(rule, steps, size, &source, columns, out, error);
}
