/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds for each column and each row of the output the column or row of the decoded mask that it
 * shows. Most operations treat the axes apart, so this is done once for each axis, from the last
 * operation to the first. Where calls warp the picture, the mask is made up to there, and they are
 * done to it.
 */
#include "transforms/masks/mask_run.h"

#include "transforms/axis.h"
#include "transforms/codec_png.h"
#include "transforms/masks/mask_warp.h"

#include <math.h>
#include <string.h>

enum axis { COLUMNS, ROWS };

void mr_mask_run_fini(struct mr_mask_run *run)
{
    mr_mask_inflate_fini(&run->pixels);
    mr_scratch_fini(&run->columns);
    mr_scratch_fini(&run->images[0]);
    mr_scratch_fini(&run->images[1]);
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
    case MR_OP_PATCH_CROP:
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

/* The decoded mask, or what warps have made of it, and the steps that follow. */
struct source {
    const struct mr_mask_rule *rule;
    const uint8_t *pixels;
    size_t pixel_bytes; /* 1, or 2 or 3 that begin with the high and the low byte */
    size_t row_bytes;
    const struct mr_geometry_step *steps;
    uint32_t n_steps;
};

static int64_t find_source(const struct source *source, enum axis axis, int64_t i)
{
    enum mr_mask_nearest nearest = (enum mr_mask_nearest)source->rule->nearest;
    for (uint32_t s = source->n_steps; s-- > 0 && i >= 0;)
        i = undo_step(&source->steps[s], axis, nearest, i);
    return i;
}

static mr_status find_columns(const struct source *source, uint32_t n, struct mr_scratch *columns,
                              mr_error *error)
{
    mr_status status = mr_scratch_reserve(columns, n, sizeof(int32_t), error);
    for (uint32_t i = 0; i < n && status == MR_OK; i++)
        ((int32_t *)columns->memory)[i] = (int32_t)find_source(source, COLUMNS, i);
    return status;
}

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

/* y is -1 for a row of the fill: NULL. */
static const uint8_t *find_row(const struct source *source, int64_t y)
{
    return y < 0 ? NULL : source->pixels + (size_t)y * source->row_bytes;
}

/* Returns the largest value. */
static uint32_t write_row(const struct source *source, int64_t y, const int32_t *columns,
                          uint32_t n, void *out)
{
    const uint8_t *row = find_row(source, y);
    uint32_t fill = source->rule->fill;
    mr_dtype dtype = (mr_dtype)source->rule->dtype;
    if (source->pixel_bytes > 1)
        return put_row(row, source->pixel_bytes, columns, n, fill, dtype, out);
    switch (dtype) {
    case MR_U8: return put_row(row, 1, columns, n, fill, MR_U8, out);
    case MR_I16: return put_row(row, 1, columns, n, fill, MR_I16, out);
    default: return put_row(row, 1, columns, n, fill, MR_I64, out);
    }
}

static mr_status write_rows(const struct source *source, const int32_t *columns, uint32_t width,
                            uint32_t height, uint8_t *out, mr_error *error)
{
    mr_dtype dtype = (mr_dtype)source->rule->dtype;
    uint32_t limit = dtype == MR_U8 ? UINT8_MAX : dtype == MR_I16 ? INT16_MAX : 65535;
    size_t row_bytes = width * mr_dtype_size(dtype);
    int64_t before = INT64_MAX;
    for (uint32_t i = 0; i < height; i++, out += row_bytes) {
        int64_t y = find_source(source, ROWS, i);
        if (y == before) {
            memcpy(out, out - row_bytes, row_bytes);
            continue;
        }
        before = y;
        uint32_t most = write_row(source, y, columns, width, out);
        if (most > limit)
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "its mask has the value %u, which %s cannot hold", most,
                                mr_dtype_name(dtype));
    }
    return MR_OK;
}

void mr_mask_run_set(struct mr_mask_run *run, const uint8_t *bytes, size_t len)
{
    run->bytes = bytes;
    run->len = len;
    run->is_decoded = false;
}

static mr_status decode(struct mr_mask_run *run, const struct mr_mask_job *job, mr_error *error)
{
    if (run->is_decoded)
        return MR_OK;
    mr_status status = mr_codec_png_read_indices(job->limits, run->bytes, run->len, job->width,
                                                 job->height, &run->pixels, error);
    run->is_decoded = status == MR_OK;
    return status;
}

/* One channel, or three with the high and the low byte first (mask_warp.h). */
static void write_image(const struct source *source, const int32_t *columns,
                        const struct mr_image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = find_row(source, find_source(source, ROWS, y));
        uint8_t *out = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, out += image->n_channels) {
            uint32_t value = !row || columns[x] < 0
                                 ? source->rule->fill
                                 : read_index(row, source->pixel_bytes, columns[x]);
            out[0] = (uint8_t)(image->n_channels == 1 ? value : value >> 8);
            if (image->n_channels == 3)
                out[1] = (uint8_t)value;
        }
    }
}

/* Make the mask up to the step, and do the step's calls to it. It is then the source. */
static mr_status warp_source(struct mr_mask_run *run, const struct mr_mask_job *job, uint32_t step,
                             struct source *source, mr_error *error)
{
    const struct mr_geometry_step *warp = &job->steps->steps[step];
    struct mr_image image = {.width = (uint32_t)warp->width, .height = (uint32_t)warp->height};
    image.n_channels = source->pixel_bytes == 1 && job->rule->fill <= UINT8_MAX ? 1 : 3;
    image.stride = (size_t)image.width * image.n_channels;
    bool is_first = source->pixels == run->images[0].memory;
    struct mr_scratch *to = &run->images[is_first];
    source->n_steps = (uint32_t)(warp - source->steps);
    mr_status status = find_columns(source, image.width, &run->columns, error);
    if (status == MR_OK)
        status =
            mr_scratch_reserve(to, (size_t)image.width * image.height, image.n_channels, error);
    if (status != MR_OK)
        return status;
    image.pixels = to->memory;
    write_image(source, run->columns.memory, &image);
    status = mr_mask_warp_run(job, warp, &image, run->images, error);
    source->pixels = image.pixels;
    source->pixel_bytes = image.n_channels;
    source->row_bytes = image.stride;
    source->steps = warp + 1;
    return status;
}

mr_status mr_mask_run(struct mr_mask_run *run, const struct mr_mask_job *job, void *out,
                      mr_error *error)
{
    const struct mr_geometry_steps *steps = job->steps;
    const struct mr_box *made = &job->geometry->stages[job->geometry->n_stages - 1].window;
    uint32_t out_width = (uint32_t)made->width, out_height = (uint32_t)made->height;
    struct source source = {.rule = job->rule, .steps = steps->steps};
    mr_status status = decode(run, job, error);
    source.pixels = run->pixels.first;
    source.pixel_bytes = run->pixels.pixel_bytes;
    source.row_bytes = run->pixels.row_bytes;
    for (uint32_t i = 0; i < steps->n && status == MR_OK; i++)
        if (mr_mask_warp_is_needed(&steps->steps[i], job->geometry->calls.calls))
            status = warp_source(run, job, i, &source, error);
    source.n_steps = (uint32_t)(steps->steps + steps->n - source.steps);
    if (status == MR_OK)
        status = find_columns(&source, out_width, &run->columns, error);
    if (status != MR_OK)
        return status;
    return write_rows(&source, run->columns.memory, out_width, out_height, out, error);
}
