/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a scan that are decoded in turn, against the same rows decoded one by one in plain C: the
 * blocks are the same, and a row is odd in both or in neither. With every set of loops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scans.h"
#include "transforms/jpeg/scan_file.h"
#include "transforms/jpeg/scan_rows.h"
#include "transforms/simd/kernels.h"

#define MAX_ROWS 64
#define PART 8 /* MCUs that are taken at once */

/* A file, the crop's columns of it, and where they begin in each row. */
struct file {
    struct mr_test_image image;
    uint8_t *original; /* the bytes without damage */
    size_t start;      /* of the scan */
    uint32_t n_columns, n_rows, restart;
    uint32_t first_column, n_mcus;
    struct mr_jpeg_scan_place places[MAX_ROWS];
    struct mr_jpeg_scan_codes codes;
};

static struct mr_scan_rows rows;
static struct mr_jpeg_scan single;
static const struct mr_kernel_ops *kernels;

/* libjpeg reads the header. */
static void read_header(struct file *file)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, file->image.bytes, (unsigned long)file->image.len);
    jpeg_read_header(&cinfo, TRUE);
    jpeg_start_decompress(&cinfo);
    assert_true(mr_scan_file_set(&file->codes, &cinfo));
    file->start = file->image.len - cinfo.src->bytes_in_buffer;
    file->n_columns = cinfo.MCUs_per_row;
    file->n_rows = cinfo.MCU_rows_in_scan;
    file->restart = cinfo.restart_interval;
    assert_in_range(file->n_rows, 1, MAX_ROWS);
    jpeg_destroy_decompress(&cinfo);
}

static void find_places(struct file *file)
{
    uint32_t at = 0;
    mr_jpeg_scan_start(&single, &mr_kernels_c, &file->codes.mcu, file->image.bytes + file->start,
                       file->image.len - file->start, file->restart);
    for (uint32_t row = 0; row < file->n_rows; row++) {
        uint32_t mcu = row * file->n_columns + file->first_column;
        assert_true(mr_jpeg_scan_skip(&single, mcu - at));
        assert_true(mr_jpeg_scan_find_place(&single, &file->places[row]));
        file->places[row].mcu = at = mcu;
    }
}

static struct file *open_file(struct mr_test_image image, uint32_t first_column, uint32_t n_mcus)
{
    size_t len = (sizeof(struct file) + 63) / 64 * 64;
    struct file *file = aligned_alloc(64, len);
    assert_non_null(file);
    memset(file, 0, len);
    file->image = image;
    file->original = malloc(image.len);
    assert_non_null(file->original);
    memcpy(file->original, image.bytes, image.len);
    read_header(file);
    file->first_column = first_column;
    file->n_mcus = n_mcus ? n_mcus : file->n_columns - first_column;
    assert_in_range(file->first_column + file->n_mcus, 1, file->n_columns);
    find_places(file);
    return file;
}

static void close_file(struct file *file)
{
    free(file->original);
    mr_test_image_free(&file->image);
    free(file);
}

static bool enter(void *state, struct mr_jpeg_scan *scan, uint32_t row)
{
    const struct file *file = state;
    const uint8_t *end = file->image.bytes + file->image.len;
    if (file->places[row].at >= end)
        return false;
    mr_jpeg_scan_start_at(scan, scan == &single ? &mr_kernels_c : kernels, &file->codes.mcu,
                          &file->places[row], end, file->restart);
    return true;
}

static bool decode_one_row(struct file *file, uint32_t row, int16_t (*blocks)[64])
{
    memset(blocks, 0x5a, (size_t)file->n_mcus * file->codes.mcu.n_blocks * sizeof blocks[0]);
    return enter(file, &single, row) && mr_jpeg_scan_store(&single, file->n_mcus, blocks);
}

/* False if something was odd; otherwise the blocks must be those of the row. */
static bool take_row(struct file *file, uint32_t row, const int16_t (*want)[64])
{
    static _Alignas(64) int16_t room[PART * MR_SCAN_MAX_BLOCKS][64];
    const uint32_t n_blocks = file->codes.mcu.n_blocks;
    for (uint32_t at = 0, n; at < file->n_mcus; at += n) {
        n = file->n_mcus - at < PART ? file->n_mcus - at : PART;
        int16_t(*blocks)[64] = mr_scan_rows_take(&rows, row, at, n, room);
        if (!blocks)
            return false;
        if (want && memcmp(blocks, want + (size_t)at * n_blocks,
                           (size_t)n * n_blocks * sizeof want[0]) != 0)
            fail_msg("row %u from MCU %u: blocks differ", row, at);
    }
    return true;
}

/* Decode rows first to last in both ways. Returns whether they were good. */
static bool check_rows(struct file *file, uint32_t first, uint32_t last)
{
    const struct mr_scan_rows_crop crop = {.first_row = first,
                                           .last_row = last,
                                           .n_mcus = file->n_mcus,
                                           .enter = enter,
                                           .state = file};
    size_t n_blocks = (size_t)file->n_mcus * file->codes.mcu.n_blocks;
    int16_t(*want)[64] = malloc(n_blocks * sizeof want[0]);
    assert_non_null(want);
    bool want_good = true, good = true;
    mr_scan_rows_start(&rows, kernels, &file->codes.mcu, &crop);
    for (uint32_t row = first; row <= last; row++) {
        bool row_good = decode_one_row(file, row, want);
        want_good &= row_good;
        good = good && take_row(file, row, row_good ? (const int16_t(*)[64])want : NULL);
    }
    assert_int_equal(good, want_good);
    free(want);
    return good;
}

typedef void check_with(void);

static void with_all_kernels(check_with *check)
{
    for (int cpu = 0; cpu < MR_CPU_N; cpu++) {
        kernels = mr_kernels_find((enum mr_cpu)cpu);
        if (kernels)
            check();
    }
}

/* All rows, one row, and as many as lanes and one more or less. */
static void check_crops(struct file *file)
{
    const uint32_t n = file->n_rows;
    assert_true(check_rows(file, 0, n - 1));
    for (uint32_t first = 0; first < n; first += 3)
        for (uint32_t last = first; last < n && last < first + 5; last++)
            assert_true(check_rows(file, first, last));
    assert_true(check_rows(file, n - 1, n - 1));
}

static void check_layouts(void)
{
    static const uint8_t layouts[][3][2] = {{{1, 1}, {1, 1}, {1, 1}},
                                            {{2, 2}, {1, 1}, {1, 1}},
                                            {{2, 1}, {1, 1}, {1, 1}},
                                            {{1, 4}, {1, 1}, {1, 1}}};
    for (uint32_t i = 0; i < 24; i++) {
        struct mr_test_jpeg options = {
            .width = 70 + 20 * i, .height = 130, .seed = i, .restart = i % 8, .optimised = i % 2};
        if (i % 7 == 6)
            options.colour = MR_TEST_GREY;
        else
            memcpy(options.sampling, layouts[i % 4], sizeof layouts[0]);
        struct file *file = open_file(mr_test_jpeg(&options), i % 3, 0);
        check_crops(file);
        assert_int_equal(rows.n_ahead, MR_SCAN_LANES);
        close_file(file);
    }
}

static void rows_decoded_in_turn_have_the_blocks_of_single_rows(void **state)
{
    (void)state;
    with_all_kernels(check_layouts);
}

/* Codes that no encoder makes, and parts of rows with restarts in them. */
static void check_written(void)
{
    for (uint32_t i = 0; i < 36; i++) {
        struct mr_test_scan options = {
            .width = 300 - i, .height = 90, .seed = i + 1, .code = i % 3};
        options.n_components = i / 3 % 3 == 0 ? 1 : i / 3 % 3 == 1 ? 3 : 4;
        options.restart = i % 5;
        options.dc_only = i % 11 == 10;
        struct file *file = open_file(mr_test_scan(&options), i % 9, 1 + i % 20);
        check_crops(file);
        close_file(file);
    }
}

static void any_run_size_and_code_is_decoded(void **state)
{
    (void)state;
    with_all_kernels(check_written);
}

/* The wider the rows, the fewer at once; each row has more bytes than a window holds. */
static void check_wide(void)
{
    static const struct {
        uint32_t width, n_ahead;
    } wide[] = {{3600, 3}, {3680, 2}, {5440, 2}, {5500, 0}};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        struct mr_test_scan options = {
            .width = wide[i].width, .height = 40, .n_components = 3, .seed = 1};
        struct file *file = open_file(mr_test_scan(&options), 0, 0);
        assert_true(file->image.len > (size_t)file->n_rows * MR_JPEG_SCAN_WINDOW);
        assert_true(check_rows(file, 0, file->n_rows - 1));
        assert_int_equal(rows.n_ahead, wide[i].n_ahead);
        close_file(file);
    }
}

static void wide_rows_take_fewer_lanes(void **state)
{
    (void)state;
    with_all_kernels(check_wide);
}

/* Damage: a few bytes changed, or the end missing. */
static void check_damage(void)
{
    uint32_t n_good = 0, n_odd = 0, random = 1;
    for (uint32_t i = 0; i < 4; i++) {
        struct mr_test_jpeg options = {
            .width = 200, .height = 100, .seed = i, .restart = i % 2 ? 5 : 0};
        struct file *file = open_file(mr_test_jpeg(&options), 2, 9);
        size_t whole = file->image.len;
        for (uint32_t k = 0; k < 60; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = file->start + (random >> 4) % (whole - file->start - 2);
            file->image.bytes[at] = (uint8_t)(random >> 24);
            if (k % 10 == 0)
                file->image.len = file->start + (whole - file->start) * 9 / 10 + k;
            bool good = check_rows(file, 0, file->n_rows - 1);
            n_good += good;
            n_odd += !good;
            assert_true(check_rows(file, 0, 0) || !good);
            memcpy(file->image.bytes, file->original, whole);
            file->image.len = whole;
        }
        close_file(file);
    }
    assert_true(n_good > 0 && n_odd > 0);
}

static void an_odd_row_is_odd_when_decoded_in_turn(void **state)
{
    (void)state;
    with_all_kernels(check_damage);
}

static int end_rows(void **state)
{
    (void)state;
    mr_scan_rows_fini(&rows);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_decoded_in_turn_have_the_blocks_of_single_rows),
        cmocka_unit_test(any_run_size_and_code_is_decoded),
        cmocka_unit_test(wide_rows_take_fewer_lanes),
        cmocka_unit_test(an_odd_row_is_odd_when_decoded_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, end_rows);
}
