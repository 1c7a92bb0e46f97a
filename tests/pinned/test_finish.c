/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing against a slow oracle that is written from the descriptor's definition, not from the code: doubles instead
 * of fmaf(), rint() instead of rounding by bits, 128 bits instead of checked ranges. Buffers are exactly as long as
 * allowed, so the address sanitizer sees one byte too far.
 */
#include "base/rng.h"
#include "pinned/finish.h"
#include "pinned/finish_pixel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { HEIGHT = 8, WIDTH = 32, PIXELS = HEIGHT * WIDTH, ROWS = 5, FIRST = 7, STAGING_OFF = 12288 };

static const float scales[4] = {0.017124753f, 0.0175070f, 0.017429194f, -1.0e-4f};
static const float biases[4] = {-2.1179039f, -2.0357144f, -1.8044444f, 3.0e-8f};

/* x times scale is exact in a double; the sum must be too, or the oracle would round twice. */
static float fused(uint32_t x, float scale, float bias)
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
    double step = ldexp(1.0, (exponent < least_exponent ? least_exponent : exponent) - mantissa_bits);
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

static uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t expected_bits(const struct mr_finish *f, uint32_t c, uint8_t x)
{
    float value = f->exact ? f->table[c][x] : fused(x, f->scale[c], f->bias[c]);
    switch (f->dtype) {
    case MR_U8: return x;
    case MR_F32: return f32_bits(value);
    case MR_F16: return f16_bits(value);
    default: return f32_bits((float)nearest((double)value, 7, -126)) >> 16;
    }
}

static void put_bits(uint8_t *out, size_t at, size_t size, uint32_t bits)
{
    uint16_t half = (uint16_t)bits;
    if (size == 4)
        memcpy(out + at * 4, &bits, 4);
    else if (size == 2)
        memcpy(out + at * 2, &half, 2);
    else
        out[at] = (uint8_t)bits;
}

/* A job over buffers of its own, of exactly the right length. */
struct bench {
    struct mr_finish finish;
    struct mr_finish_job job;
    struct mr_descriptor descriptors[ROWS];
    struct mr_erase erases[ROWS];
    uint32_t status[ROWS];
    uint8_t *staging;
    uint8_t *out;
    uint8_t *expected;
    uint32_t bits[4][256]; /* what is to become of each value */
    size_t in_bytes;
    size_t out_bytes;
};

/* One finished sample; pixels NULL: zeros. */
static void expected_sample(const struct bench *b, const uint8_t *pixels, uint32_t flip, uint8_t *out)
{
    const struct mr_finish *f = &b->finish;
    size_t size = f->dtype == MR_F32 ? 4 : f->dtype == MR_U8 ? 1 : 2;
    size_t h = f->height, w = f->width;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++)
            for (size_t c = 0; c < f->out_channels; c++) {
                size_t from_y = flip == 2 || flip == 3 ? h - 1 - y : y, from_x = flip == 1 || flip == 3 ? w - 1 - x : x;
                size_t at = f->layout == MR_NCHW ? (c * h + y) * w + x : (y * w + x) * f->out_channels + c;
                bool is_zero = !pixels || c >= f->channels;
                put_bits(out, at, size, is_zero ? 0 : b->bits[c][pixels[(from_y * w + from_x) * f->channels + c]]);
            }
}

static void bench_open(struct bench *b, uint32_t channels, uint32_t out_channels, uint32_t layout, uint32_t dtype,
                       uint32_t exact)
{
    *b = (struct bench){.finish = {.needed = 1,
                                   .height = HEIGHT,
                                   .width = WIDTH,
                                   .channels = channels,
                                   .out_channels = out_channels,
                                   .layout = layout,
                                   .dtype = dtype,
                                   .exact = exact}};
    memcpy(b->finish.scale, scales, sizeof scales);
    memcpy(b->finish.bias, biases, sizeof biases);
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++)
            b->finish.table[c][x] = ((float)x / 255.0f - 0.1f * (float)(c + 4)) / (0.21f + 0.01f * (float)c);
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++)
            b->bits[c][x] = expected_bits(&b->finish, c, (uint8_t)x);
    b->in_bytes = (size_t)PIXELS * channels;
    b->out_bytes = (size_t)PIXELS * out_channels * (dtype == MR_F32 ? 4 : dtype == MR_U8 ? 1 : 2);
    b->staging = malloc(ROWS * b->in_bytes);
    b->out = malloc(ROWS * b->out_bytes);
    b->expected = malloc(ROWS * b->out_bytes);
    for (size_t i = 0; i < ROWS * b->in_bytes; i++) /* each channel of each sample has all 256 values */
        b->staging[i] = (uint8_t)(i / channels * 37 + i % channels * 101 + i / b->in_bytes * 59);
    for (uint32_t i = 0; i < ROWS; i++)
        b->descriptors[i] = (struct mr_descriptor){.encoding = MR_ENCODING_U8,
                                                   .offset = STAGING_OFF + i * b->in_bytes,
                                                   .len = b->in_bytes,
                                                   .place = FIRST + i,
                                                   .box = {0, 0, WIDTH, HEIGHT}};
    b->job = (struct mr_finish_job){.finish = &b->finish,
                                    .tables = b->finish.table[0],
                                    .normals = mr_normal_nodes,
                                    .descriptors = b->descriptors,
                                    .erases = b->erases,
                                    .n = ROWS,
                                    .first_place = FIRST,
                                    .staging = b->staging,
                                    .staging_off = STAGING_OFF,
                                    .staging_len = ROWS * b->in_bytes,
                                    .out = b->out,
                                    .status = b->status};
}

static void bench_close(struct bench *b)
{
    free(b->staging);
    free(b->out);
    free(b->expected);
}

/* As a kernel does it: each pixel by itself, and the last ones first. */
static void run_by_pixels(const struct mr_finish_job *job)
{
    struct mr_finish_view view;
    mr_finish_view_init(&view, job);
    for (uint32_t i = job->n; i-- > 0;) {
        struct mr_finish_sample sample;
        job->status[i] = mr_finish_check(&view, &job->descriptors[i]);
        bool has_row = mr_finish_sample_init(&sample, &view, i);
        for (uint64_t pixel = view.n_pixels; has_row && pixel-- > 0;)
            mr_finish_pixel(&view, &sample, pixel);
    }
}

static void (*const runs[])(const struct mr_finish_job *job) = {mr_finish_run, run_by_pixels};

/* Both ways; what was not to be written must stay as it was in both buffers. */
static void expect_outputs(struct bench *b, const uint32_t *status)
{
    for (unsigned run = 0; run < 2; run++) {
        memset(b->out, 0xa5, ROWS * b->out_bytes);
        memset(b->status, 0xa5, sizeof b->status);
        runs[run](&b->job);
        for (uint32_t i = 0; i < ROWS; i++)
            if (b->status[i] != status[i])
                fail_msg("way %u, descriptor %u: status %u instead of %u", run, i, b->status[i], status[i]);
        bool is_equal = memcmp(b->out, b->expected, ROWS * b->out_bytes) == 0;
        for (size_t i = 0; i < ROWS * b->out_bytes && !is_equal; i++)
            if (b->out[i] != b->expected[i])
                fail_msg("way %u, channels %u of %u, layout %u, dtype %u, exact %u: byte %zu of row %zu is %02x, not "
                         "%02x",
                         run, b->finish.channels, b->finish.out_channels, b->finish.layout, b->finish.dtype,
                         b->finish.exact, i % b->out_bytes, i / b->out_bytes, b->out[i], b->expected[i]);
    }
}

/* Row i of the output has the pixels of sample 4 - i, one row is a hole, and each has another flip. */
static void check_all_values(uint32_t channels, uint32_t out_channels, uint32_t layout, uint32_t dtype, uint32_t exact)
{
    static const uint32_t good[ROWS];
    struct bench b;
    bench_open(&b, channels, out_channels, layout, dtype, exact);
    assert_int_equal(mr_finish_in_bytes(&b.finish), b.in_bytes);
    assert_int_equal(mr_finish_out_bytes(&b.finish), b.out_bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        b.descriptors[i].place = FIRST + (ROWS - 1 - i);
        b.descriptors[i].flip = i % 4;
    }
    b.descriptors[4].encoding = MR_ENCODING_NONE;
    b.descriptors[4].offset = b.descriptors[4].len = UINT64_MAX; /* of a hole nobody reads them */
    for (uint32_t i = 0; i < ROWS; i++)
        expected_sample(&b, i == 4 ? NULL : b.staging + i * b.in_bytes, i % 4,
                        b.expected + (ROWS - 1 - i) * b.out_bytes);
    expect_outputs(&b, good);
    bench_close(&b);
}

static void all_values_are_those_of_the_oracle(void **state)
{
    (void)state;
    static const uint32_t channels[] = {1, 3, 4}, pads[] = {0, 4, 8};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned pad = 0; pad < 3; pad++)
            for (uint32_t dtype = MR_U8; dtype <= MR_BF16; dtype++)
                for (unsigned layout = 0; layout < 2; layout++)
                    for (uint32_t exact = 0; exact < 2; exact++)
                        check_all_values(channels[i], pads[pad] ? pads[pad] : channels[i], layout ? MR_NHWC : MR_NCHW,
                                         dtype, exact);
}

/* Were the oracle's sums rounded twice, or the code's not fused, some value would show it. */
static void fused_and_separate_floats_are_told_apart(void **state)
{
    (void)state;
    uint32_t n_different = 0;
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++) {
            volatile float product = (float)x * scales[c];
            volatile float sum = product + biases[c];
            n_different += f32_bits(sum) != f32_bits(fused(x, scales[c], biases[c]));
        }
    assert_true(n_different > 20);
}

static uint32_t float_bits(const struct mr_finish *f, float value)
{
    switch (f->dtype) {
    case MR_F32: return f32_bits(value);
    case MR_F16: return f16_bits(value);
    default: return f32_bits((float)nearest((double)value, 7, -126)) >> 16;
    }
}

/* Boxes one after the other; normal numbers are those of a stream, in the order channel, row, column. */
static void expected_boxes(const struct bench *b, const struct mr_erase *erase, uint8_t *out)
{
    const struct mr_finish *f = &b->finish;
    size_t size = f->dtype == MR_F32 ? 4 : 2, w = f->width, h = f->height;
    struct mr_rng sample, normals;
    mr_rng_init(&sample, erase->key[0], erase->key[1], erase->index);
    mr_rng_set_occurrence(&sample, erase->occurrence);
    for (uint32_t k = 0; k < erase->n; k++) {
        const struct mr_erase_box *box = &erase->boxes[k];
        mr_rng_init_place(&normals, &sample, erase->place + k);
        for (size_t c = 0; c < f->channels; c++)
            for (size_t y = (size_t)box->i; y < (size_t)(box->i + box->h); y++)
                for (size_t x = (size_t)box->j; x < (size_t)(box->j + box->w); x++) {
                    size_t at = f->layout == MR_NCHW ? (c * h + y) * w + x : (y * w + x) * f->out_channels + c;
                    float value =
                        erase->is_random ? mr_normal_of(mr_normal_nodes, mr_rng_u32(&normals)) : box->values[c];
                    put_bits(out, at, size, float_bits(f, value));
                }
    }
}

/* Row i has i boxes, which overlap; the one of row 4 that is the whole sample is the first. */
static void draw_boxes(struct bench *b, bool is_random)
{
    b->finish.erases = 1;
    for (uint32_t i = 0; i < ROWS; i++) {
        b->erases[i] = (struct mr_erase){.key = {77, UINT64_MAX},
                                         .index = 1000 + i,
                                         .occurrence = i,
                                         .place = 3 * i,
                                         .is_random = is_random,
                                         .n = i};
        for (uint32_t k = 0; k < i; k++)
            b->erases[i].boxes[k] = (struct mr_erase_box){.i = (int32_t)k,
                                                          .j = (int32_t)(2 * k * i),
                                                          .h = HEIGHT - 1 - (int32_t)(k + i) / 2,
                                                          .w = 8 - (int32_t)k,
                                                          .values = {0.1f * (float)(k + 1), -7, 1e-8f, 70000}};
    }
    b->erases[4].boxes[0] = (struct mr_erase_box){.h = HEIGHT, .w = WIDTH, .values = {-0.0f, 1, 2, 3}};
}

static void check_boxes(uint32_t channels, uint32_t out_channels, uint32_t layout, uint32_t dtype, bool is_random)
{
    static const uint32_t good[ROWS];
    struct bench b;
    bench_open(&b, channels, out_channels, layout, dtype, is_random);
    draw_boxes(&b, is_random);
    b.descriptors[1].encoding = MR_ENCODING_NONE; /* a hole stays one */
    for (uint32_t i = 0; i < ROWS; i++) {
        b.descriptors[i].flip = i % 4;
        expected_sample(&b, i == 1 ? NULL : b.staging + i * b.in_bytes, i % 4, b.expected + i * b.out_bytes);
        if (i != 1)
            expected_boxes(&b, &b.erases[i], b.expected + i * b.out_bytes);
    }
    expect_outputs(&b, good);
    bench_close(&b);
}

static void boxes_are_those_of_the_oracle(void **state)
{
    (void)state;
    static const uint32_t channels[] = {1, 3, 4}, pads[] = {0, 4, 8};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned pad = 0; pad < 3; pad++)
            for (uint32_t dtype = MR_F32; dtype <= MR_BF16; dtype++)
                for (unsigned layout = 0; layout < 2; layout++)
                    for (unsigned is_random = 0; is_random < 2; is_random++)
                        check_boxes(channels[i], pads[pad] ? pads[pad] : channels[i], layout ? MR_NHWC : MR_NCHW, dtype,
                                    is_random);
}

static void pixels_lie_where_the_staging_begins(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 3, 4, MR_NCHW, MR_F16, 0);
    static const uint32_t good[ROWS];
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    b.job.n = 2; /* rows 0 and 1 from the last two samples of the staging */
    for (uint32_t i = 0; i < 2; i++) {
        b.descriptors[i].offset = STAGING_OFF + (3 + i) * b.in_bytes;
        expected_sample(&b, b.staging + (3 + i) * b.in_bytes, 0, b.expected + i * b.out_bytes);
    }
    mr_finish_run(&b.job);
    assert_memory_equal(b.status, good, 2 * sizeof *good);
    assert_memory_equal(b.out, b.expected, 2 * b.out_bytes);
    b.job.n = 0;
    mr_finish_run(&b.job);
    bench_close(&b);
}

static void other_encodings_and_ranges_leave_zeros(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 3, 8, MR_NHWC, MR_F32, 0);
    const uint32_t status[ROWS] = {MR_FINISHED_BAD_ENCODING, MR_FINISHED_BAD_RANGE, MR_FINISHED_OK,
                                   MR_FINISHED_BAD_RANGE, MR_FINISHED_BAD_ENCODING};
    memset(b.expected, 0, ROWS * b.out_bytes);
    expected_sample(&b, b.staging + 2 * b.in_bytes, 0, b.expected + 2 * b.out_bytes);
    b.descriptors[0].encoding = 2;
    b.descriptors[1].len--;
    b.descriptors[3].offset = STAGING_OFF - 1;
    b.descriptors[4].encoding = UINT32_MAX;
    expect_outputs(&b, status);
    bench_close(&b);
}

static void a_byte_too_far_at_either_end_is_a_bad_range(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 3, 3, MR_NHWC, MR_U8, 0);
    const uint32_t status[ROWS] = {MR_FINISHED_OK, MR_FINISHED_BAD_RANGE, MR_FINISHED_OK, MR_FINISHED_BAD_RANGE,
                                   MR_FINISHED_BAD_RANGE};
    uint64_t end = STAGING_OFF + ROWS * b.in_bytes;
    memset(b.expected, 0, ROWS * b.out_bytes);
    b.descriptors[0].offset = STAGING_OFF;
    b.descriptors[1].offset = STAGING_OFF - 1;
    b.descriptors[2].offset = end - b.in_bytes;
    b.descriptors[3].offset = end - b.in_bytes + 1;
    b.descriptors[4].offset = end;
    expected_sample(&b, b.staging, 0, b.expected);
    expected_sample(&b, b.staging + (ROWS - 1) * b.in_bytes, 0, b.expected + 2 * b.out_bytes);
    expect_outputs(&b, status);
    bench_close(&b);
}

static void a_place_of_another_part_is_told_and_writes_nothing(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 1, MR_NCHW, MR_BF16, 1);
    const uint32_t status[ROWS] = {MR_FINISHED_BAD_RANGE, MR_FINISHED_OK, MR_FINISHED_BAD_RANGE, MR_FINISHED_BAD_RANGE,
                                   MR_FINISHED_BAD_RANGE};
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    expected_sample(&b, b.staging + b.in_bytes, 0, b.expected + b.out_bytes);
    b.descriptors[0].place = FIRST - 1;
    b.descriptors[2].place = FIRST + ROWS;
    b.descriptors[3].place = UINT32_MAX;
    b.descriptors[4].place = 0;
    b.descriptors[4].encoding = MR_ENCODING_NONE; /* not even zeros */
    expect_outputs(&b, status);
    bench_close(&b);
}

static void places_at_the_end_of_32_bits_do_not_wrap(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 1, 1, MR_NCHW, MR_U8, 0);
    const uint32_t status[ROWS] = {MR_FINISHED_OK, MR_FINISHED_OK, MR_FINISHED_OK, MR_FINISHED_BAD_RANGE,
                                   MR_FINISHED_BAD_RANGE};
    b.job.first_place = UINT32_MAX - 2;
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    for (uint32_t i = 0; i < ROWS; i++)
        b.descriptors[i].place = b.job.first_place + i; /* the last two are 0 and 1 */
    for (uint32_t i = 0; i < 3; i++)
        expected_sample(&b, b.staging + i * b.in_bytes, 0, b.expected + i * b.out_bytes);
    expect_outputs(&b, status);
    bench_close(&b);
}

static uint64_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* Numbers that are hostile to sums: near both ends of what is allowed, near both ends of 64 bits, or anything. */
static uint64_t draw_offset(uint64_t *random, const struct bench *b)
{
    uint64_t bases[] = {0, STAGING_OFF, STAGING_OFF + ROWS * b->in_bytes, b->in_bytes, UINT64_MAX, UINT64_MAX / 2};
    uint64_t near[] = {0, 1, UINT64_MAX, b->in_bytes, 0 - (uint64_t)b->in_bytes, draw(random) << 31};
    return bases[draw(random) % 6] + near[draw(random) % 6];
}

static uint32_t expected_status(const struct bench *b, const struct mr_descriptor *d)
{
    if (d->place < FIRST || d->place >= FIRST + ROWS)
        return MR_FINISHED_BAD_RANGE;
    if (d->encoding > MR_ENCODING_U8)
        return MR_FINISHED_BAD_ENCODING;
    __extension__ typedef unsigned __int128 wide;
    bool fits = d->len == b->in_bytes && d->offset >= STAGING_OFF &&
                (wide)d->offset + d->len <= (wide)STAGING_OFF + ROWS * b->in_bytes;
    return d->encoding == MR_ENCODING_NONE || fits ? MR_FINISHED_OK : MR_FINISHED_BAD_RANGE;
}

static void hostile_descriptors_read_and_write_nothing_else(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 3, 3, MR_NCHW, MR_U8, 0);
    uint64_t random = 20261121;
    uint32_t n_good = 0;
    for (int round = 0; round < 5000; round++) {
        uint32_t status[ROWS];
        memset(b.expected, 0xa5, ROWS * b.out_bytes);
        for (uint32_t i = 0; i < ROWS; i++) {
            struct mr_descriptor *d = &b.descriptors[i];
            d->encoding = draw(&random) % 8 ? MR_ENCODING_U8 : (uint32_t)draw(&random) % 4;
            d->flip = (uint32_t)draw(&random);
            d->offset = draw_offset(&random, &b);
            d->len = draw(&random) % 4 ? b.in_bytes : draw_offset(&random, &b);
            d->place = draw(&random) % 4 ? FIRST + i : (FIRST + ROWS + (uint32_t)draw(&random) % 2000000000u);
            status[i] = expected_status(&b, d);
            bool has_pixels = status[i] == MR_FINISHED_OK && d->encoding == MR_ENCODING_U8;
            if (d->place == FIRST + i)
                expected_sample(&b, has_pixels ? b.staging + (d->offset - STAGING_OFF) : NULL, d->flip % 4,
                                b.expected + i * b.out_bytes);
            n_good += has_pixels;
        }
        expect_outputs(&b, status);
    }
    assert_true(n_good > 500);
    bench_close(&b);
}

/* Whatever a box says, only the tensor is written; nothing else is promised of it. */
static void hostile_boxes_write_nothing_else(void **state)
{
    (void)state;
    struct bench b;
    static const int32_t ends[] = {0, 1, -1, WIDTH, -WIDTH, INT32_MAX, INT32_MIN, INT32_MAX - WIDTH};
    uint64_t random = 20261123;
    bench_open(&b, 3, 4, MR_NCHW, MR_F16, 0);
    b.finish.erases = 1;
    for (int round = 0; round < 300; round++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            struct mr_erase *erase = &b.erases[i];
            *erase = (struct mr_erase){.place = UINT32_MAX,
                                       .is_random = (uint32_t)draw(&random) % 3,
                                       .n = draw(&random) % 2 ? (uint32_t)draw(&random) % 6 : UINT32_MAX};
            for (uint32_t k = 0; k < MR_ERASE_MAX_BOXES; k++) {
                int32_t *numbers[] = {&erase->boxes[k].i, &erase->boxes[k].j, &erase->boxes[k].h, &erase->boxes[k].w};
                for (uint32_t j = 0; j < 4; j++)
                    *numbers[j] = ends[draw(&random) % 8];
            }
        }
        for (unsigned run = 0; run < 2; run++)
            runs[run](&b.job);
    }
    bench_close(&b);
}

static void sizes_have_64_bits(void **state)
{
    (void)state;
    struct mr_finish finish = {.height = 13376, .width = 13378, .channels = 3, .out_channels = 8, .dtype = MR_F32};
    assert_true(mr_finish_in_bytes(&finish) == 536832384u);
    assert_true(mr_finish_out_bytes(&finish) == 5726212096u);
}

/* The output is mostly holes in memory: only its last row is written. */
static void a_row_beyond_4_gib_is_found(void **state)
{
    (void)state;
    enum { SIDE = 320, N = 65535 };
    size_t row_bytes = (size_t)SIDE * SIDE, len = row_bytes * N;
    uint8_t *out = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out == MAP_FAILED) {
        print_message("no %zu bytes of address space\n", len);
        skip();
    }
    struct mr_finish finish = {.height = SIDE, .width = SIDE, .channels = 1, .out_channels = 1, .dtype = MR_U8};
    struct mr_descriptor *descriptors = calloc(N, sizeof *descriptors);
    uint32_t *status = calloc(N, sizeof *status);
    uint8_t *staging = malloc(row_bytes);
    memset(staging, 77, row_bytes);
    for (uint32_t i = 0; i < N; i++)
        descriptors[i].place = UINT32_MAX;
    descriptors[0] = (struct mr_descriptor){.encoding = MR_ENCODING_U8, .len = row_bytes, .place = N - 1};
    struct mr_finish_job job = {.finish = &finish,
                                .descriptors = descriptors,
                                .n = N,
                                .staging = staging,
                                .staging_len = row_bytes,
                                .out = out,
                                .status = status};
    for (unsigned run = 0; run < 2; run++) {
        memset(out + len - row_bytes, 0, row_bytes);
        runs[run](&job);
        assert_int_equal(status[0], MR_FINISHED_OK);
        assert_int_equal(status[1], MR_FINISHED_BAD_RANGE);
        assert_memory_equal(out + len - row_bytes, staging, row_bytes);
    }
    free(staging);
    free(status);
    free(descriptors);
    munmap(out, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_values_are_those_of_the_oracle),
        cmocka_unit_test(fused_and_separate_floats_are_told_apart),
        cmocka_unit_test(boxes_are_those_of_the_oracle),
        cmocka_unit_test(hostile_boxes_write_nothing_else),
        cmocka_unit_test(pixels_lie_where_the_staging_begins),
        cmocka_unit_test(other_encodings_and_ranges_leave_zeros),
        cmocka_unit_test(a_byte_too_far_at_either_end_is_a_bad_range),
        cmocka_unit_test(a_place_of_another_part_is_told_and_writes_nothing),
        cmocka_unit_test(places_at_the_end_of_32_bits_do_not_wrap),
        cmocka_unit_test(hostile_descriptors_read_and_write_nothing_else),
        cmocka_unit_test(sizes_have_64_bits),
        cmocka_unit_test(a_row_beyond_4_gib_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
