/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain integer arithmetic from coefficients to RGB: libjpeg-turbo's pixels for usual pictures, and the same whatever
 * the coefficients are, with and without vectors.
 */
#include "tests/transforms/packed_sample.h"
#include "tests/packs/packer_support.h"
#include "packs/packer_tiles.h"
#include "transforms/jpeg_integer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static alignas(64) int16_t blocks[MR_TILE_MAX_BLOCKS][64];

/* All pixels of a sample by the loops that MR_CPU names, to be freed. */
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
            mr_jpeg_integer_blocks(&plain, row, column, n_mcus, (const int16_t(*)[64])blocks);
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
    check_picture(&(struct mr_test_jpeg){.width = 50, .height = 40, .sampling = {{2, 2}, {2, 1}, {1, 2}}});
    check_picture(&(struct mr_test_jpeg){.width = 50, .height = 40, .sampling = {{1, 1}, {2, 1}, {1, 2}}});
    check_picture(&(struct mr_test_jpeg){.width = 700, .height = 300});
}

static void vectors_change_nothing_whatever_the_coefficients(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_test_image extreme = packed_sample_extreme(&jpeg, i);
        struct packed_sample sample;
        assert_true(packed_sample_make(&extreme, MR_PACKED_DCT8, &sample));
        uint8_t *a = plain_pixels(&sample, "c"), *b = plain_pixels(&sample, "avx2");
        assert_memory_equal(a, b, (size_t)sample.image.width * sample.image.height * 3);
        free(a);
        free(b);
        packed_sample_free(&sample);
        mr_test_image_free(&extreme);
        mr_test_image_free(&jpeg);
    }
}

static void inks_and_fractions_are_not_covered(void **state)
{
    (void)state;
    struct mr_packed_template inks = {
        .n_components = 4, .colour = MR_PACKED_CMYK, .h = {1, 1, 1, 1}, .v = {1, 1, 1, 1}};
    struct mr_packed_template thirds = {.n_components = 3, .colour = MR_PACKED_YCC, .h = {3, 2, 1}, .v = {1, 1, 1}};
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
        cmocka_unit_test(inks_and_fractions_are_not_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
