/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow oracle of finishing, written from the format's definition and not from the code: doubles
 * instead of fmaf(), rint() instead of rounding by bits. Buffers are exactly as long as allowed, so
 * that the address sanitizer detects one byte too many.
 */
#ifndef TESTS_PINNED_FINISH_BENCH_H
#define TESTS_PINNED_FINISH_BENCH_H

#include "pinned/finish.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { HEIGHT = 8, WIDTH = 32, PIXELS = HEIGHT * WIDTH, ROWS = 5 };

extern const float finish_bench_scales[4];
extern const float finish_bench_biases[4];

/* A job with its own buffers of exactly the right length. */
struct finish_bench {
    struct mr_finish finish;
    struct mr_finish_job job;
    uint8_t mask[ROWS];
    struct mr_erase erases[ROWS];
    uint8_t *staging;
    uint8_t *out;
    uint8_t *expected;
    uint32_t bits[4][256]; /* expected result for each value */
    size_t in_bytes;
    size_t out_bytes;
};

void finish_bench_open(struct finish_bench *b, uint32_t channels, uint32_t out_channels,
                       uint32_t layout, uint32_t dtype, uint32_t exact);
void finish_bench_close(struct finish_bench *b);

/*
 * A byte as a float, rounded once; a value's bits in f32; what a byte or a float becomes in the
 * output's dtype.
 */
float finish_bench_fused(uint32_t x, float scale, float bias);
uint32_t finish_bench_f32(float value);
uint32_t finish_bench_bits(const struct mr_finish *f, uint32_t c, uint8_t x);
uint32_t finish_bench_float_bits(const struct mr_finish *f, float value);
void finish_bench_put(uint8_t *out, size_t at, size_t size, uint32_t bits);
/* One finished sample; pixels NULL: zeros. */
void finish_bench_sample(const struct finish_bench *b, const uint8_t *pixels, uint8_t *out);

/* The host's way, and a kernel's: each pixel by itself. */
extern void (*const finish_bench_runs[2])(const struct mr_finish_job *job);
/* Check that both ways give b->expected, and that no other byte is written. */
void finish_bench_expect(struct finish_bench *b);

#endif
