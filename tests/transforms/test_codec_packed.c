/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed JPEGs against a plain full decode of the JPEG: every box of every layout must have the
 * same pixels, from no byte outside mr_packed_range(), with every set of loops. Altered bytes must
 * do no more than fail.
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/codec_support.h"
#include "tests/transforms/guarded.h"
#include "tests/transforms/packed_sample.h"
#include "transforms/codec_packed.h"
#include "transforms/packed_selftest.h"
#include "transforms/simd/kernels.h"
#include "transforms/packed.h"
#include "transforms/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jpeglib.h> /* WITH_SIMD */

enum { BASELINE, PROGRESSIVE, RESTART, ONE_SCAN_EACH, ARITHMETIC, N_MODES };

static const uint8_t layouts[][3][2] = {
    {{1, 1}, {1, 1}, {1, 1}}, /* 4:4:4 */
    {{2, 1}, {1, 1}, {1, 1}}, /* 4:2:2 */
    {{2, 2}, {1, 1}, {1, 1}}, /* 4:2:0 */
    {{1, 2}, {1, 1}, {1, 1}}, /* 4:4:0 */
    {{4, 1}, {1, 1}, {1, 1}}, /* 4:1:1 */
    {{4, 2}, {1, 1}, {1, 1}}, /* 4:1:0 */
    {{1, 4}, {1, 1}, {1, 1}}, /* 4:4:1 */
    {{2, 4}, {1, 1}, {1, 1}}, {{2, 2}, {2, 1}, {2, 1}}, {{2, 2}, {1, 2}, {1, 2}},
    {{2, 1}, {2, 1}, {1, 1}}, {{2, 2}, {1, 1}, {2, 2}}, {{1, 1}, {2, 1}, {1, 1}},
    {{1, 1}, {2, 2}, {2, 2}}, {{3, 1}, {1, 1}, {1, 1}}, {{1, 3}, {1, 1}, {1, 1}},
    {{3, 2}, {1, 1}, {1, 1}}, {{4, 1}, {2, 1}, {1, 1}}, {{2, 1}, {2, 1}, {2, 1}},
    {{2, 2}, {2, 1}, {1, 2}}, {{2, 2}, {2, 2}, {2, 2}}, /* twelve blocks to an MCU: packs do not
                                                           take it */
};
#define N_LAYOUTS (sizeof layouts / sizeof layouts[0])
#define N_LAYOUTS_TOO_LARGE 1

/*
 * With factors of 3, the blocks of 60 columns end where libjpeg's memory for a row does, and the
 * MCU continues.
 */
static const uint32_t sizes[][2] = {{1, 1},  {2, 3},   {7, 9},    {16, 16},  {17, 33}, {35, 18},
                                    {66, 5}, {97, 40}, {131, 70}, {300, 33}, {60, 20}};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static const struct mr_codec_limits zeros;

/* Decode a box from exactly the bytes that it needs. */
static mr_status decode_box(void *state, const struct packed_sample *sample,
                            const struct codec_box *box, uint8_t *pixels, mr_error *error)
{
    const struct mr_packed_image *image = &sample->image;
    const uint8_t *rows[MR_CODEC_ROWS];
    struct mr_image_head head;
    uint64_t offset, len;
    mr_packed_range(image, (struct mr_box){box->x, box->y, box->width, box->height}, &offset, &len);
    assert_true(offset + len <= image->len);
    struct guarded bytes = guarded_copy(sample->bytes + offset, (size_t)len + MR_TILE_SLACK, true);
    memset(bytes.at + len, 0xff, MR_TILE_SLACK);
    mr_status status =
        mr_codec_packed_open(state, image, bytes.at, (size_t)len, offset, &head, error);
    assert_int_equal(status, MR_OK);
    assert_int_equal(head.width, image->width);
    assert_int_equal(head.height, image->height);
    assert_int_equal(head.orientation, image->orientation);
    status = mr_codec_packed.begin(state, box->x, box->y, box->width, box->height, error);
    for (uint32_t y = 0; status == MR_OK && y < box->height;) {
        uint32_t n = 0;
        status =
            mr_codec_packed.rows(state, rows, 1 + (box->x + box->width) % MR_CODEC_ROWS, &n, error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++, y++)
            memcpy(pixels + (size_t)y * box->width * 3, rows[i], (size_t)box->width * 3);
    }
    assert_int_equal(mr_codec_packed.close(state), 0);
    guarded_free(&bytes);
    return status;
}

static void check_box(void *state, const struct packed_sample *sample, const uint8_t *full,
                      const struct codec_box *box, const char *what)
{
    const struct mr_packed_image *image = &sample->image;
    mr_error error;
    uint8_t *pixels = malloc((size_t)box->width * box->height * 3);
    if (decode_box(state, sample, box, pixels, &error) != MR_OK)
        fail_msg("%s, %ux%u: %s", what, image->width, image->height, error.text);
    if (!codec_box_equals(full, image->width, box, pixels))
        fail_msg("%s, %ux%u encoding %u: box %u,%u %ux%u differs", what, image->width,
                 image->height, image->encoding, box->x, box->y, box->width, box->height);
    free(pixels);
}

/*
 * Checks both encodings, all sets of loops, n_boxes boxes. False if packs do not take the layout.
 */
static bool check_jpeg(void *state, const struct mr_test_image *jpeg, uint32_t seed,
                       uint32_t n_boxes, const char *what)
{
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(jpeg->bytes, jpeg->len, &width, &height);
    bool fits = true;
    for (uint32_t encoding = MR_PACKED_DCT; fits && encoding <= MR_PACKED_DCT; encoding++) {
        struct packed_sample sample;
        fits = packed_sample_make(jpeg, encoding, &sample);
        if (!fits)
            break;
        mr_error error;
        if (mr_packed_check(&sample.image, &zeros, &error) != MR_OK)
            fail_msg("%s: %s", what, error.text);
        for (int cpu = 0; cpu < MR_CPU_N; cpu++) {
            const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
            if (!kernels)
                continue;
            mr_codec_packed_use(state, kernels);
            for (uint32_t i = 0; i < n_boxes; i++) {
                struct codec_box box = codec_box_at(i < 5 ? i : i + 131 * seed, width, height);
                check_box(state, &sample, full, &box, what);
            }
        }
        packed_sample_free(&sample);
    }
    free(full);
    return fits;
}

static bool check_made(void *state, const struct mr_test_jpeg *options, uint32_t n_boxes,
                       const char *what)
{
    struct mr_test_image jpeg = mr_test_jpeg(options);
    bool fits = check_jpeg(state, &jpeg, options->seed, n_boxes, what);
    mr_test_image_free(&jpeg);
    return fits;
}

static void set_mode(struct mr_test_jpeg *options, int mode)
{
    options->progressive = mode == PROGRESSIVE;
    options->restart = mode == RESTART ? 3 : 0;
    options->one_scan_each = mode == ONE_SCAN_EACH;
    options->arithmetic = mode == ARITHMETIC;
}

static void boxes_equal_those_of_the_jpeg_in_every_layout(void **state)
{
    uint32_t seed = 1, n_too_large = 0;
    for (size_t layout = 0; layout < N_LAYOUTS; layout++) {
        for (size_t i = 0; i < N_SIZES; i++) {
            struct mr_test_jpeg options = {
                .width = sizes[i][0], .height = sizes[i][1], .seed = seed++};
            char what[64];
            memcpy(options.sampling, layouts[layout], sizeof layouts[layout]);
            bool too_large = layout >= N_LAYOUTS - N_LAYOUTS_TOO_LARGE;
            /* over all seeds every layout meets every mode */
            int mode = too_large ? ONE_SCAN_EACH : (int)((seed + layout) % N_MODES);
            set_mode(&options, mode);
            snprintf(what, sizeof what, "layout %zu, mode %d", layout, mode);
            n_too_large += !check_made(*state, &options, 11, what);
        }
    }
    assert_int_equal(n_too_large, N_LAYOUTS_TOO_LARGE * N_SIZES);
}

static void boxes_equal_those_of_the_jpeg_in_every_colour_space(void **state)
{
    static const char *const names[] = {"ycc", "grey", "rgb", "cmyk", "ycck"};
    uint32_t seed = 1;
    for (int colour = MR_TEST_YCC; colour <= MR_TEST_YCCK; colour++) {
        for (int mode = 0; mode < N_MODES; mode++) {
            for (size_t i = 0; i < N_SIZES; i++) {
                struct mr_test_jpeg options = {
                    .width = sizes[i][0], .height = sizes[i][1], .colour = colour};
                options.seed = seed++;
                /* a lone component's factors must not matter */
                if (colour == MR_TEST_GREY && seed % 2)
                    memcpy(options.sampling, layouts[2], sizeof layouts[2]);
                if (colour >= MR_TEST_CMYK && seed % 2)
                    memcpy(options.sampling, (uint8_t[4][2]){{2, 2}, {1, 1}, {1, 1}, {2, 2}}, 8);
                set_mode(&options, mode);
                assert_true(check_made(*state, &options, 8, names[colour]));
            }
        }
    }
}

static void extreme_coefficients_and_tables_of_16_bits_give_the_same_pixels(void **state)
{
    for (uint32_t i = 0; i < 30; i++) {
        struct mr_test_jpeg options = {.width = 40 + 7 * i, .height = 90 - 2 * i, .seed = i};
        options.colour = i % 5 == 4 ? MR_TEST_GREY : i % 7 == 6 ? MR_TEST_CMYK : MR_TEST_YCC;
        if (options.colour == MR_TEST_YCC)
            memcpy(options.sampling, layouts[i % 5], sizeof layouts[0]);
        struct mr_test_image jpeg = mr_test_jpeg(&options);
        struct mr_test_image extreme = packed_sample_extreme(&jpeg, i);
        assert_true(check_jpeg(*state, &extreme, i, 12, "extreme"));
        mr_test_image_free(&extreme);
        mr_test_image_free(&jpeg);
    }
}

static void every_single_pixel_of_a_420_picture_is_exact(void **state)
{
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 37, .height = 35});
    struct packed_sample sample;
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
    assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
    for (uint32_t i = 0; i < width * height; i++) {
        struct codec_box box = {i % width, i / width, 1, 1};
        check_box(*state, &sample, full, &box, "4:2:0");
    }
    packed_sample_free(&sample);
    free(full);
    mr_test_image_free(&jpeg);
}

static void thin_pictures_decode(void **state)
{
    assert_true(
        check_made(*state, &(struct mr_test_jpeg){.width = 1, .height = 5000}, 12, "1x5000"));
    assert_true(
        check_made(*state, &(struct mr_test_jpeg){.width = 5000, .height = 1}, 12, "5000x1"));
    assert_true(check_made(*state,
                           &(struct mr_test_jpeg){.width = 2, .height = 3000, .progressive = true},
                           9, "2x3000"));
}

/* Damage. */

static uint32_t draw_number(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

static void altered_bytes_fail_or_give_other_pixels_and_nothing_worse(void **state)
{
    uint32_t random = 1, n_damaged = 0, n_other = 0;
    for (uint32_t i = 0; i < 12; i++) {
        struct mr_test_jpeg options = {
            .width = 210, .height = 50, .seed = i, .quality = i % 3 ? 85 : 98};
        memcpy(options.sampling, layouts[i % 5], sizeof layouts[0]);
        struct mr_test_image jpeg = mr_test_jpeg(&options);
        struct packed_sample sample;
        assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
        uint8_t *pixels = malloc((size_t)options.width * options.height * 3);
        for (uint32_t n = 0; n < 150; n++) {
            struct codec_box box = codec_box_at(n % 31, options.width, options.height);
            /*
             * Often in the places that break most easily: the row's sizes, and the head of its
             * first tile.
             */
            uint32_t row = draw_number(&random) % sample.image.n_rows;
            uint32_t at = draw_number(&random) % 2
                              ? sample.rows[row] + draw_number(&random) % 24
                              : draw_number(&random) % (uint32_t)sample.image.len;
            uint8_t was = sample.bytes[at];
            mr_error error = {0};
            sample.bytes[at] = (uint8_t)draw_number(&random);
            mr_codec_packed_use(*state, mr_kernels_find(n % MR_CPU_N)
                                            ? mr_kernels_find(n % MR_CPU_N)
                                            : mr_kernels_best());
            mr_status status = decode_box(*state, &sample, &box, pixels, &error);
            sample.bytes[at] = was;
            if (status == MR_OK) {
                n_other++;
                continue;
            }
            n_damaged++;
            assert_int_equal(status, MR_ERR_DAMAGED);
            uint32_t said;
            char rest[64];
            assert_int_equal(sscanf(error.text, "row %u %63[^\n]", &said, rest), 2);
            assert_true(said < sample.image.n_rows);
            assert_string_equal(rest, "of the pack's sample is damaged");
        }
        free(pixels);
        packed_sample_free(&sample);
        mr_test_image_free(&jpeg);
    }
    assert_true(n_damaged > 100);
    assert_true(n_other > 100);
}

/* After damage the state can decode other rows. */
static void a_damaged_row_is_named_and_its_neighbours_are_unaffected(void **state)
{
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 300, .height = 100});
    struct packed_sample sample;
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
    uint8_t *pixels = malloc((size_t)width * height * 3);
    mr_error error;
    assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
    sample.bytes[sample.rows[3]] ^= 1; /* the size of the row's first tile */
    assert_int_equal(
        decode_box(*state, &sample, &(struct codec_box){280, 0, 20, 100}, pixels, &error),
        MR_ERR_DAMAGED);
    assert_string_equal(error.text, "row 3 of the pack's sample is damaged");
    sample.bytes[sample.rows[3] + 1] = 0xff; /* its neighbours would begin far after the bytes */
    assert_int_equal(
        decode_box(*state, &sample, &(struct codec_box){280, 0, 20, 100}, pixels, &error),
        MR_ERR_DAMAGED);
    assert_string_equal(error.text, "row 3 of the pack's sample is damaged");
    check_box(*state, &sample, full, &(struct codec_box){0, 0, 300, 46}, "above");
    check_box(*state, &sample, full, &(struct codec_box){0, 66, 300, 34}, "below");
    assert_int_equal(
        decode_box(*state, &sample, &(struct codec_box){0, 0, 300, 47}, pixels, &error),
        MR_ERR_DAMAGED);
    packed_sample_free(&sample);
    free(pixels);
    free(full);
    mr_test_image_free(&jpeg);
}

static void rows_that_were_not_read_are_damage(void **state)
{
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 64, .height = 100});
    struct packed_sample sample;
    struct mr_image_head head;
    mr_error error;
    assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
    const uint32_t *rows = sample.rows;
    const struct {
        uint32_t offset, end;
        mr_status status;
    } reads[] = {{rows[2], rows[4], MR_OK},
                 {0, rows[7], MR_OK},
                 {rows[2] - 1, rows[4] + 1, MR_OK},
                 {rows[2] + 1, rows[4], MR_ERR_DAMAGED},
                 {rows[2], rows[4] - 1, MR_ERR_DAMAGED},
                 {rows[3], rows[4], MR_ERR_DAMAGED},
                 {rows[5], rows[6], MR_ERR_DAMAGED},
                 {0, 0, MR_ERR_DAMAGED}};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        assert_int_equal(mr_codec_packed_open(*state, &sample.image, sample.bytes + reads[i].offset,
                                              reads[i].end - reads[i].offset, reads[i].offset,
                                              &head, NULL),
                         MR_OK);
        assert_int_equal(mr_codec_packed.begin(*state, 3, 34, 50, 28, &error), reads[i].status);
        mr_codec_packed.close(*state);
    }
    assert_string_equal(error.text, "rows 2 to 3 of the pack's sample were not read completely");
    packed_sample_free(&sample);
    mr_test_image_free(&jpeg);
}

static void limits_hold_for_packed_samples_too(void **state)
{
    (void)state;
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 400, .height = 40});
    struct packed_sample sample;
    struct mr_image_head head;
    struct mr_codec *codec;
    mr_error error;
    assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
    assert_int_equal(
        mr_codec_create(&(struct mr_codec_limits){.max_decoder_bytes = 1000}, &codec, NULL), MR_OK);
    assert_error(mr_codec_open_packed(codec, &sample.image, sample.bytes, sample.image.len, 0,
                                      &head, &error),
                 MR_ERR_DAMAGED, &error, "bytes of memory, above the limit of 1000");
    mr_codec_destroy(codec);
    assert_int_equal(mr_codec_create(&(struct mr_codec_limits){.max_pixels = 15999}, &codec, NULL),
                     MR_OK);
    assert_int_equal(mr_codec_open_packed(codec, &sample.image, sample.bytes, sample.image.len, 0,
                                          &head, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, "400 x 40 pixels are above the limit of 15999");
    mr_codec_destroy(codec);
    packed_sample_free(&sample);
    mr_test_image_free(&jpeg);
}

/* libjpeg's own message for an impossible template: factors that do not divide each other. */
static void a_template_that_libjpeg_refuses_is_damage(void **state)
{
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 40});
    struct packed_sample sample;
    uint8_t pixels[3];
    mr_error error;
    assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
    sample.template.h[0] = 3;
    sample.template.h[1] = 2;
    sample.template.v[0] = 2; /* as many rows */
    sample.template.v[1] = sample.template.v[2] = 1;
    assert_int_equal(decode_box(*state, &sample, &(struct codec_box){0, 0, 1, 1}, pixels, &error),
                     MR_ERR_DAMAGED);
    assert_true(strlen(error.text) > 10);
    packed_sample_free(&sample);
    mr_test_image_free(&jpeg);
}

/*
 * Without vectors libjpeg computes with other widths, and the self-test's extreme values show the
 * difference.
 */
static void the_kernels_transform_where_libjpeg_has_vectors_too(void **state)
{
    (void)state;
#if defined(__x86_64__) && defined(WITH_SIMD)
    const char *none = getenv("JSIMD_FORCENONE");
    bool may = mr_kernels_best()->idct_blocks != NULL;
    assert_int_equal(may && mr_packed_selftest_own_idct(),
                     may && !(none && strcmp(none, "1") == 0));
#else
    print_message("%s\n", mr_packed_selftest_own_idct() ? "by the kernels" : "by libjpeg");
#endif
}

static int make_state(void **state)
{
    struct mr_codec_limits limits = mr_codec_limits_resolve(&zeros);
    if (mr_codec_packed.create(&limits, state, NULL) != MR_OK)
        return -1;
    mr_codec_packed_use_libjpeg_idct(*state, !mr_packed_selftest_own_idct());
    return 0;
}

static int destroy_state(void **state)
{
    mr_codec_packed.destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_equal_those_of_the_jpeg_in_every_layout),
        cmocka_unit_test(boxes_equal_those_of_the_jpeg_in_every_colour_space),
        cmocka_unit_test(extreme_coefficients_and_tables_of_16_bits_give_the_same_pixels),
        cmocka_unit_test(every_single_pixel_of_a_420_picture_is_exact),
        cmocka_unit_test(thin_pictures_decode),
        cmocka_unit_test(altered_bytes_fail_or_give_other_pixels_and_nothing_worse),
        cmocka_unit_test(a_damaged_row_is_named_and_its_neighbours_are_unaffected),
        cmocka_unit_test(rows_that_were_not_read_are_damage),
        cmocka_unit_test(limits_hold_for_packed_samples_too),
        cmocka_unit_test(a_template_that_libjpeg_refuses_is_damage),
        cmocka_unit_test(the_kernels_transform_where_libjpeg_has_vectors_too),
    };
    int cannot = packed_sample_cannot_run();
    if (cannot)
        return cannot;
    return cmocka_run_group_tests(tests, make_state, destroy_state);
}
