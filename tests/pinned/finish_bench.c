/* SPDX-License-Identifier: Apache-2.0 */
/* See finish_bench.h. */
#include "tests/pinned/finish_bench.h"

#include "pinned/finish_pixel.h"

const float finish_bench_scales[4] = {0.017124753f, 0.0175070f, 0.017429194f, -1.0e-4f};
const float finish_bench_biases[4] = {-2.1179039f, -2.0357144f, -1.8044444f, 3.0e-8f};

/*
 * x times scale is exact in a double. The sum must be exact too, or the oracle would round twice.
 */
float finish_bench_fused(uint32_t x, float scale, float bias)
{
    double product = (double)x * (double)scale;
    double sum = product + (double)bias;
    double of_product = sum - (double)bias, of_bias = sum - of_product;
    assert_true(product - of_product + ((double)bias - of_bias) == 0.0);
    return (float)sum;
}

/* Nearest multiple of the format's step at this size, ties to even (the default mode of rint). */
static double nearest(double value, int mantissa_bits, int least_exponent)
{
    int exponent = value == 0.0 ? least_exponent : ilogb(value);
    double step =
        ldexp(1.0, (exponent < least_exponent ? least_exponent : exponent) - mantissa_bits);
    return rint(value / step) * step;
}

static uint32_t f16_bits(float value)
{
    double magnitude = nearest(fabs((double)value), 10, -14);
    uint32_t sign = signbit(value) ? 0x8000u : 0;
    if (magnitude >= 65536.0)
        return sign | 0x7c00u;
    if (magnitude < ldexp(1.0, -14))
        return sign | (uint32_t)ldexp(magnitude, 24);
    int exponent = ilogb(magnitude);
    return sign | ((uint32_t)(exponent + 14) * 1024 + (uint32_t)ldexp(magnitude, 10 - exponent));
}

uint32_t finish_bench_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint32_t finish_bench_bits(const struct mr_finish *f, uint32_t c, uint8_t x)
{
    float value = f->exact ? f->table[c][x] : finish_bench_fused(x, f->scale[c], f->bias[c]);
    switch (f->dtype) {
    case MR_U8: return x;
    case MR_F32: return finish_bench_f32(value);
    case MR_F16: return f16_bits(value);
    default: return finish_bench_f32((float)nearest((double)value, 7, -126)) >> 16;
    }
}

void finish_bench_put(uint8_t *out, size_t at, size_t size, uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    if (size == 4)
        memcpy(out + at * 4, &bits, 4);
    else if (size == 2)
        memcpy(out + at * 2, &half, 2);
    else
        out[at] = (uint8_t)bits;
}

/* One finished sample; pixels NULL: zeros. */
void finish_bench_sample(const struct finish_bench *b, const uint8_t *pixels, uint8_t *out)
{
    const struct mr_finish *f = &b->finish;
    size_t size = f->dtype == MR_F32 ? 4 : f->dtype == MR_U8 ? 1 : 2;
    size_t h = f->height, w = f->width;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++)
            for (size_t c = 0; c < f->out_channels; c++) {
                size_t at =
                    f->layout == MR_NCHW ? (c * h + y) * w + x : (y * w + x) * f->out_channels + c;
                bool is_zero = !pixels || c >= f->channels;
                finish_bench_put(out, at, size,
                                 is_zero ? 0 : b->bits[c][pixels[(y * w + x) * f->channels + c]]);
            }
}

void finish_bench_open(struct finish_bench *b, uint32_t channels, uint32_t out_channels,
                       uint32_t layout, uint32_t dtype, uint32_t exact)
{
    *b = (struct finish_bench){.finish = {.needed = 1,
                                          .height = HEIGHT,
                                          .width = WIDTH,
                                          .channels = channels,
                                          .out_channels = out_channels,
                                          .layout = layout,
                                          .dtype = dtype,
                                          .exact = exact}};
    memcpy(b->finish.scale, finish_bench_scales, sizeof finish_bench_scales);
    memcpy(b->finish.bias, finish_bench_biases, sizeof finish_bench_biases);
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++)
            b->finish.table[c][x] =
                ((float)x / 255.0f - 0.1f * (float)(c + 4)) / (0.21f + 0.01f * (float)c);
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++)
            b->bits[c][x] = finish_bench_bits(&b->finish, c, (uint8_t)x);
    b->in_bytes = (size_t)PIXELS * channels;
    b->out_bytes = (size_t)PIXELS * out_channels * (dtype == MR_F32 ? 4 : dtype == MR_U8 ? 1 : 2);
    b->staging = malloc(ROWS * b->in_bytes);
    b->out = malloc(ROWS * b->out_bytes);
    b->expected = malloc(ROWS * b->out_bytes);
    /* each channel of each sample has all 256 values */
    for (size_t i = 0; i < ROWS * b->in_bytes; i++)
        b->staging[i] = (uint8_t)(i / channels * 37 + i % channels * 101 + i / b->in_bytes * 59);
    memset(b->mask, 1, sizeof b->mask);
    b->job = (struct mr_finish_job){.finish = &b->finish,
                                    .tables = b->finish.table[0],
                                    .normals = mr_normal_nodes,
                                    .mask = b->mask,
                                    .erases = b->erases,
                                    .n = ROWS,
                                    .staging = b->staging,
                                    .out = b->out};
}

void finish_bench_close(struct finish_bench *b)
{
    free(b->staging);
    free(b->out);
    free(b->expected);
}

/* Like a kernel: each pixel by itself, the last ones first. */
static void run_by_pixels(const struct mr_finish_job *job)
{
    struct mr_finish_view view;
    mr_finish_view_init(&view, job);
    for (uint32_t i = job->n; i-- > 0;) {
        struct mr_finish_sample sample;
        mr_finish_sample_init(&sample, &view, i);
        for (uint64_t pixel = view.n_pixels; pixel-- > 0;)
            mr_finish_pixel(&view, &sample, pixel);
    }
}

void (*const finish_bench_runs[2])(const struct mr_finish_job *job) = {mr_finish_run,
                                                                       run_by_pixels};

void finish_bench_expect(struct finish_bench *b)
{
    for (unsigned run = 0; run < 2; run++) {
        memset(b->out, 0xa5, ROWS * b->out_bytes);
        finish_bench_runs[run](&b->job);
        bool is_equal = memcmp(b->out, b->expected, ROWS * b->out_bytes) == 0;
        for (size_t i = 0; i < ROWS * b->out_bytes && !is_equal; i++)
            if (b->out[i] != b->expected[i])
                fail_msg("way %u, channels %u of %u, layout %u, dtype %u, exact %u: byte %zu of "
                         "row %zu is %02x, not "
                         "%02x",
                         run, b->finish.channels, b->finish.out_channels, b->finish.layout,
                         b->finish.dtype, b->finish.exact, i % b->out_bytes, i / b->out_bytes,
                         b->out[i], b->expected[i]);
    }
}

uint32_t finish_bench_float_bits(const struct mr_finish *f, float value)
{
    switch (f->dtype) {
    case MR_F32: return finish_bench_f32(value);
    case MR_F16: return f16_bits(value);
    default: return finish_bench_f32((float)nearest((double)value, 7, -126)) >> 16;
    }
}
