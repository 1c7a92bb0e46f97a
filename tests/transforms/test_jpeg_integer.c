/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain integer arithmetic from coefficients to RGB: libjpeg-turbo's pixels for usual pictures, and
 * the same result with and without vectors, whatever the coefficients are.
 */
#include "tests/transforms/packed_sample.h"
#include "tests/packs/packer_support.h"
#include "packs/packer_tiles.h"
#include "tests/transforms/jpeg_integer.h"
#include "transforms/simd/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static alignas(64) int16_t blocks[MR_TILE_MAX_BLOCKS][64];

static uint32_t draw(uint32_t *random, uint32_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) % below;
}

/* All pixels of a sample, computed with the loops that MR_CPU names. The caller frees them. */
static uint8_t *plain_pixels(const struct packed_sample *sample, const char *cpu)
{
    const struct mr_packed_image *image = &sample->image;
    struct mr_jpeg_integer plain = {0};
    struct mr_packer_reading reading;
    setenv("MR_CPU", cpu, 1);
    assert_int_equal(mr_jpeg_integer_begin(&plain, image, NULL), MR_OK);
    unsetenv("MR_CPU");
    mr_packer_tiles_read_begin(&reading, image, sample->bytes, blocks);
    for (uint32_t n_mcus = 1, row = 0, column = 0; n_mcus > 0;) {
        assert_int_equal(mr_packer_tiles_read_next(&reading, &n_mcus, NULL), MR_OK);
        if (n_mcus > 0)
            mr_jpeg_integer_blocks(&plain, row, column, n_mcus, (const int16_t(*)[64])blocks, NULL);
        column += n_mcus;
        row += column == reading.layout.n_columns;
        column %= reading.layout.n_columns;
    }
    size_t stride = (size_t)image->width * 3;
    uint8_t *pixels = malloc(stride * image->height);
    assert_non_null(pixels);
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(pixels + y * stride, mr_jpeg_integer_row(&plain, y), stride);
    mr_jpeg_integer_fini(&plain);
    return pixels;
}

static void check_picture(const struct mr_test_jpeg *options)
{
    struct mr_test_image jpeg = mr_test_jpeg(options);
    struct packed_sample sample;
    uint32_t width, height;
    assert_true(packed_sample_make(&jpeg, MR_PACKED_DCT, &sample));
    assert_true(mr_jpeg_integer_covers(&sample.template));
    uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
    static const char *const sets[] = {"c", "avx2"};
    for (int s = 0; s < 2; s++) {
        uint8_t *pixels = plain_pixels(&sample, sets[s]);
        if (memcmp(pixels, full, (size_t)width * height * 3) != 0)
            fail_msg("%u x %u with %ux%u differs by %s", width, height, options->sampling[0][0],
                     options->sampling[0][1], sets[s]);
        free(pixels);
    }
    free(full);
    packed_sample_free(&sample);
    mr_test_image_free(&jpeg);
}

static void usual_pictures_have_libjpegs_pixels(void **state)
{
    (void)state;
    static const uint8_t factors[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {1, 4}, {4, 2}};
    for (uint32_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
        for (uint32_t i = 0; i < 60; i++) {
            struct mr_test_jpeg options = {
                .width = 1 + i, .height = 1 + (i * 7) % 41, .seed = i, .quality = 60 + i % 40};
            for (int c = 0; c < 3; c++)
                memcpy(options.sampling[c], c ? factors[0] : factors[f], 2);
            options.colour = i % 9 == 8 ? MR_TEST_GREY : i % 9 == 7 ? MR_TEST_RGB : MR_TEST_YCC;
            check_picture(&options);
        }
    }
    check_picture(
        &(struct mr_test_jpeg){.width = 50, .height = 40, .sampling = {{2, 2}, {2, 1}, {1, 2}}});
    check_picture(
        &(struct mr_test_jpeg){.width = 50, .height = 40, .sampling = {{1, 1}, {2, 1}, {1, 2}}});
    check_picture(&(struct mr_test_jpeg){.width = 700, .height = 300});
}

static void vectors_change_nothing_whatever_the_coefficients(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_test_image extreme = packed_sample_extreme(&jpeg, i);
        struct packed_sample sample;
        assert_true(packed_sample_make(&extreme, MR_PACKED_DCT, &sample));
        uint8_t *a = plain_pixels(&sample, "c"), *b = plain_pixels(&sample, "avx2");
        assert_memory_equal(a, b, (size_t)sample.image.width * sample.image.height * 3);
        free(a);
        free(b);
        packed_sample_free(&sample);
        mr_test_image_free(&extreme);
        mr_test_image_free(&jpeg);
    }
}

/*
 * A few coefficients of one column or row, whose sum is about the most that 16-bit vectors can
 * hold.
 */
static void draw_block(uint32_t *random, const uint16_t quant[64], int16_t block[64])
{
    uint32_t line = draw(random, 8), across = draw(random, 2), n = 1 + draw(random, 4);
    int left = (int)draw(random, 16000);
    memset(block, 0, 64 * sizeof *block);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t other = draw(random, 8), k = across ? 8 * line + other : 8 * other + line;
        int value = i + 1 < n ? (int)draw(random, (uint32_t)left + 1) : left;
        left -= value;
        value /= quant[k];
        block[k] = (int16_t)(draw(random, 2) ? value : -value);
    }
}

/*
 * A row of eight grey blocks: with the integers alone, and with the samples that 16-bit vectors
 * made of them.
 */
static void compare_rows(uint32_t *random, const struct mr_kernel_ops *kernels)
{
    struct mr_packed_template template = {
        .n_components = 1, .colour = MR_PACKED_GREY, .h = {1}, .v = {1}};
    struct mr_packed_image image = {
        .encoding = MR_PACKED_DCT, .width = 64, .height = 8, .template = &template};
    struct mr_jpeg_integer alone = {0}, helped = {0};
    uint8_t samples[8][64], *rows[8], **planes[1] = {rows};
    int16_t *pointers[8];
    for (int k = 0; k < 64; k++)
        template.quant[0][k] = (uint16_t)(1 + draw(random, draw(random, 8) ? 12 : 20000));
    for (int i = 0; i < 8; i++) {
        draw_block(random, template.quant[0], blocks[i]);
        rows[i] = samples[i];
        pointers[i] = blocks[i];
    }
    for (uint32_t i = 0, n; i < 8; i += n) {
        n = 2 + draw(random, 2) * 2;
        n = i + n <= 8 ? n : 2;
        assert_int_equal(kernels->idct_blocks(pointers + i, n, template.quant[0], rows, 8 * i), n);
    }
    assert_int_equal(mr_jpeg_integer_begin(&alone, &image, NULL), MR_OK);
    assert_int_equal(mr_jpeg_integer_begin(&helped, &image, NULL), MR_OK);
    mr_jpeg_integer_blocks(&alone, 0, 0, 8, (const int16_t(*)[64])blocks, NULL);
    mr_jpeg_integer_blocks(&helped, 0, 0, 8, (const int16_t(*)[64])blocks, planes);
    for (uint32_t y = 0; y < 8; y++)
        assert_memory_equal(mr_jpeg_integer_row(&alone, y), mr_jpeg_integer_row(&helped, y),
                            (size_t)64 * 3);
    mr_jpeg_integer_fini(&alone);
    mr_jpeg_integer_fini(&helped);
}

static void samples_of_vectors_count_only_where_they_cannot_differ(void **state)
{
    (void)state;
    const struct mr_kernel_ops *kernels = mr_kernels_best();
    if (!kernels->idct_blocks)
        skip();
    for (uint32_t i = 0, random = 1; i < 3000; i++)
        compare_rows(&random, kernels);
}

/* Blocks with only a DC coefficient, and such a block next to others. */
static void compare_flat(const struct mr_kernel_ops *kernels, int16_t dc, const uint16_t quant[64])
{
    int16_t flat[64] = {dc}, other[64] = {(int16_t)-dc, [63] = 1};
    int16_t *alike[6] = {flat, flat, flat, flat, flat, flat},
            *mixed[6] = {other, flat, other, other, flat, other};
    uint8_t alone[8][48], beside[8][48], *rows[2][8];
    for (int y = 0; y < 8; y++) {
        rows[0][y] = alone[y];
        rows[1][y] = beside[y];
    }
    assert_int_equal(kernels->idct_blocks(alike, 6, quant, rows[0], 0), 6);
    assert_int_equal(kernels->idct_blocks(mixed, 6, quant, rows[1], 0), 6);
    for (int y = 0; y < 8; y++) {
        for (int i = 0; i < 6; i++)
            assert_memory_equal(alone[y] + 8 * i, beside[y] + 8, 8);
        assert_memory_equal(beside[y] + 32, beside[y] + 8, 8);
    }
}

static void flat_blocks_have_the_samples_of_all_others(void **state)
{
    (void)state;
    const struct mr_kernel_ops *kernels = mr_kernels_best();
    uint16_t quant[64];
    if (!kernels->idct_blocks)
        skip();
    for (uint32_t i = 0; i < 2; i++) {
        for (int k = 0; k < 64; k++)
            quant[k] = i == 0 ? 1 : 37;
        for (int dc = INT16_MIN; dc <= INT16_MAX; dc++)
            compare_flat(kernels, (int16_t)dc, quant);
    }
}

static void inks_and_fractions_are_not_covered(void **state)
{
    (void)state;
    struct mr_packed_template inks = {
        .n_components = 4, .colour = MR_PACKED_CMYK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}};
    struct mr_packed_template thirds = {
        .n_components = 3, .colour = MR_PACKED_YCC, .h = {3, 2, 1}, .v = {1, 1, 1}};
    assert_false(mr_jpeg_integer_covers(&inks));
    assert_false(mr_jpeg_integer_covers(&thirds));
    thirds.h[1] = 1;
    assert_true(mr_jpeg_integer_covers(&thirds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_pictures_have_libjpegs_pixels),
        cmocka_unit_test(vectors_change_nothing_whatever_the_coefficients),
        cmocka_unit_test(samples_of_vectors_count_only_where_they_cannot_differ),
        cmocka_unit_test(flat_blocks_have_the_samples_of_all_others),
        cmocka_unit_test(inks_and_fractions_are_not_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
