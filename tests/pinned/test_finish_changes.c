/* SPDX-License-Identifier: Apache-2.0 */
/* Erasing and mixing of floats, against an oracle that handles rows, boxes and bytes one by one. */
#include "base/rng.h"
#include "tests/pinned/finish_bench.h"

#include <math.h>
#include <string.h>

/*
 * Erase boxes one after the other; normal numbers come from a stream, in the order channel, row,
 * column.
 */
static void expected_boxes(const struct finish_bench *b, const struct mr_erase *erase, uint8_t *out)
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
                    size_t at = f->layout == MR_NCHW ? (c * h + y) * w + x
                                                     : (y * w + x) * f->out_channels + c;
                    float value = erase->is_random
                                      ? mr_normal_of(mr_normal_nodes, mr_rng_u32(&normals))
                                      : box->values[c];
                    finish_bench_put(out, at, size, finish_bench_float_bits(f, value));
                }
    }
}

/* Row i has i boxes, which overlap; in row 4 the first box is the whole sample. */
static void draw_boxes(struct finish_bench *b, bool is_random)
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
            b->erases[i].boxes[k] =
                (struct mr_erase_box){.i = (int32_t)k,
                                      .j = (int32_t)(2 * k * i),
                                      .h = HEIGHT - 1 - (int32_t)(k + i) / 2,
                                      .w = 8 - (int32_t)k,
                                      .values = {0.1f * (float)(k + 1), -7, 1e-8f, 70000}};
    }
    b->erases[4].boxes[0] =
        (struct mr_erase_box){.h = HEIGHT, .w = WIDTH, .values = {-0.0f, 1, 2, 3}};
}

static void check_boxes(uint32_t channels, uint32_t out_channels, uint32_t layout, uint32_t dtype,
                        bool is_random)
{
    struct finish_bench b;
    finish_bench_open(&b, channels, out_channels, layout, dtype, is_random);
    draw_boxes(&b, is_random);
    b.mask[1] = 0; /* a hole stays one */
    for (uint32_t i = 0; i < ROWS; i++) {
        finish_bench_sample(&b, i == 1 ? NULL : b.staging + i * b.in_bytes,
                            b.expected + i * b.out_bytes);
        if (i != 1)
            expected_boxes(&b, &b.erases[i], b.expected + i * b.out_bytes);
    }
    finish_bench_expect(&b);
    finish_bench_close(&b);
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
                        check_boxes(channels[i], pads[pad] ? pads[pad] : channels[i],
                                    layout ? MR_NHWC : MR_NCHW, dtype, is_random);
}

static uint64_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

static float number_at(const uint8_t *f32, size_t at)
{
    float value;
    memcpy(&value, f32 + 4 * at, 4);
    return value;
}

/* Two products and their sum, each rounded. */
static float blended(const struct mr_mix *mix, float own, float partner)
{
    volatile float a = own * mix->lambda, b = partner * mix->rest;
    return a + b;
}

static bool is_in_box(const struct mr_mix *mix, size_t pixel)
{
    int32_t x = (int32_t)(pixel % WIDTH), y = (int32_t)(pixel / WIDTH);
    return x >= mix->x1 && x < mix->x2 && y >= mix->y1 && y < mix->y2;
}

/* torchvision's rule: mix each row with the one before it, as floats (f32, interleaved, erased). */
static float mixed_float(const struct mr_mix *mix, const uint8_t *rows, size_t row_floats,
                         uint32_t i, size_t at, size_t pixel)
{
    uint32_t k = i == 0 ? ROWS - 1 : i - 1;
    float own = number_at(rows, i * row_floats + at),
          partner = number_at(rows, k * row_floats + at);
    if (mix->kind == MR_MIX_UP)
        return blended(mix, own, partner);
    return is_in_box(mix, pixel) ? partner : own;
}

/* timm's rule: mix each row's bytes with those of its mirror image in the batch. */
static void mix_bytes(const struct finish_bench *b, const struct mr_mix *mix, uint8_t *mixed)
{
    for (uint32_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < b->in_bytes; k++) {
            uint8_t own = b->staging[i * b->in_bytes + k],
                    partner = b->staging[(ROWS - 1 - i) * b->in_bytes + k];
            uint8_t value = is_in_box(mix, k / b->finish.channels) ? partner : own;
            if (mix->kind == MR_MIX_UP)
                value = (uint8_t)rintf(blended(mix, own, partner));
            mixed[i * b->in_bytes + k] = ROWS - 1 - i == i ? own : value;
        }
}

/* Row i of these pixels, as f32, interleaved, erased. */
static void make_floats(const struct finish_bench *b, const uint8_t *pixels, uint32_t i,
                        uint8_t *f32)
{
    struct finish_bench as_f32 = *b;
    as_f32.finish.dtype = MR_F32;
    as_f32.finish.layout = MR_NHWC;
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++)
            as_f32.bits[c][x] = finish_bench_bits(&as_f32.finish, c, (uint8_t)x);
    finish_bench_sample(&as_f32, pixels + i * b->in_bytes, f32);
    expected_boxes(&as_f32, &b->erases[i], f32);
}

static void check_mixed(const struct mr_mix *mix, uint32_t layout, uint32_t dtype,
                        uint32_t out_channels)
{
    struct finish_bench b;
    finish_bench_open(&b, 3, out_channels, layout, dtype, 0);
    draw_boxes(&b, layout == MR_NCHW);
    b.finish.mixes = 1;
    b.job.mix = *mix;
    bool bytes = mix->rule == MR_MIX_BYTES;
    size_t row_floats = (size_t)PIXELS * out_channels, size = dtype == MR_F32 ? 4 : 2;
    uint8_t *mixed = malloc(ROWS * b.in_bytes), *rows = malloc(ROWS * row_floats * 4);
    mix_bytes(&b, mix, mixed);
    for (uint32_t i = 0; i < ROWS; i++)
        make_floats(&b, bytes ? mixed : b.staging, i, rows + i * row_floats * 4);
    for (uint32_t i = 0; i < ROWS; i++)
        for (size_t at = 0; at < row_floats; at++) {
            size_t pixel = at / out_channels, c = at % out_channels;
            float value = bytes ? number_at(rows, i * row_floats + at)
                                : mixed_float(mix, rows, row_floats, i, at, pixel);
            finish_bench_put(b.expected + i * b.out_bytes,
                             layout == MR_NCHW ? c * PIXELS + pixel : at, size,
                             finish_bench_float_bits(&b.finish, value));
        }
    finish_bench_expect(&b);
    free(mixed);
    free(rows);
    finish_bench_close(&b);
}

static const struct mr_mix mixes[] = {
    {.kind = MR_MIX_UP, .rule = MR_MIX_FLOATS, .lambda = 0.3f, .rest = 0.7f},
    {.kind = MR_MIX_CUT,
     .rule = MR_MIX_FLOATS,
     .lambda = 0.5f,
     .rest = 0.5f,
     .x1 = 3,
     .y1 = 0,
     .x2 = 19,
     .y2 = 5},
    {.kind = MR_MIX_UP, .rule = MR_MIX_BYTES, .lambda = 0.625f, .rest = 0.375f},
    {.kind = MR_MIX_CUT,
     .rule = MR_MIX_BYTES,
     .lambda = 0.5f,
     .rest = 0.5f,
     .x1 = 20,
     .y1 = 2,
     .x2 = WIDTH,
     .y2 = 8},
    {.kind = MR_MIX_CUT, .rule = MR_MIX_FLOATS, .lambda = 1, .x1 = 4, .y1 = 4, .x2 = 4, .y2 = 4},
};

static void rows_are_mixed_as_by_the_oracle(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof mixes / sizeof *mixes; i++)
        for (uint32_t dtype = MR_F32; dtype <= MR_BF16; dtype++)
            for (unsigned pad = 3; pad <= 4; pad++) {
                check_mixed(&mixes[i], MR_NCHW, dtype, pad);
                check_mixed(&mixes[i], MR_NHWC, dtype, pad);
            }
}

/* Row 0 and another one are holes; rows that would be mixed with them stay unchanged. */
static void rows_without_a_partner_stay_as_they_are(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool mirrors = mixes[i].rule == MR_MIX_BYTES;
        const uint32_t hole = mirrors ? 1 : 2;
        const uint32_t plain[2] = {mirrors ? 4 : 1, 3};
        struct finish_bench b;
        finish_bench_open(&b, 3, 3, MR_NHWC, MR_F32, 0);
        b.finish.mixes = 1;
        b.job.mix = mixes[i];
        b.mask[0] = b.mask[hole] = 0;
        finish_bench_runs[0](&b.job);
        /* for a mixed row, each way is the other's oracle */
        memcpy(b.expected, b.out, ROWS * b.out_bytes);
        memset(b.expected, 0, b.out_bytes);
        memset(b.expected + hole * b.out_bytes, 0, b.out_bytes);
        for (unsigned k = 0; k < 2; k++)
            finish_bench_sample(&b, b.staging + plain[k] * b.in_bytes,
                                b.expected + plain[k] * b.out_bytes);
        finish_bench_expect(&b);
        finish_bench_close(&b);
    }
}

/* Whatever a box contains, only the tensor is written; nothing else is specified. */
static void hostile_boxes_write_nothing_else(void **state)
{
    (void)state;
    struct finish_bench b;
    static const int32_t ends[] = {0,      1,         -1,        WIDTH,
                                   -WIDTH, INT32_MAX, INT32_MIN, INT32_MAX - WIDTH};
    uint64_t random = 20261123;
    finish_bench_open(&b, 3, 4, MR_NCHW, MR_F16, 0);
    b.finish.erases = 1;
    for (int round = 0; round < 300; round++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            struct mr_erase *erase = &b.erases[i];
            *erase = (struct mr_erase){.place = UINT32_MAX,
                                       .is_random = (uint32_t)draw(&random) % 3,
                                       .n = draw(&random) % 2 ? (uint32_t)draw(&random) % 6
                                                              : UINT32_MAX};
            for (uint32_t k = 0; k < MR_ERASE_MAX_BOXES; k++) {
                int32_t *numbers[] = {&erase->boxes[k].i, &erase->boxes[k].j, &erase->boxes[k].h,
                                      &erase->boxes[k].w};
                for (uint32_t j = 0; j < 4; j++)
                    *numbers[j] = ends[draw(&random) % 8];
            }
        }
        for (unsigned run = 0; run < 2; run++)
            finish_bench_runs[run](&b.job);
    }
    finish_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_those_of_the_oracle),
        cmocka_unit_test(rows_are_mixed_as_by_the_oracle),
        cmocka_unit_test(rows_without_a_partner_stay_as_they_are),
        cmocka_unit_test(hostile_boxes_write_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
