/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No pixel is copied between decoder and kernels: the first pass gets the rows where the decoder
 * has put them, and the last one writes where the writer wants them. A set of loops checks its
 * pointers and calls the real set.
 */
#include "tests/support/assert_words.h"
#include "tests/support/images.h"
#include "transforms/codec.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"
#include "transforms/resample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 224 };

/* What the set below has seen of the current image. */
static struct {
    const struct mr_kernel_ops *real;
    const uint8_t *const *rows; /* the decoder's last ones */
    uint32_t n_rows;
    const uint8_t *slot; /* of SIDE x SIDE x 3 bytes */
    bool vertical_first;
    uint32_t n_rows_seen; /* by the first pass; a repeated last row does not count */
    uint32_t n_copied;    /* of them, not in the decoder's memory */
    uint32_t n_made;      /* rows of the last pass */
    uint32_t n_outside;   /* of them, not written to the slot */
} seen;

static bool is_of_decoder(const uint8_t *row)
{
    for (uint32_t i = 0; i < seen.n_rows; i++)
        if (seen.rows[i] == row)
            return true;
    return false;
}

static void check_input(const uint8_t *const rows[MR_STRIP_ROWS])
{
    for (uint32_t i = 0; i < MR_STRIP_ROWS; i++) {
        if (i > 0 && rows[i] == rows[i - 1])
            continue;
        seen.n_rows_seen++;
        seen.n_copied += !is_of_decoder(rows[i]);
    }
}

static void check_output(const uint8_t *out)
{
    seen.n_outside += out != seen.slot + (size_t)seen.n_made * SIDE * 3;
    seen.n_made++;
}

static void watch_put_rows(const uint8_t *const rows[MR_STRIP_ROWS], uint32_t n, size_t stride,
                           uint8_t *strip)
{
    check_input(rows);
    seen.real->put_rows(rows, n, stride, strip);
}

static void watch_horizontal(const struct mr_resample_horizontal *horizontal,
                             const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip)
{
    if (!seen.vertical_first)
        check_input(rows);
    seen.real->horizontal(horizontal, rows, strip);
}

static void watch_vertical(const struct mr_resample_vertical *vertical, uint32_t i,
                           const uint8_t *const *strips, uint32_t n, uint8_t *out)
{
    if (!seen.vertical_first)
        check_output(out);
    seen.real->vertical(vertical, i, strips, n, out);
}

static void watch_take_row(const uint8_t *strip, size_t stride, uint32_t i, uint32_t n,
                           uint8_t *out)
{
    check_output(out);
    seen.real->take_row(strip, stride, i, n, out);
}

static struct mr_plan make_plan(void)
{
    const struct mr_sample_kind kind = {.encoded = 1, .picture = 1};
    struct mr_plan plan;
    mr_error error;
    assert_ok(mr_plan_compile(NULL, &kind, MR_U8, MR_NHWC, &plan, &error), &error);
    return plan;
}

/*
 * Take a box of an open image through one stage. Most rows come from one call, fewer from the last.
 */
static void resample_box(struct mr_codec *codec, struct mr_resample *resample,
                         const struct mr_stage *stage, struct mr_tensor_writer *writer,
                         uint32_t most)
{
    const struct mr_box *need = &stage->need;
    assert_int_equal(mr_resample_begin(resample, stage, 3, writer, NULL), MR_OK);
    seen.vertical_first = resample->vertical_first;
    assert_int_equal(mr_codec_begin(codec, (uint32_t)need->x, (uint32_t)need->y,
                                    (uint32_t)need->width, (uint32_t)need->height, NULL),
                     MR_OK);
    for (int64_t y = 0; y < need->height;) {
        const uint8_t *rows[16];
        uint32_t n;
        assert_int_equal(mr_codec_rows(codec, rows, most, &n, NULL), MR_OK);
        seen.rows = rows;
        seen.n_rows = n;
        mr_resample_push(resample, rows, n);
        y += n;
    }
}

/* n draws of train:224 on one image. Returns the rows that were read from copies. */
static uint32_t count_copies(const struct mr_test_jpeg *options,
                             const struct mr_kernel_ops *kernels, uint64_t n, uint32_t most)
{
    struct mr_test_image file = mr_test_jpeg(options);
    struct mr_kernel_ops spy = *kernels;
    struct mr_resample resample = {.kernels = &spy};
    struct mr_plan plan = make_plan();
    const struct mr_codec_limits limits = {0};
    struct mr_codec *codec;
    struct mr_image_head head;
    uint32_t n_copied = 0;
    uint8_t *slot = malloc((size_t)SIDE * SIDE * 3);
    struct mr_tensor_writer writer = {.kernels = kernels,
                                      .out = slot,
                                      .width = SIDE,
                                      .height = SIDE,
                                      .channels = 3,
                                      .dtype = MR_U8,
                                      .layout = MR_NHWC};
    spy.horizontal = watch_horizontal;
    spy.vertical = watch_vertical;
    spy.put_rows = watch_put_rows;
    spy.take_row = watch_take_row;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    for (uint64_t i = 0; i < n; i++) {
        struct mr_geometry geometry;
        struct mr_rng rng;
        mr_rng_init(&rng, 7, 0, i);
        assert_int_equal(mr_codec_open(codec, file.bytes, file.len, &head, NULL), MR_OK);
        assert_int_equal(mr_geometry_make(&plan, head.width, head.height, &rng, &geometry, NULL),
                         MR_OK);
        assert_int_equal(geometry.n_stages, 1);
        memset(&seen, 0, sizeof seen);
        seen.real = kernels;
        seen.slot = slot;
        resample_box(codec, &resample, &geometry.stages[0], &writer, most);
        mr_codec_close(codec);
        if (seen.n_rows_seen != (uint32_t)geometry.stages[0].need.height || seen.n_made != SIDE ||
            seen.n_outside)
            fail_msg("draw %llu: %u rows of %lld seen, %u made, %u of them not in the slot",
                     (unsigned long long)i, seen.n_rows_seen,
                     (long long)geometry.stages[0].need.height, seen.n_made, seen.n_outside);
        n_copied += seen.n_copied;
    }
    mr_codec_destroy(codec);
    mr_resample_fini(&resample);
    mr_test_image_free(&file);
    free(slot);
    return n_copied;
}

static const struct mr_test_jpeg usual[] = {
    {.width = 500, .height = 375},
    {.width = 375, .height = 500, .sampling = {{2, 1}, {1, 1}, {1, 1}}},
    {.width = 640, .height = 480, .sampling = {{1, 1}, {1, 1}, {1, 1}}},
    {.width = 333, .height = 499, .colour = MR_TEST_GREY},
    {.width = 1200, .height = 900, .progressive = true},
    {.width = 1701, .height = 1303}, /* up to outputs that are made row by row */
};

static void no_row_is_copied_when_rows_come_in_multiples_of_a_strip(void **state)
{
    (void)state;
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
        for (size_t i = 0; kernels && i < sizeof usual / sizeof usual[0]; i++)
            for (uint32_t most = MR_STRIP_ROWS; most <= 16; most *= 2) {
                uint32_t n = count_copies(&usual[i], kernels, usual[i].width > 1000 ? 3 : 12, most);
                if (n > 0)
                    fail_msg("%s, %ux%u, %u rows a call: %u rows were copied", mr_cpu_name(cpu),
                             usual[i].width, usual[i].height, most, n);
            }
    }
}

/* The test above can fail: rows that do not fill a strip must be copied. */
static void rows_that_wait_are_copied(void **state)
{
    (void)state;
    assert_true(count_copies(&usual[0], mr_kernels_best(), 4, 3) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_row_is_copied_when_rows_come_in_multiples_of_a_strip),
        cmocka_unit_test(rows_that_wait_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
