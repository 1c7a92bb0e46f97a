/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of packed samples: layouts are counted, ranges are checked against every row of
 * pixels, and a hostile index may say anything.
 */
#include "transforms/packed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MAX_ROWS 64

static const struct mr_codec_limits zeros;

/* A valid sample: 4:2:0, 100 x 50 pixels, 7 x 4 MCUs. */
struct sample {
    struct mr_packed_image image;
    struct mr_packed_template template;
    uint32_t rows[MAX_ROWS + 1];
};

static void make_sample(struct sample *sample)
{
    memset(sample, 0, sizeof *sample);
    sample->template = (struct mr_packed_template){
        .n_components = 3, .colour = MR_PACKED_YCC, .h = {2, 1, 1}, .v = {2, 1, 1}};
    for (uint32_t r = 0; r <= MAX_ROWS; r++)
        sample->rows[r] = 100 * r;
    sample->image = (struct mr_packed_image){.encoding = MR_PACKED_DCT,
                                             .width = 100,
                                             .height = 50,
                                             .orientation = 1,
                                             .n_rows = 4,
                                             .len = 400,
                                             .template = &sample->template,
                                             .rows = sample->rows};
}

static void expect_damage(const struct sample *sample, const char *text)
{
    mr_error error = {0};
    mr_status status = mr_packed_check(&sample->image, &zeros, &error);
    assert_string_equal(error.text, text);
    assert_int_equal(status, *text ? MR_ERR_DAMAGED : MR_OK);
}

static void a_valid_description_passes(void **state)
{
    (void)state;
    struct sample s;
    make_sample(&s);
    expect_damage(&s, "");
    expect_damage(&s, "");
    s.image = (struct mr_packed_image){
        .encoding = MR_PACKED_RAW, .width = 7, .height = 3, .orientation = 8, .len = 63};
    expect_damage(&s, "");
    s.image = (struct mr_packed_image){.encoding = MR_PACKED_JPEG, .len = 5};
    expect_damage(&s, "");
    make_sample(&s);
    s.template = (struct mr_packed_template){
        .n_components = 1, .colour = MR_PACKED_GREY, .h = {1}, .v = {1}};
    s.image.n_rows = 7;
    s.image.len = 700;
    expect_damage(&s, "");
    s.template = (struct mr_packed_template){
        .n_components = 4, .colour = MR_PACKED_YCCK, .h = {2, 1, 1, 2}, .v = {2, 1, 1, 2}};
    s.image.n_rows = 4;
    s.image.len = 400;
    expect_damage(&s, "");
}

static void impossible_sizes_are_damage(void **state)
{
    (void)state;
    struct sample s;
    make_sample(&s);
    s.image.encoding = 6;
    expect_damage(&s, "the pack says encoding 6, which is unknown");
    s.image.encoding = 0;
    expect_damage(&s, "the pack says encoding 0, which is unknown");
    make_sample(&s);
    s.image.width = 0;
    expect_damage(&s, "the pack says 0 x 50 pixels");
    s.image.width = UINT32_MAX;
    expect_damage(&s, "4294967295 x 50 pixels are above the limit of 178956970");
    s.image.width = 65536;
    expect_damage(&s, "the pack says 65536 x 50 pixels for a JPEG");
    make_sample(&s);
    s.image.height = 65536;
    expect_damage(&s, "the pack says 100 x 65536 pixels for a JPEG");
    make_sample(&s);
    s.image.orientation = 0;
    expect_damage(&s, "the pack says orientation 0; it must be 1 to 8");
    s.image.orientation = 9;
    expect_damage(&s, "the pack says orientation 9; it must be 1 to 8");
    s.image = (struct mr_packed_image){
        .encoding = MR_PACKED_RAW, .width = 7, .height = 3, .orientation = 1, .len = 62};
    expect_damage(&s, "the pack says 62 bytes for 7 x 3 pixels of 3");
    s.image.len = 64;
    expect_damage(&s, "the pack says 64 bytes for 7 x 3 pixels of 3");
    /* Three times as many bytes as 64 bits can count. */
    const struct mr_codec_limits none = {.max_pixels = UINT64_MAX};
    s.image.width = s.image.height = UINT32_MAX;
    s.image.len = (uint64_t)UINT32_MAX * UINT32_MAX * 3;
    assert_int_equal(mr_packed_check(&s.image, &none, NULL), MR_ERR_DAMAGED);
}

static void impossible_templates_are_damage(void **state)
{
    (void)state;
    struct sample s;
    make_sample(&s);
    s.image.template = NULL;
    expect_damage(&s, "the pack has no template for the sample");
    make_sample(&s);
    s.image.rows = NULL;
    expect_damage(&s, "the pack has no table of rows for the sample");
    make_sample(&s);
    s.template.n_components = 0;
    expect_damage(&s, "the pack says colour 3 with 0 components");
    s.template.n_components = 255;
    expect_damage(&s, "the pack says colour 3 with 255 components");
    s.template.n_components = 2;
    expect_damage(&s, "the pack says colour 3 with 2 components");
    s.template.n_components = 3;
    s.template.colour = 6;
    expect_damage(&s, "the pack says colour 6 with 3 components");
    make_sample(&s);
    s.template.h[1] = 0;
    expect_damage(&s, "the pack says sampling factors 0x1 for component 1 of 3");
    s.template.h[1] = 5;
    expect_damage(&s, "the pack says sampling factors 5x1 for component 1 of 3");
    make_sample(&s);
    s.template.v[2] = 255;
    expect_damage(&s, "the pack says sampling factors 1x255 for component 2 of 3");
    make_sample(&s);
    memset(s.template.h, 4, 3);
    expect_damage(&s, "the pack says 16 blocks to an MCU; the limit is 10");
    make_sample(&s);
    s.template = (struct mr_packed_template){
        .n_components = 1, .colour = MR_PACKED_GREY, .h = {2}, .v = {1}};
    expect_damage(&s, "the pack says sampling factors 2x1 for component 0 of 1");
}

static void impossible_tables_of_rows_are_damage(void **state)
{
    (void)state;
    struct sample s;
    const char *damaged = "the pack's table of the sample's rows is damaged";
    make_sample(&s);
    s.image.n_rows = 3;
    expect_damage(&s, "the pack says 3 rows of MCUs; its size makes 4");
    s.image.n_rows = UINT32_MAX;
    expect_damage(&s, "the pack says 4294967295 rows of MCUs; its size makes 4");
    const uint32_t values[] = {0, 1, 99, 101, 199, 201, 299, 400, 401, UINT32_MAX};
    for (uint32_t row = 0; row <= 4; row++) {
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            make_sample(&s);
            s.rows[row] = values[i];
            bool ok = row == 0 || row == 4
                          ? values[i] == 100 * row
                          : values[i] >= 100 * row - 98 && values[i] <= 100 * row + 98;
            expect_damage(&s, ok ? "" : damaged);
        }
    }
    make_sample(&s);
    s.image.len = 401;
    expect_damage(&s, damaged);
    s.image.len = (UINT64_C(1) << 32) + 400;
    expect_damage(&s, damaged);
    make_sample(&s); /* two tiles need four bytes */
    s.image.width = 129;
    s.rows[1] = 3;
    expect_damage(&s, damaged);
    s.rows[1] = 4;
    expect_damage(&s, "");
}

/*
 * With any factors: an MCU covers what they say, and the last ones end with the image or after it.
 */
static void layouts_cover_the_image(void **state)
{
    (void)state;
    struct sample s;
    struct mr_packed_layout layout;
    make_sample(&s);
    for (uint32_t i = 0; i < 5000; i++) {
        s.image.width = 1 + i * 7 % 611;
        s.image.height = 1 + i * 13 % 517;
        s.template.h[0] = (uint8_t)(1 + i % 4);
        s.template.v[0] = (uint8_t)(1 + i / 4 % 2);
        s.template.h[2] = (uint8_t)(1 + i / 8 % 2);
        mr_packed_layout(&s.image, &layout);
        uint32_t h = s.template.h[0] > s.template.h[2] ? s.template.h[0] : s.template.h[2];
        assert_int_equal(layout.mcu_width, 8 * h);
        assert_int_equal(layout.mcu_height, 8u * s.template.v[0]);
        assert_int_equal(layout.n_blocks, s.template.h[0] * s.template.v[0] + 1 + s.template.h[2]);
        assert_in_range(layout.n_columns * layout.mcu_width, s.image.width,
                        s.image.width + layout.mcu_width - 1);
        assert_in_range(layout.n_rows * layout.mcu_height, s.image.height,
                        s.image.height + layout.mcu_height - 1);
        assert_in_range(layout.n_tiles * 8, layout.n_columns, layout.n_columns + 7);
    }
}

static void ranges_hold_the_rows_of_the_box_and_two_pixels_around_it(void **state)
{
    (void)state;
    struct sample s;
    make_sample(&s);
    for (int64_t y = 0; y < 50; y++) {
        for (int64_t height = 1; height <= 50 - y; height++) {
            uint64_t first = UINT64_MAX, last = 0, offset, len;
            for (int64_t row = y - 2; row < y + height + 2; row++) {
                if (row < 0 || row > 49)
                    continue;
                uint64_t mcu = (uint64_t)row / 16;
                first = mcu < first ? mcu : first;
                last = mcu;
            }
            mr_packed_range(&s.image, (struct mr_box){.x = 3, .y = y, .width = 9, .height = height},
                            &offset, &len);
            assert_int_equal(offset, 100 * first);
            assert_int_equal(len, 100 * (last + 1 - first));
        }
    }
}

/* A file has bytes before its rows and after them, and short rows may begin in the same byte. */
static void rows_of_marked_samples_are_inside_the_file_and_never_go_back(void **state)
{
    (void)state;
    struct sample s;
    uint64_t offset, len;
    make_sample(&s);
    s.image.encoding = MR_PACKED_MARKED;
    memcpy(s.rows, (const uint32_t[]){90, 200, 200, 201, 399}, 5 * sizeof s.rows[0]);
    expect_damage(&s, "");
    mr_packed_range(&s.image, (struct mr_box){.x = 3, .y = 20, .width = 9, .height = 3}, &offset,
                    &len);
    assert_int_equal(offset, 200);
    assert_int_equal(len, 2);
    mr_packed_range(&s.image, (struct mr_box){.x = 3, .y = 0, .width = 9, .height = 50}, &offset,
                    &len);
    assert_int_equal(offset, 90);
    assert_int_equal(len, 310);
    s.rows[4] = 401;
    expect_damage(&s, "the pack's table of the sample's rows is damaged");
    s.rows[4] = 400;
    s.rows[2] = 199;
    expect_damage(&s, "the pack's table of the sample's rows is damaged");
    s.rows[2] = 200;
    s.image.n_rows = 3;
    expect_damage(&s, "the pack says 3 rows of MCUs; its size makes 4");
    s.image.n_rows = 4;
    s.image.template = NULL;
    expect_damage(&s, "the pack has no template for the sample");
}

static void ranges_of_pixels_are_rows_and_of_files_everything(void **state)
{
    (void)state;
    uint64_t offset, len;
    struct mr_packed_image image = {
        .encoding = MR_PACKED_RAW, .width = 10, .height = 20, .len = 600};
    mr_packed_range(&image, (struct mr_box){.x = 3, .y = 4, .width = 2, .height = 5}, &offset,
                    &len);
    assert_int_equal(offset, 4 * 30);
    assert_int_equal(len, 5 * 30);
    image.encoding = MR_PACKED_JPEG;
    mr_packed_range(&image, (struct mr_box){.x = 3, .y = 4, .width = 2, .height = 5}, &offset,
                    &len);
    assert_int_equal(offset, 0);
    assert_int_equal(len, 600);
}

static void a_copy_does_not_follow_the_index(void **state)
{
    static struct mr_packed_copy copy;
    struct sample s;
    mr_error error;
    (void)state;
    make_sample(&s);
    const struct mr_packed_image *image = mr_packed_copy(&copy, &s.image);
    s.template.h[0] = 255;
    memset(s.rows, 0xff, sizeof s.rows);
    assert_int_equal(mr_packed_check(image, &zeros, &error), MR_OK);
    assert_int_equal(image->template->h[0], 2);
    assert_int_equal(image->rows[4], 400);
    s.image.n_rows =
        MR_PACKED_MAX_ROWS + 1; /* more than the copy has room for, and than s.rows has */
    assert_int_equal(mr_packed_check(mr_packed_copy(&copy, &s.image), &zeros, &error),
                     MR_ERR_DAMAGED);
    s.image = (struct mr_packed_image){
        .encoding = MR_PACKED_RAW, .width = 7, .height = 3, .orientation = 8, .len = 63};
    assert_int_equal(mr_packed_check(mr_packed_copy(&copy, &s.image), &zeros, &error), MR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_does_not_follow_the_index),
        cmocka_unit_test(a_valid_description_passes),
        cmocka_unit_test(impossible_sizes_are_damage),
        cmocka_unit_test(impossible_templates_are_damage),
        cmocka_unit_test(impossible_tables_of_rows_are_damage),
        cmocka_unit_test(layouts_cover_the_image),
        cmocka_unit_test(ranges_hold_the_rows_of_the_box_and_two_pixels_around_it),
        cmocka_unit_test(rows_of_marked_samples_are_inside_the_file_and_never_go_back),
        cmocka_unit_test(ranges_of_pixels_are_rows_and_of_files_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
