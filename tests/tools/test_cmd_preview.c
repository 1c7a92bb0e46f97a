/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace preview` draws a sheet. Exit 77 in a build without libgd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 2, 3);
    return 0;
}

static bool preview_is_missing(void)
{
    struct mr_run run = {0};

    mr_run_command(&run, "preview", "--help", NULL);
    bool missing = strstr(run.err, "no libgd") != NULL;
    mr_run_free(&run);
    return missing;
}

/* Width and height from the header chunk of a PNG. */
static void read_png_size(const char *path, unsigned *width_out, unsigned *height_out)
{
    size_t len;
    char *png = mr_run_read_file(path, &len);
    const unsigned char *size = (const unsigned char *)png + 16;

    assert_true(len > 24);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    *width_out = (unsigned)size[2] << 8 | size[3];
    *height_out = (unsigned)size[6] << 8 | size[7];
    free(png);
}

/* Six tiles of 128 x 128 with a label and n_lines of words, with gaps, in whole rows. */
static void expect_sheet(const char *transform, unsigned n_lines)
{
    struct mr_run run = {0};
    unsigned width, height, row = 128 + 13 + n_lines * 13 + 8;
    char line[64];

    mr_run_command(&run, "preview", "--data", "photos", "--transform", transform, "--workers", "0",
                   "--out", "sheet.png", NULL);
    if (run.status != 0)
        fail_msg("exits with %d: %s", run.status, run.err);
    read_png_size("sheet.png", &width, &height);
    snprintf(line, sizeof line, "sheet.png: %u x %u pixels\n", width, height);
    assert_string_equal(run.out, line);
    unsigned columns = (width - 8) / 136, rows = (height - 8) / row;
    assert_true(columns * rows >= 6 && columns * rows < 6 + columns);
    assert_int_equal(width, 8 + columns * 136);
    if (height != 8 + rows * row)
        fail_msg("%s: %u pixels are not %u rows of %u", transform, height, rows, row);
    mr_run_free(&run);
}

static void sheet_holds_every_tile_with_its_calls(void **state)
{
    (void)state;
    expect_sheet("resize(128:128)", 1); /* resize 128:128 */
    expect_sheet("train:128", 2);       /* resized_crop 37x28+1+0, hflip: 21 characters fit */
    expect_sheet("resize(128:128)+invert(1)+equalize(1)+posterize(2,1)", 3);
    expect_sheet(
        "resize(128:128)+color_jitter(1,1,1,0.5)+color_jitter(1,1,1,0.5)+color_jitter(1,1,1,0.5)",
        6);
}

static void small_pictures_are_enlarged_and_holes_drawn(void **state)
{
    struct mr_run run = {0};
    unsigned width, height;

    (void)state;
    mr_run_make_images("holes", 1, 1);
    mr_run_write_file("holes/class_0/bad.jpg", "no", 2);
    mr_run_command(&run, "preview", "--data", "holes", "--transform", "train:32", "--workers", "0",
                   "--on-error", "zero", "--out", "small.png", NULL);
    assert_int_equal(run.status, 0);
    read_png_size("small.png", &width, &height);
    assert_true(width >= 8 + 2 * (128 + 8) || height >= 8 + 2 * (128 + 13 + 13 + 8));
    mr_run_free(&run);
}

static void target_is_refused_before_the_data_are_opened(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "preview", "--data", "nowhere", "--out", "missing/sheet.png", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "missing");
    assert_null(strstr(run.err, "nowhere"));
    mr_run_free(&run);
}

static void floats_are_refused(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "preview", "--data", "photos", "--dtype", "f32", "--out", "floats.png",
                   NULL);
    assert_int_equal(run.status, 2);
    assert_words(run.err, "f32");
    assert_false(mr_run_exists("floats.png"));
    mr_run_free(&run);
}

static void records_that_are_no_pictures_are_refused(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_write_file("r.bin", "0123456789", 10);
    mr_run_command(&run, "preview", "--data", "records:r.bin?bytes=5", "--workers", "0", "--out",
                   "r.png", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "no images");
    assert_false(mr_run_exists("r.png"));
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sheet_holds_every_tile_with_its_calls),
        cmocka_unit_test(small_pictures_are_enlarged_and_holes_drawn),
        cmocka_unit_test(target_is_refused_before_the_data_are_opened),
        cmocka_unit_test(floats_are_refused),
        cmocka_unit_test(records_that_are_no_pictures_are_refused),
    };
    void *folder;

    mr_run_enter_folder(&folder);
    bool missing = preview_is_missing();
    mr_run_leave_folder(&folder);
    if (missing) {
        printf("skipped: this build has no libgd\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
