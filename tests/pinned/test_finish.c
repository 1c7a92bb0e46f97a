/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing against the slow oracle of finish_bench.h: every value of every dtype, and wrong or
 * hostile descriptors, with arithmetic in 128 bits instead of checked ranges.
 */
#include "tests/pinned/finish_bench.h"

#include <string.h>
#include <sys/mman.h>

/*
 * Row i of the output has the pixels of sample 4 - i. One row is a hole, and each has a different
 * flip.
 */
static void check_all_values(uint32_t channels, uint32_t out_channels, uint32_t layout,
                             uint32_t dtype, uint32_t exact)
{
    static const uint32_t good[ROWS];
    struct finish_bench b;
    finish_bench_open(&b, channels, out_channels, layout, dtype, exact);
    assert_int_equal(mr_finish_out_bytes(&b.finish), b.out_bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        b.descriptors[i].place = FIRST + (ROWS - 1 - i);
        b.descriptors[i].flip = i % 4;
    }
    b.descriptors[4].encoding = MR_ENCODING_NONE;
    b.descriptors[4].offset = b.descriptors[4].len = UINT64_MAX; /* not read for a hole */
    for (uint32_t i = 0; i < ROWS; i++)
        finish_bench_sample(&b, i == 4 ? NULL : b.staging + i * b.in_bytes, i % 4,
                            b.expected + (ROWS - 1 - i) * b.out_bytes);
    finish_bench_expect(&b, good);
    finish_bench_close(&b);
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
                        check_all_values(channels[i], pads[pad] ? pads[pad] : channels[i],
                                         layout ? MR_NHWC : MR_NCHW, dtype, exact);
}

/*
 * If the oracle's sums were rounded twice, or the code did not use a fused operation, some value
 * would show it.
 */
static void fused_and_separate_floats_are_told_apart(void **state)
{
    (void)state;
    uint32_t n_different = 0;
    for (uint32_t c = 0; c < 4; c++)
        for (uint32_t x = 0; x < 256; x++) {
            volatile float product = (float)x * finish_bench_scales[c];
            volatile float sum = product + finish_bench_biases[c];
            n_different += finish_bench_f32(sum) !=
                           finish_bench_f32(finish_bench_fused(x, finish_bench_scales[c],
                                                               finish_bench_biases[c]));
        }
    assert_true(n_different > 20);
}

static void pixels_begin_where_the_staging_begins(void **state)
{
    (void)state;
    struct finish_bench b;
    finish_bench_open(&b, 3, 4, MR_NCHW, MR_F16, 0);
    static const uint32_t good[ROWS];
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    b.job.n = 2; /* rows 0 and 1, from the last two samples of the staging */
    for (uint32_t i = 0; i < 2; i++) {
        b.descriptors[i].offset = STAGING_OFF + (3 + i) * b.in_bytes;
        finish_bench_sample(&b, b.staging + (3 + i) * b.in_bytes, 0, b.expected + i * b.out_bytes);
    }
    mr_finish_run(&b.job);
    assert_memory_equal(b.status, good, 2 * sizeof *good);
    assert_memory_equal(b.out, b.expected, 2 * b.out_bytes);
    b.job.n = 0;
    mr_finish_run(&b.job);
    finish_bench_close(&b);
}

static void other_encodings_and_ranges_leave_zeros(void **state)
{
    (void)state;
    struct finish_bench b;
    finish_bench_open(&b, 3, 8, MR_NHWC, MR_F32, 0);
    const uint32_t status[ROWS] = {MR_FINISHED_BAD_ENCODING, MR_FINISHED_BAD_RANGE, MR_FINISHED_OK,
                                   MR_FINISHED_BAD_RANGE, MR_FINISHED_BAD_ENCODING};
    memset(b.expected, 0, ROWS * b.out_bytes);
    finish_bench_sample(&b, b.staging + 2 * b.in_bytes, 0, b.expected + 2 * b.out_bytes);
    b.descriptors[0].encoding = 2;
    b.descriptors[1].len--;
    b.descriptors[3].offset = STAGING_OFF - 1;
    b.descriptors[4].encoding = UINT32_MAX;
    finish_bench_expect(&b, status);
    finish_bench_close(&b);
}

static void a_byte_too_far_at_either_end_is_a_bad_range(void **state)
{
    (void)state;
    struct finish_bench b;
    finish_bench_open(&b, 3, 3, MR_NHWC, MR_U8, 0);
    const uint32_t status[ROWS] = {MR_FINISHED_OK, MR_FINISHED_BAD_RANGE, MR_FINISHED_OK,
                                   MR_FINISHED_BAD_RANGE, MR_FINISHED_BAD_RANGE};
    uint64_t end = STAGING_OFF + ROWS * b.in_bytes;
    memset(b.expected, 0, ROWS * b.out_bytes);
    b.descriptors[0].offset = STAGING_OFF;
    b.descriptors[1].offset = STAGING_OFF - 1;
    b.descriptors[2].offset = end - b.in_bytes;
    b.descriptors[3].offset = end - b.in_bytes + 1;
    b.descriptors[4].offset = end;
    finish_bench_sample(&b, b.staging, 0, b.expected);
    finish_bench_sample(&b, b.staging + (ROWS - 1) * b.in_bytes, 0, b.expected + 2 * b.out_bytes);
    finish_bench_expect(&b, status);
    finish_bench_close(&b);
}

static void a_place_of_another_part_is_reported_and_writes_nothing(void **state)
{
    (void)state;
    struct finish_bench b;
    finish_bench_open(&b, 1, 1, MR_NCHW, MR_BF16, 1);
    const uint32_t status[ROWS] = {MR_FINISHED_BAD_RANGE, MR_FINISHED_OK, MR_FINISHED_BAD_RANGE,
                                   MR_FINISHED_BAD_RANGE, MR_FINISHED_BAD_RANGE};
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    finish_bench_sample(&b, b.staging + b.in_bytes, 0, b.expected + b.out_bytes);
    b.descriptors[0].place = FIRST - 1;
    b.descriptors[2].place = FIRST + ROWS;
    b.descriptors[3].place = UINT32_MAX;
    b.descriptors[4].place = 0;
    b.descriptors[4].encoding = MR_ENCODING_NONE; /* not even zeros are written */
    finish_bench_expect(&b, status);
    finish_bench_close(&b);
}

static void places_at_the_end_of_32_bits_do_not_wrap(void **state)
{
    (void)state;
    struct finish_bench b;
    finish_bench_open(&b, 1, 1, MR_NCHW, MR_U8, 0);
    const uint32_t status[ROWS] = {MR_FINISHED_OK, MR_FINISHED_OK, MR_FINISHED_OK,
                                   MR_FINISHED_BAD_RANGE, MR_FINISHED_BAD_RANGE};
    b.job.first_place = UINT32_MAX - 2;
    memset(b.expected, 0xa5, ROWS * b.out_bytes);
    for (uint32_t i = 0; i < ROWS; i++)
        b.descriptors[i].place = b.job.first_place + i; /* the last two wrap to 0 and 1 */
    for (uint32_t i = 0; i < 3; i++)
        finish_bench_sample(&b, b.staging + i * b.in_bytes, 0, b.expected + i * b.out_bytes);
    finish_bench_expect(&b, status);
    finish_bench_close(&b);
}

static uint64_t draw(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* Hostile numbers: near both ends of the allowed range, near both ends of 64 bits, or any. */
static uint64_t draw_offset(uint64_t *random, const struct finish_bench *b)
{
    uint64_t bases[] = {0,           STAGING_OFF, STAGING_OFF + ROWS * b->in_bytes,
                        b->in_bytes, UINT64_MAX,  UINT64_MAX / 2};
    uint64_t near[] = {
        0, 1, UINT64_MAX, b->in_bytes, 0 - (uint64_t)b->in_bytes, draw(random) << 31};
    return bases[draw(random) % 6] + near[draw(random) % 6];
}

static uint32_t expected_status(const struct finish_bench *b, const struct mr_descriptor *d)
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
    struct finish_bench b;
    finish_bench_open(&b, 3, 3, MR_NCHW, MR_U8, 0);
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
            d->place = draw(&random) % 4 ? FIRST + i
                                         : (FIRST + ROWS + (uint32_t)draw(&random) % 2000000000u);
            status[i] = expected_status(&b, d);
            bool has_pixels = status[i] == MR_FINISHED_OK && d->encoding == MR_ENCODING_U8;
            if (d->place == FIRST + i)
                finish_bench_sample(&b, has_pixels ? b.staging + (d->offset - STAGING_OFF) : NULL,
                                    d->flip % 4, b.expected + i * b.out_bytes);
            n_good += has_pixels;
        }
        finish_bench_expect(&b, status);
    }
    assert_true(n_good > 500);
    finish_bench_close(&b);
}

static void sizes_have_64_bits(void **state)
{
    (void)state;
    struct mr_finish finish = {
        .height = 13376, .width = 13378, .channels = 3, .out_channels = 8, .dtype = MR_F32};
    assert_true(mr_finish_out_bytes(&finish) == 5726212096u);
}

/* The output is mostly unbacked memory: only its last row is written. */
static void a_row_beyond_4_gib_is_found(void **state)
{
    (void)state;
    enum { SIDE = 320, N = 65535 };
    size_t row_bytes = (size_t)SIDE * SIDE, len = row_bytes * N;
    uint8_t *out =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out == MAP_FAILED) {
        print_message("no %zu bytes of address space\n", len);
        skip();
    }
    struct mr_finish finish = {
        .height = SIDE, .width = SIDE, .channels = 1, .out_channels = 1, .dtype = MR_U8};
    struct mr_descriptor *descriptors = calloc(N, sizeof *descriptors);
    uint32_t *status = calloc(N, sizeof *status);
    uint8_t *staging = malloc(row_bytes);
    memset(staging, 77, row_bytes);
    for (uint32_t i = 0; i < N; i++)
        descriptors[i].place = UINT32_MAX;
    descriptors[0] =
        (struct mr_descriptor){.encoding = MR_ENCODING_U8, .len = row_bytes, .place = N - 1};
    struct mr_finish_job job = {.finish = &finish,
                                .descriptors = descriptors,
                                .n = N,
                                .staging = staging,
                                .staging_len = row_bytes,
                                .out = out,
                                .status = status};
    for (unsigned run = 0; run < 2; run++) {
        memset(out + len - row_bytes, 0, row_bytes);
        finish_bench_runs[run](&job);
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
        cmocka_unit_test(pixels_begin_where_the_staging_begins),
        cmocka_unit_test(other_encodings_and_ranges_leave_zeros),
        cmocka_unit_test(a_byte_too_far_at_either_end_is_a_bad_range),
        cmocka_unit_test(a_place_of_another_part_is_reported_and_writes_nothing),
        cmocka_unit_test(places_at_the_end_of_32_bits_do_not_wrap),
        cmocka_unit_test(hostile_descriptors_read_and_write_nothing_else),
        cmocka_unit_test(sizes_have_64_bits),
        cmocka_unit_test(a_row_beyond_4_gib_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
