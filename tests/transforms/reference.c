/* SPDX-License-Identifier: Apache-2.0 */
/* The slow references themselves: double loops over whole images. */
#include "tests/transforms/reference.h"

#include "transforms/image_params.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/image_ops/image_mix.h"
#include "transforms/simd/kernels.h"
#include "transforms/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

struct image image_make(int64_t width, int64_t height, int channels)
{
    struct image image = {.width = width, .height = height, .channels = channels};
    image.pixels = calloc((size_t)(width * height * channels) + 1, 1);
    if (!image.pixels)
        abort();
    return image;
}

void image_free(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}

uint64_t reference_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t reference_below(uint64_t *state, uint64_t n)
{
    return reference_random(state) % n;
}

uint64_t reference_seed(void)
{
    const char *given = getenv("MR_TEST_SEED");
    uint64_t seed =
        given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)clock();
    printf("seed: MR_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

void image_fill(struct image *image, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < image->width * image->height * image->channels; i++) {
        uint64_t r = reference_random(&state);
        image->pixels[i] = r & 0x300 ? (uint8_t)r : r & 0x400 ? 255 : 0;
    }
}

struct image image_synthetic(int64_t width, int64_t height)
{
    struct image image = image_make(width, height, 3);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                image.pixels[3 * (y * width + x) + c] =
                    (uint8_t)((7 * x + 13 * y + 29 * c) ^ ((x * y) >> 3));
    return image;
}

bool image_equal(const struct image *a, const struct image *b)
{
    return a->width == b->width && a->height == b->height && a->channels == b->channels &&
           memcmp(a->pixels, b->pixels, (size_t)(a->width * a->height * a->channels)) == 0;
}

static uint8_t *pixel_at(const struct image *image, int64_t x, int64_t y)
{
    return image->pixels + (y * image->width + x) * image->channels;
}

static void replace_image(struct image *image, struct image by)
{
    free(image->pixels);
    *image = by;
}

void reference_crop(struct image *image, int64_t x, int64_t y, int64_t width, int64_t height)
{
    struct image out = image_make(width, height, image->channels);
    for (int64_t j = 0; j < height; j++)
        for (int64_t i = 0; i < width; i++)
            if (x + i >= 0 && x + i < image->width && y + j >= 0 && y + j < image->height)
                memcpy(pixel_at(&out, i, j), pixel_at(image, x + i, y + j),
                       (size_t)image->channels);
    replace_image(image, out);
}

/* The filters of Pillow's Resample.c. */
static double sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    x = x * M_PI;
    return sin(x) / x;
}

static double filter_at(enum mr_interpolation interpolation, double x)
{
    const double a = -0.5;
    if (interpolation == MR_BOX)
        return x > -0.5 && x <= 0.5;
    if (interpolation == MR_LANCZOS)
        return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    if (x < 0.0)
        x = -x;
    if (interpolation == MR_HAMMING) {
        if (x == 0.0 || x >= 1.0)
            return x == 0.0;
        x = x * M_PI;
        return sin(x) / x * ((double)0.54f + (double)0.46f * cos(x));
    }
    if (interpolation == MR_BICUBIC && x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (interpolation == MR_BICUBIC && x < 2.0)
        return (((x - 5) * x + 8) * x - 4) * a;
    return interpolation == MR_BILINEAR && x < 1.0 ? 1.0 - x : 0.0;
}

/*
 * Taps of each output of one direction: weight x of output xx is weights[xx * in + x], from
 * first[xx] to end[xx] - 1.
 */
struct taps {
    int64_t in, out;
    int64_t *first, *end;
    int64_t *weights;
};

static struct taps make_taps(int64_t in, int64_t out)
{
    struct taps t = {.in = in, .out = out};
    t.first = calloc((size_t)out, sizeof *t.first);
    t.end = calloc((size_t)out, sizeof *t.end);
    t.weights = calloc((size_t)(in * out), sizeof *t.weights);
    return t;
}

static void free_taps(struct taps *t)
{
    free(t->first);
    free(t->end);
    free(t->weights);
}

/* As Pillow's ImagingScaleAffine. */
static void fill_nearest(struct taps *t)
{
    double scale = (double)t->in / (double)t->out, at = scale * 0.5;
    for (int64_t xx = 0; xx < t->out; xx++, at += scale) {
        t->first[xx] = (int64_t)at;
        t->end[xx] = t->first[xx] + 1;
        t->weights[xx * t->in + t->first[xx]] = 1 << 22;
    }
}

/* As Pillow's precompute_coeffs and normalize_coeffs_8bpc. */
static void fill_filter(struct taps *t, enum mr_interpolation interpolation)
{
    const double support_of[] = {[MR_BILINEAR] = 1.0, [MR_BOX] = 0.5,     [MR_HAMMING] = 1.0,
                                 [MR_BICUBIC] = 2.0,  [MR_LANCZOS] = 3.0, [MR_NEAREST] = 0.0};
    double scale = (double)t->in / (double)t->out;
    double filterscale = scale < 1.0 ? 1.0 : scale,
           support = support_of[interpolation] * filterscale;
    double *k = calloc((size_t)t->in, sizeof *k);
    for (int64_t xx = 0; xx < t->out; xx++) {
        double center = ((double)xx + 0.5) * scale, ww = 0.0, ss = 1.0 / filterscale;
        int64_t xmin = (int64_t)(center - support + 0.5), xmax = (int64_t)(center + support + 0.5);
        if (xmin < 0)
            xmin = 0;
        if (xmax > t->in)
            xmax = t->in;
        for (int64_t x = xmin; x < xmax; x++) {
            k[x] =
                filter_at(interpolation, ((double)(x - xmin) + (double)xmin - center + 0.5) * ss);
            ww += k[x];
        }
        for (int64_t x = xmin; x < xmax; x++) {
            double w = k[x] / ww * (1 << 22);
            t->weights[xx * t->in + x] = (int64_t)(w < 0 ? w - 0.5 : w + 0.5);
        }
        t->first[xx] = xmin;
        t->end[xx] = xmax;
    }
    free(k);
}

/* Resize one line of pixels that are step bytes apart, with clip8. */
static void resize_line(const struct taps *t, const uint8_t *in, uint8_t *out, int64_t step)
{
    for (int64_t xx = 0; xx < t->out; xx++) {
        int64_t sum = 1 << 21;
        for (int64_t x = t->first[xx]; x < t->end[xx]; x++)
            sum += t->weights[xx * t->in + x] * in[x * step];
        sum >>= 22;
        out[xx * step] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

static void resize_side(struct image *image, int64_t size, bool columns,
                        enum mr_interpolation interpolation)
{
    int n = image->channels;
    int64_t before = columns ? image->height : image->width,
            lines = columns ? image->width : image->height;
    if (size == before)
        return;
    struct taps taps = make_taps(before, size);
    if (interpolation == MR_NEAREST)
        fill_nearest(&taps);
    else
        fill_filter(&taps, interpolation);
    struct image out = image_make(columns ? image->width : size, columns ? size : image->height, n);
    for (int64_t i = 0; i < lines; i++)
        for (int c = 0; c < n; c++) {
            uint8_t *from = columns ? pixel_at(image, i, 0) : pixel_at(image, 0, i);
            uint8_t *to = columns ? pixel_at(&out, i, 0) : pixel_at(&out, 0, i);
            resize_line(&taps, from + c, to + c, columns ? n * image->width : n);
        }
    free_taps(&taps);
    replace_image(image, out);
}

/* Pillow 13's order of the passes. */
void reference_resize(struct image *image, int64_t width, int64_t height,
                      enum mr_interpolation interpolation)
{
    int64_t less = image->height - height;
    if (less > 0 && less > 2 * (image->width - width)) {
        resize_side(image, height, true, interpolation);
        resize_side(image, width, false, interpolation);
    } else {
        resize_side(image, width, false, interpolation);
        resize_side(image, height, true, interpolation);
    }
}

void reference_hflip(struct image *image)
{
    struct image out = image_make(image->width, image->height, image->channels);
    for (int64_t y = 0; y < image->height; y++)
        for (int64_t x = 0; x < image->width; x++)
            memcpy(pixel_at(&out, image->width - 1 - x, y), pixel_at(image, x, y),
                   (size_t)image->channels);
    replace_image(image, out);
}

void reference_vflip(struct image *image)
{
    struct image out = image_make(image->width, image->height, image->channels);
    for (int64_t y = 0; y < image->height; y++)
        memcpy(pixel_at(&out, 0, image->height - 1 - y), pixel_at(image, 0, y),
               (size_t)(image->width * image->channels));
    replace_image(image, out);
}

static void random_resized_crop(struct image *image, const struct mr_op *op, struct mr_rng *rng)
{
    double area = (double)(image->height * image->width);
    float lo = logf((float)op->ratio[0]), hi = logf((float)op->ratio[1]);
    for (int i = 0; i < 10; i++) {
        double target =
            area * (double)mr_rng_uniform(rng, (float)op->scale[0], (float)op->scale[1]);
        double aspect = (double)expf(mr_rng_uniform(rng, lo, hi));
        int64_t w = (int64_t)nearbyint(sqrt(target * aspect)),
                h = (int64_t)nearbyint(sqrt(target / aspect));
        if (0 < w && w <= image->width && 0 < h && h <= image->height) {
            int64_t top = mr_rng_below(rng, (uint32_t)(image->height - h + 1));
            int64_t left = mr_rng_below(rng, (uint32_t)(image->width - w + 1));
            reference_crop(image, left, top, w, h);
            reference_resize(image, op->width, op->height, op->interpolation);
            return;
        }
    }
    double in_ratio = (double)image->width / (double)image->height;
    int64_t w = image->width, h = image->height;
    if (in_ratio < op->ratio[0])
        h = (int64_t)nearbyint((double)w / op->ratio[0]);
    else if (in_ratio > op->ratio[1])
        w = (int64_t)nearbyint((double)h * op->ratio[1]);
    reference_crop(image, (image->width - w) / 2, (image->height - h) / 2, w, h);
    reference_resize(image, op->width, op->height, op->interpolation);
}

static int64_t floor_half(int64_t n)
{
    return n >= 0 ? n / 2 : -((1 - n) / 2);
}

static void center_crop(struct image *image, int64_t w, int64_t h)
{
    int64_t dx = w > image->width ? w - image->width : 0,
            dy = h > image->height ? h - image->height : 0;
    if (dx || dy)
        reference_crop(image, -floor_half(dx), -floor_half(dy), image->width + dx,
                       image->height + dy);
    int64_t top = (int64_t)nearbyint((double)(image->height - h) / 2.0);
    int64_t left = (int64_t)nearbyint((double)(image->width - w) / 2.0);
    reference_crop(image, left, top, w, h);
}

/* Reflect from edge to edge until it is inside. */
static int64_t reflect_place(enum mr_padding_mode mode, int64_t n, int64_t i)
{
    while (i < 0 || i >= n) {
        if (mode == MR_PADDING_EDGE || (mode == MR_PADDING_REFLECT && n == 1))
            i = i < 0 ? 0 : n - 1;
        else if (mode == MR_PADDING_REFLECT)
            i = i < 0 ? -i : 2 * (n - 1) - i;
        else
            i = i < 0 ? -1 - i : 2 * n - 1 - i;
    }
    return i;
}

/* border: left, top, right, bottom */
static void pad_image(struct image *image, const struct mr_op *op, const int64_t border[4])
{
    int64_t left = border[0], top = border[1];
    int n = image->channels;
    enum mr_padding_mode mode = (enum mr_padding_mode)op->padding_mode;
    struct image out =
        image_make(left + image->width + border[2], top + image->height + border[3], n);
    for (int64_t y = 0; y < out.height; y++)
        for (int64_t x = 0; x < out.width; x++) {
            bool inside =
                x >= left && x < left + image->width && y >= top && y < top + image->height;
            const uint8_t *from = op->fill;
            if (inside || mode != MR_PADDING_CONSTANT)
                from = pixel_at(image, reflect_place(mode, image->width, x - left),
                                reflect_place(mode, image->height, y - top));
            memcpy(pixel_at(&out, x, y), from, (size_t)n);
        }
    replace_image(image, out);
}

static bool random_crop(struct image *image, const struct mr_op *op, struct mr_rng *rng)
{
    int64_t w = op->width, h = op->height;
    int64_t padding[4] = {op->padding, op->padding, op->padding, op->padding};
    if (op->pad_if_needed && image->width + 2 * padding[0] < w)
        padding[0] = padding[2] = w - image->width - padding[0];
    if (op->pad_if_needed && image->height + 2 * padding[1] < h)
        padding[1] = padding[3] = h - image->height - padding[1];
    pad_image(image, op, padding);
    if (image->height < h || image->width < w)
        return false;
    if (image->height == h && image->width == w)
        return true;
    int64_t top = mr_rng_below(rng, (uint32_t)(image->height - h + 1));
    int64_t left = mr_rng_below(rng, (uint32_t)(image->width - w + 1));
    reference_crop(image, left, top, w, h);
    return true;
}

static void resize_short(struct image *image, const struct mr_op *op)
{
    int64_t size = op->height;
    int64_t s = image->width < image->height ? image->width : image->height;
    int64_t l = image->width < image->height ? image->height : image->width;
    int64_t longer = (int64_t)((double)(size * l) / (double)s);
    if (op->max_size && longer > op->max_size) {
        size = (int64_t)((double)(op->max_size * size) / (double)longer);
        longer = op->max_size;
    }
    reference_resize(image, image->width <= image->height ? size : longer,
                     image->width <= image->height ? longer : size, op->interpolation);
}

static void to_rgb(struct image *image)
{
    if (image->channels == 3)
        return;
    struct image out = image_make(image->width, image->height, 3);
    for (int64_t i = 0; i < image->width * image->height; i++)
        memset(out.pixels + 3 * i, image->pixels[i], 3);
    replace_image(image, out);
}

bool reference_op(struct image *image, const struct mr_op *op, struct mr_rng *rng)
{
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP: random_resized_crop(image, op, rng); break;
    case MR_OP_RESIZE_SHORT: resize_short(image, op); break;
    case MR_OP_RESIZE: reference_resize(image, op->width, op->height, op->interpolation); break;
    case MR_OP_CENTER_CROP: center_crop(image, op->width, op->height); break;
    case MR_OP_RANDOM_CROP: return random_crop(image, op, rng);
    case MR_OP_PAD:
        pad_image(image, op,
                  (const int64_t[4]){(int64_t)op->border[0], (int64_t)op->border[1],
                                     (int64_t)op->border[2], (int64_t)op->border[3]});
        break;
    case MR_OP_HFLIP:
        if (mr_rng_uniform(rng, 0.0f, 1.0f) < (float)op->p)
            reference_hflip(image);
        break;
    case MR_OP_VFLIP:
        if (mr_rng_uniform(rng, 0.0f, 1.0f) < (float)op->p)
            reference_vflip(image);
        break;
    case MR_OP_RGB: to_rgb(image); break;
    default: break;
    }
    return true;
}

/* Run the image operation ops[i] of a plan on a whole image, one call at a time. */
static void run_image_op(struct image *image, const struct mr_op *ops, uint32_t i,
                         const struct mr_rng *rng)
{
    const struct mr_op to_rgb = {.kind = MR_OP_RGB};
    struct mr_image_calls *calls = calloc(1, sizeof *calls);
    mr_image_params_node(ops, i, rng, (uint32_t)image->width, (uint32_t)image->height, calls);
    for (uint32_t k = 0, n; k < calls->n; k += n) {
        for (n = 1; calls->calls[k].kind == MR_CALL_MIX_START &&
                    calls->calls[k + n - 1].kind != MR_CALL_MIX_END;)
            n++; /* a mixture at once */
        size_t len = (size_t)(image->width * image->height * image->channels);
        struct mr_image one = {.pixels = image->pixels,
                               .width = (uint32_t)image->width,
                               .height = (uint32_t)image->height,
                               .n_channels = (uint32_t)image->channels,
                               .stride = (size_t)(image->width * image->channels)};
        uint8_t *spare = malloc(len * MR_IMAGE_MIX_SPARES);
        mr_image_call_run(&calls->calls[k], n, &one, spare, &mr_kernels_c, NULL);
        memmove(image->pixels, one.pixels, (size_t)one.width * one.height * one.n_channels);
        image->channels = (int)one.n_channels;
        free(spare);
    }
    if (ops[i].kind == MR_OP_IMAGE && mr_image_ops[ops[i].image_op].sets_channels &&
        ops[i].args[0] == 3.0)
        reference_op(image, &to_rgb, NULL);
    free(calls);
}

bool reference_run(struct image *image, const mr_transform *t, const struct mr_plan *plan,
                   struct mr_rng *rng)
{
    bool possible = true;
    uint32_t in_plan = 0;
    for (uint32_t i = 0; i < t->n_ops && possible; i = mr_image_params_skip(t->ops, i)) {
        uint32_t kind = t->ops[i].kind;
        if (kind == MR_OP_EXIF || kind == MR_OP_NORMALIZE || kind == MR_OP_RGB ||
            kind == MR_OP_RANDOM_ERASING) {
            reference_op(image, &t->ops[i], rng);
            continue;
        }
        if (mr_image_params_is_image(&t->ops[i]))
            run_image_op(image, plan->ops, in_plan, rng);
        else
            possible = reference_op(image, &t->ops[i], rng);
        in_plan = mr_image_params_skip(plan->ops, in_plan);
    }
    return possible;
}

uint32_t reference_crc(const void *bytes, size_t len)
{
    return (uint32_t)crc32(0, bytes, (uInt)len);
}
