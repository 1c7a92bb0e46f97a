/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace export --explain`: line k is what was done to row k. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/images.h"
#include "tests/support/assert_words.h"
#include "tests/tools/npy_file.h"
#include "tests/tools/run_command.h"

/*
 * photos: 3 x 5 images. hurt: 5 images, of which index 1 is a text. turned: one image, 40 x 30, on
 * its side.
 */
static int set_up(void **state)
{
    const struct mr_test_jpeg on_its_side = {.width = 40, .height = 30, .orientation = 6};
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 3, 5);
    mr_run_make_images("hurt", 1, 5);
    mr_run_make_images("turned", 1, 1);
    if (unlink("hurt/class_0/1.jpg") < 0 || unlink("turned/class_0/0.jpg") < 0)
        return -1;
    mr_run_write_file("hurt/class_0/1.jpg", "not an image", 12);
    struct mr_test_image image = mr_test_jpeg(&on_its_side);
    mr_test_image_save(&image, "turned/class_0/0.jpg");
    mr_test_image_free(&image);
    return 0;
}

/* The lines of a file, an array. */
static json_t *read_lines(const char *path)
{
    char *text = mr_run_read_file(path, NULL), *rest = text;
    json_t *lines = json_array();
    for (char *line; (line = strsep(&rest, "\n")) && rest;) {
        json_error_t why;
        json_t *value = json_loads(line, 0, &why);
        if (!value)
            fail_msg("%s: %s", line, why.text);
        json_array_append_new(lines, value);
    }
    free(text);
    return lines;
}

static const json_t *field(const json_t *lines, size_t i, const char *key)
{
    const json_t *value = json_object_get(json_array_get(lines, i), key);
    assert_non_null(value);
    return value;
}

static int64_t integer(const json_t *lines, size_t i, const char *key)
{
    const json_t *value = field(lines, i, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static const char *name_of(const json_t *lines, size_t i)
{
    return json_string_value(field(lines, i, "name"));
}

static void each_row_has_a_line(void **state)
{
    (void)state;
    struct mr_npy_file index;
    struct mr_run run = {0};
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:16", "--epoch", "3",
                   "--world-size", "2", "--rank", "1", "--workers", "0", "--batch-size", "3",
                   "--out", "x.npy", "--explain", "x.jsonl", NULL);
    assert_int_equal(run.status, 0);
    mr_npy_file_read(&index, "x.indices.npy");
    json_t *lines = read_lines("x.jsonl");
    assert_int_equal(index.shape[0], 8); /* with one of padding */
    assert_int_equal(json_array_size(lines), 8);
    for (size_t i = 0; i < 8; i++) {
        char name[64];
        int64_t want = mr_npy_file_i64(&index, i);
        snprintf(name, sizeof name, "class_%d/%d.jpg", (int)(want / 5), (int)(want % 5));
        assert_int_equal(integer(lines, i, "index"), want);
        assert_int_equal(integer(lines, i, "epoch"), 3);
        assert_int_equal(integer(lines, i, "occurrence"), 0);
        assert_string_equal(name_of(lines, i), name);
        assert_int_equal(json_array_size(field(lines, i, "size")), 2);
        const json_t *first = json_array_get(field(lines, i, "calls"), 0);
        assert_string_equal(json_string_value(json_array_get(first, 0)), "resized_crop");
    }
    json_decref(lines);
    mr_npy_file_free(&index);
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:16", "--epoch", "3",
                   "--world-size", "2", "--rank", "1", "--workers", "2", "--batch-size", "5",
                   "--out", "y.npy", "--explain", "y.jsonl", NULL);
    mr_run_assert_same_files("x.jsonl", "y.jsonl");
    mr_run_free(&run);
}

/*
 * With weights and more draws than samples an index comes several times, each time with other
 * random draws.
 */
static void an_occurrence_counts_the_rows_of_an_index(void **state)
{
    (void)state;
    static const char npy[] =
        "\x93NUMPY\x01\x00\x3d\x00{'descr': '<f8', 'fortran_order': False, 'shape': (15,), }  \n";
    const double weights[15] = {0, 1, 2, 3};
    int64_t seen[15] = {0};
    struct mr_run run = {0};
    FILE *file = fopen("w.npy", "wb");
    assert_non_null(file);
    fwrite(npy, 1, sizeof npy - 1, file);
    fwrite(weights, 1, sizeof weights, file);
    assert_int_equal(fclose(file), 0);
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:16", "--weights",
                   "w.npy", "--draws", "40", "--workers", "0", "--batch-size", "7", "--out",
                   "w_rows.npy", "--explain", "w.jsonl", NULL);
    assert_int_equal(run.status, 0);
    mr_run_free(&run);
    json_t *lines = read_lines("w.jsonl");
    assert_int_equal(json_array_size(lines), 40);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(integer(lines, i, "occurrence"), seen[integer(lines, i, "index")]++);
    assert_int_equal(seen[1] + seen[2] + seen[3], 40);
    json_decref(lines);
}

static json_t *explain_hurt(const char *policy)
{
    struct mr_run run = {0};
    mr_run_command(&run, "export", "--data", "hurt", "--transform", "train:8", "--no-shuffle",
                   "--workers", "0", "--on-error", policy, "--out", "h.npy", "--explain", "h.jsonl",
                   NULL);
    assert_int_equal(run.status, 0);
    mr_run_free(&run);
    return read_lines("h.jsonl");
}

static void a_hole_has_no_calls_and_a_stand_in_its_own(void **state)
{
    (void)state;
    json_t *lines = explain_hurt("zero");
    assert_int_equal(json_array_size(lines), 5);
    assert_int_equal(integer(lines, 1, "index"), 1);
    assert_string_equal(name_of(lines, 1), "class_0/1.jpg");
    assert_true(json_is_null(field(lines, 1, "calls")));
    assert_true(json_is_null(field(lines, 1, "size")));
    assert_true(json_is_array(field(lines, 2, "calls")));
    json_decref(lines);
    lines = explain_hurt("skip");
    assert_int_equal(integer(lines, 1, "index"), 2);
    assert_string_equal(name_of(lines, 1), "class_0/2.jpg");
    assert_true(json_equal(json_array_get(lines, 1), json_array_get(lines, 2)));
    json_decref(lines);
}

static void an_image_on_its_side_is_turned_first(void **state)
{
    (void)state;
    struct mr_run run = {0};
    mr_run_command(&run, "export", "--data", "turned", "--transform", "exif+resize(20)",
                   "--workers", "0", "--out", "t.npy", "--explain", "t.jsonl", NULL);
    assert_int_equal(run.status, 0);
    char *text = mr_run_read_file("t.jsonl", NULL);
    assert_string_equal(
        text,
        "{\"index\":0,\"epoch\":0,\"occurrence\":0,\"name\":\"class_0/"
        "0.jpg\",\"size\":[40,30],\"calls\":"
        "[[\"PIL.exif_transpose\",{}],[\"resize\",{\"size\":[26,20],\"interpolation\":2}]]}\n");
    free(text);
    mr_run_free(&run);
}

static void raw_pictures_have_their_channels(void **state)
{
    (void)state;
    uint8_t bytes[24] = {0};
    struct mr_run run = {0};
    mr_run_write_file("raw.bin", bytes, sizeof bytes);
    mr_run_command(&run, "export", "--data", "records:raw.bin?shape=1x3x4", "--transform",
                   "rgb+hflip(1)", "--no-shuffle", "--workers", "0", "--out", "r.npy", "--explain",
                   "r.jsonl", NULL);
    assert_int_equal(run.status, 0);
    json_t *lines = read_lines("r.jsonl");
    char *calls = json_dumps(field(lines, 1, "calls"), JSON_COMPACT);
    assert_string_equal(name_of(lines, 1), "raw.bin#1");
    assert_string_equal(calls, "[[\"hflip\",{}],[\"PIL.convert\",{\"mode\":\"RGB\"}]]");
    free(calls);
    json_decref(lines);
    mr_run_free(&run);
}

static void what_cannot_be_explained_leaves_no_file(void **state)
{
    (void)state;
    struct mr_run run = {0};
    mr_run_command(&run, "export", "--data", "photos", "--out", "n.npy", "--explain", "n.json",
                   NULL);
    assert_int_equal(run.status, 2);
    assert_words(run.err, "--explain: 'n.json' is not a file name ending in .jsonl");
    mr_run_command(&run, "export", "--data", "photos", "--out", "n.npy", "--explain",
                   "nowhere/n.jsonl", NULL);
    assert_int_equal(run.status, 1);
    mr_run_write_file("f.bin", "abcdefgh", 8);
    mr_run_command(&run, "export", "--data", "records:f.bin?bytes=4", "--out", "n.npy", "--explain",
                   "n.jsonl", "--workers", "0", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "--explain: the samples are not images");
    mr_run_command(&run, "export", "--data", "hurt", "--workers", "0", "--out", "n.npy",
                   "--explain", "n.jsonl", NULL);
    assert_int_equal(run.status, 1);
    assert_int_equal(mr_run_count_entries("n."), 0);
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_a_line),
        cmocka_unit_test(an_occurrence_counts_the_rows_of_an_index),
        cmocka_unit_test(a_hole_has_no_calls_and_a_stand_in_its_own),
        cmocka_unit_test(an_image_on_its_side_is_turned_first),
        cmocka_unit_test(raw_pictures_have_their_channels),
        cmocka_unit_test(what_cannot_be_explained_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
