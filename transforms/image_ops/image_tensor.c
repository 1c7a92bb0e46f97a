/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each step is rounded to f32 as in torch, whose v1 functions multiply and add in two steps and
 * whose v2 functions use fused multiply-add. Means are of exact sums.
 */
#include "transforms/image_ops/image_tensor.h"

#include "transforms/image_ops/image_warp.h"
#include "transforms/interpolation.h"
#include "transforms/simd/kernels.h"

#include <math.h>
#include <string.h>

static uint8_t cut(float value)
{
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
}

/* `to` at factor 1, `from` at factor 0. */
static uint8_t blend(float from, uint8_t to, double factor, bool is_v2)
{
    float part = (float)factor * (float)to, rest = (float)(1.0 - factor);
    return cut(is_v2 ? fmaf(rest, from, part) : part + rest * from);
}

static uint8_t find_gray(const uint8_t *pixel, bool is_v2)
{
    float gray = 0.2989f * (float)pixel[0], green = (float)pixel[1], blue = (float)pixel[2];
    return (uint8_t)(is_v2 ? fmaf(0.114f, blue, fmaf(0.587f, green, gray))
                           : gray + 0.587f * green + 0.114f * blue);
}

static void fill_table(float from, double factor, bool is_v2, uint32_t n_channels,
                       struct mr_image_table *table_out)
{
    for (uint32_t c = 0; c < n_channels; c++)
        for (uint32_t x = 0; x < 256; x++)
            table_out->bytes[c][x] = blend(from, (uint8_t)x, factor, is_v2);
}

void mr_image_tensor_brightness(const struct mr_image_call *call, const struct mr_image *image,
                                const struct mr_kernel_ops *kernels,
                                struct mr_image_table *table_out)
{
    (void)kernels;
    fill_table(0.0f, call->args[0], call->args[1] > 0.0, image->n_channels, table_out);
}

void mr_image_tensor_contrast(const struct mr_image_call *call, const struct mr_image *image,
                              const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)kernels;
    bool is_v2 = call->args[1] > 0.0;
    uint64_t sum = 0, n = (uint64_t)image->width * image->height;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *pixel = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, pixel += image->n_channels)
            sum += image->n_channels == 3 ? find_gray(pixel, is_v2) : *pixel;
    }
    fill_table((float)sum / (float)n, call->args[0], is_v2, image->n_channels, table_out);
}

void mr_image_tensor_saturation(const struct mr_image_call *call, struct mr_image *image,
                                const struct mr_kernel_ops *kernels)
{
    (void)kernels;
    bool is_v2 = call->args[1] > 0.0;
    for (uint32_t y = 0; image->n_channels == 3 && y < image->height; y++) {
        uint8_t *pixel = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, pixel += 3) {
            float gray = (float)find_gray(pixel, is_v2);
            for (uint32_t c = 0; c < 3; c++)
                pixel[c] = blend(gray, pixel[c], call->args[0], is_v2);
        }
    }
}

/*
 * The mean of 3 x 3 values, where the centre counts five times. Multiples of 1/13 are never half
 * way between bytes, so the convolution's roundings do not matter.
 */
static uint8_t smooth(const uint8_t *value, size_t step, size_t stride)
{
    uint32_t sum = 4u * *value;
    const uint8_t *row = value - stride - step;
    for (int y = 0; y < 3; y++, row += stride)
        sum += row[0] + row[step] + row[2 * step];
    return (uint8_t)((2 * sum + 13) / 26);
}

static uint8_t sharpen(uint8_t value, uint8_t smoothed, double factor, bool is_v2)
{
    float from = (float)smoothed, to = (float)value;
    return is_v2 ? cut(fmaf((float)(1.0 - factor), from - to, to))
                 : blend(from, value, factor, false);
}

/* The outermost pixels are their own mean; in v1 the blend may still change them. */
mr_status mr_image_tensor_sharpness(const struct mr_image_call *call, struct mr_image *from,
                                    struct mr_image *to, const struct mr_kernel_ops *kernels,
                                    mr_error *error)
{
    (void)kernels;
    (void)error;
    bool is_v2 = call->args[1] > 0.0, is_small = from->width < 3 || from->height < 3;
    size_t step = from->n_channels, len = from->width * step;
    for (uint32_t y = 0; y < from->height; y++) {
        const uint8_t *row = from->pixels + y * from->stride;
        uint8_t *out = to->pixels + y * to->stride;
        bool is_inner = y > 0 && y + 1 < from->height;
        if (is_small)
            memcpy(out, row, len);
        for (size_t i = 0; !is_small && i < len; i++) {
            bool has_mean = is_inner && i >= step && i < len - step;
            out[i] = sharpen(row[i], has_mean ? smooth(row + i, step, from->stride) : row[i],
                             call->args[0], is_v2);
        }
    }
    return MR_OK;
}

static void find_range(const struct mr_image *image, uint32_t c, uint8_t *least_out,
                       uint8_t *greatest_out)
{
    uint8_t least = 255, greatest = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *value = image->pixels + y * image->stride + c;
        for (uint32_t x = 0; x < image->width; x++, value += image->n_channels) {
            least = *value < least ? *value : least;
            greatest = *value > greatest ? *value : greatest;
        }
    }
    *least_out = least;
    *greatest_out = greatest;
}

void mr_image_tensor_autocontrast(const struct mr_image_call *call, const struct mr_image *image,
                                  const struct mr_kernel_ops *kernels,
                                  struct mr_image_table *table_out)
{
    (void)kernels;
    bool is_v2 = call->args[0] > 0.0;
    for (uint32_t c = 0; c < image->n_channels; c++) {
        uint8_t least, greatest;
        find_range(image, c, &least, &greatest);
        float range = (float)(greatest - least), scale = 1.0f / range * 255.0f,
              divisor = range * (float)(1.0 / 255.0);
        for (int x = 0; x < 256; x++) {
            float above = (float)(x - least);
            table_out->bytes[c][x] = greatest == least ? (uint8_t)x
                                     : is_v2           ? cut(above / divisor)
                                                       : cut(above * scale);
        }
    }
}

/* look: interpolation, fill[3] */
static struct mr_warp_grid make_grid(const double *look, bool is_v2, const struct mr_image *from,
                                     const struct mr_image *to)
{
    struct mr_warp_grid grid = {.pixels = from->pixels,
                                .stride = from->stride,
                                .width = from->width,
                                .height = from->height,
                                .out_width = to->width,
                                .out_height = to->height,
                                .step = from->n_channels,
                                .filter =
                                    look[0] == MR_NEAREST ? MR_WARP_NEAREST : MR_WARP_BILINEAR,
                                .border = isnan(look[1]) ? MR_WARP_ZEROS
                                          : is_v2        ? MR_WARP_FILL_V2
                                                         : MR_WARP_FILL};
    for (int c = 0; c < 3 && grid.border != MR_WARP_ZEROS; c++)
        grid.fill[c] = (float)look[1 + c];
    return grid;
}

/* a: the inverse matrix, around the image's middle. */
static mr_status run_grid(struct mr_warp_grid *grid, const double a[6], struct mr_image *to,
                          const struct mr_kernel_ops *kernels)
{
    for (int i = 0; i < 6; i++)
        grid->theta[i] = (float)a[i] / (float)(0.5 * (i < 3 ? grid->width : grid->height));
    for (uint32_t y = 0; y < to->height; y++)
        kernels->image->warp->grid(grid, y, to->pixels + y * to->stride);
    return MR_OK;
}

/* affine: args of mr_image_warp_invert(). x, y: the center in pixels; NaN: the middle. */
static mr_status warp_around(const double *affine, double x, double y, const double *look,
                             bool is_v2, const struct mr_image *from, struct mr_image *to,
                             const struct mr_kernel_ops *kernels)
{
    double a[6];
    mr_image_warp_invert(affine, isnan(x) ? 0.0 : x - from->width * 0.5,
                         isnan(x) ? 0.0 : y - from->height * 0.5, is_v2, a);
    struct mr_warp_grid grid = make_grid(look, is_v2, from, to);
    return run_grid(&grid, a, to, kernels);
}

/* rotate_image() turns by these angles without a grid. */
static bool is_turn(const struct mr_image_call *call, const struct mr_image *from)
{
    double angle = mr_image_warp_wrap(call->args[0]);
    bool fits = call->kind == MR_CALL_ROTATE_EXPAND || from->width == from->height;
    return isnan(call->args[5]) && fmod(angle, fits ? 90.0 : 180.0) == 0.0;
}

static mr_status rotate_mask(const struct mr_image_call *call, struct mr_image *from,
                             struct mr_image *to, const struct mr_kernel_ops *kernels,
                             mr_error *error)
{
    const double *args = call->args;
    const double affine[6] = {-mr_image_warp_wrap(args[0]), 0.0, 0.0, 1.0, 0.0, 0.0};
    if (is_turn(call, from))
        return mr_image_warp_rotate(call, from, to, kernels, error);
    mr_image_warp_size(call, &to->width, &to->height);
    to->stride = (size_t)to->width * to->n_channels;
    return warp_around(affine, args[5], args[6], args + 1, true, from, to, kernels);
}

static mr_status perspective_mask(const double *args, const struct mr_image *from,
                                  struct mr_image *to, const struct mr_kernel_ops *kernels)
{
    struct mr_warp_grid grid = make_grid(args + 8, true, from, to);
    grid.is_perspective = true;
    grid.divisor[0] = (float)args[6];
    grid.divisor[1] = (float)args[7];
    return run_grid(&grid, args, to, kernels);
}

mr_status mr_image_tensor_warp_mask(const struct mr_image_call *call, struct mr_image *from,
                                    struct mr_image *to, const struct mr_kernel_ops *kernels,
                                    mr_error *error)
{
    const double *args = call->args;
    switch ((enum mr_image_call_kind)call->kind) {
    case MR_CALL_ROTATE:
    case MR_CALL_ROTATE_EXPAND: return rotate_mask(call, from, to, kernels, error);
    case MR_CALL_PERSPECTIVE: return perspective_mask(args, from, to, kernels);
    default: return warp_around(args, args[10], args[11], args + 6, true, from, to, kernels);
    }
}

/* v2 brings the angle into 0 to 360 first. */
mr_status mr_image_tensor_rotate(const struct mr_image_call *call, struct mr_image *from,
                                 struct mr_image *to, const struct mr_kernel_ops *kernels,
                                 mr_error *error)
{
    (void)error;
    bool is_v2 = call->args[5] > 0.0;
    double angle = is_v2 ? mr_image_warp_wrap(call->args[0]) : call->args[0];
    const double affine[6] = {-angle, 0.0, 0.0, 1.0, 0.0, 0.0};
    return warp_around(affine, NAN, NAN, call->args + 1, is_v2, from, to, kernels);
}

mr_status mr_image_tensor_affine(const struct mr_image_call *call, struct mr_image *from,
                                 struct mr_image *to, const struct mr_kernel_ops *kernels,
                                 mr_error *error)
{
    (void)error;
    const double *args = call->args;
    return warp_around(args, args[10], args[11], args + 6, args[12] > 0.0, from, to, kernels);
}
