/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our decoder of scans against libjpeg alone. Good files have the same pixels, with every set of
 * loops, and libjpeg does not decode them again. Odd files have the same statuses, messages,
 * warnings and pixels.
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
#include "tests/transforms/scan_pair.h"
#include "transforms/codec.h"
#include "transforms/codec_jpeg.h"
#include "transforms/packed_selftest.h"
#include "transforms/simd/kernels.h"

static const struct mr_codec_limits zeros;

/* The whole image, then boxes. libjpeg must not decode any of them again. */
static void check_good(struct scan_pair *pair, const struct mr_test_image *image, uint32_t n_boxes,
                       const char *what)
{
    uint32_t width, height;
    free(mr_test_jpeg_pixels(image->bytes, image->len, &width, &height));
    for (uint32_t i = 0; i <= n_boxes; i++) {
        struct scan_box box = scan_pair_box(i * 31 + width, width, height);
        const char *difference =
            scan_pair_compare(pair, image->bytes, image->len, i == 0 ? NULL : &box);
        if (difference)
            fail_msg("%s, %ux%u, box %u: %s", what, width, height, i, difference);
        if (pair->n_own != pair->n_compared)
            fail_msg("%s, %ux%u, box %u: libjpeg decoded it again", what, width, height, i);
    }
}

typedef void check_with(struct scan_pair *pair);

static void with_all_kernels(check_with *check)
{
    for (int cpu = 0; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find((enum mr_cpu)cpu);
        struct scan_pair pair;
        if (!kernels)
            continue;
        scan_pair_init(&pair, &zeros, kernels);
        check(&pair);
        assert_true(pair.n_compared > 0);
        scan_pair_fini(&pair);
    }
}

static const uint8_t layouts[][3][2] = {
    {{1, 1}, {1, 1}, {1, 1}}, {{2, 1}, {1, 1}, {1, 1}}, {{2, 2}, {1, 1}, {1, 1}},
    {{1, 2}, {1, 1}, {1, 1}}, {{4, 1}, {1, 1}, {1, 1}}, {{1, 4}, {1, 1}, {1, 1}},
    {{4, 2}, {1, 1}, {1, 1}}, {{2, 2}, {2, 1}, {2, 1}}, {{1, 1}, {2, 2}, {2, 2}},
    {{3, 2}, {1, 1}, {1, 1}}, {{2, 1}, {2, 1}, {1, 1}}, {{2, 2}, {2, 1}, {1, 2}},
};
#define N_LAYOUTS (sizeof layouts / sizeof layouts[0])

static const uint32_t sizes[][2] = {{1, 1}, {7, 9}, {17, 33}, {66, 67}, {131, 40}};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

/* Restarts in every interval, and none. */
static void check_encoded(struct scan_pair *pair)
{
    for (uint32_t i = 0, n = 0; i < N_LAYOUTS; i++)
        for (uint32_t k = 0; k < N_SIZES; k++, n++) {
            struct mr_test_jpeg options = {.width = sizes[k][0],
                                           .height = sizes[k][1],
                                           .seed = n,
                                           .restart = n % 9,
                                           .optimised = n % 2};
            char what[64];
            memcpy(options.sampling, layouts[i], sizeof layouts[i]);
            struct mr_test_image image = mr_test_jpeg(&options);
            snprintf(what, sizeof what, "layout %u, restart %u", i, options.restart);
            check_good(pair, &image, 6, what);
            mr_test_image_free(&image);
        }
}

static void files_of_encoders_are_not_decoded_again(void **state)
{
    (void)state;
    with_all_kernels(check_encoded);
}

static void check_colours(struct scan_pair *pair)
{
    for (int colour = MR_TEST_YCC; colour <= MR_TEST_YCCK; colour++) {
        struct mr_test_jpeg options = {
            .width = 70, .height = 51, .colour = colour, .restart = (uint32_t)colour * 2};
        struct mr_test_image image = mr_test_jpeg(&options);
        check_good(pair, &image, 8, "colours");
        mr_test_image_free(&image);
    }
}

static void no_colour_space_is_decoded_again(void **state)
{
    (void)state;
    with_all_kernels(check_colours);
}

/* More clean bytes than the window holds, with stretches of 0xff. */
static void check_long(struct scan_pair *pair)
{
    struct mr_test_jpeg options = {.width = 700, .height = 300, .quality = 100};
    struct mr_test_image image = mr_test_jpeg(&options);
    assert_true(image.len > 100000);
    check_good(pair, &image, 6, "long");
    mr_test_image_free(&image);
}

static void scans_longer_than_the_window_move_it_forward(void **state)
{
    (void)state;
    with_all_kernels(check_long);
}

static void check_written(struct scan_pair *pair)
{
    for (uint32_t i = 0; i < 54; i++) {
        struct mr_test_scan options = {
            .width = 16 + i * 5, .height = 90 - i, .seed = i + 1, .code = i % 3};
        options.n_components = i / 3 % 3 == 0 ? 1 : i / 3 % 3 == 1 ? 3 : 4;
        options.restart = i / 9 % 2 ? i % 7 : 0;
        options.dc_only = i % 11 == 10;
        if (options.n_components == 3)
            memcpy(options.sampling, layouts[i % N_LAYOUTS], sizeof layouts[0]);
        struct mr_test_image image = mr_test_scan(&options);
        char what[64];
        snprintf(what, sizeof what, "written %u", i);
        check_good(pair, &image, 6, what);
        mr_test_image_free(&image);
    }
}

static void any_run_size_and_code_is_decoded(void **state)
{
    (void)state;
    with_all_kernels(check_written);
}

/* Odd files. */

/* A copy in which n_out bytes at a place are replaced by others. */
static struct mr_test_image edit(const struct mr_test_image *image, size_t at, size_t n_out,
                                 const void *in, size_t n_in)
{
    struct mr_test_image made = {malloc(image->len - n_out + n_in), image->len - n_out + n_in};
    assert_non_null(made.bytes);
    memcpy(made.bytes, image->bytes, at);
    if (n_in)
        memcpy(made.bytes + at, in, n_in);
    memcpy(made.bytes + at + n_in, image->bytes + at + n_out, image->len - at - n_out);
    return made;
}

/* Checks the whole image and boxes. Returns how many libjpeg did not decode again. */
static uint32_t check_same(struct scan_pair *pair, const struct mr_test_image *image,
                           const char *what)
{
    uint32_t before = pair->n_own;
    for (uint32_t i = 0; i < 12; i++) {
        struct scan_box box = scan_pair_box(i, 90, 70);
        const char *difference =
            scan_pair_compare(pair, image->bytes, image->len, i == 0 ? NULL : &box);
        if (difference)
            fail_msg("%s, box %u: %s", what, i, difference);
    }
    return pair->n_own - before;
}

static void check_edit(struct scan_pair *pair, const struct mr_test_image *image, size_t at,
                       size_t n_out, const void *in, size_t n_in, const char *what)
{
    struct mr_test_image made = edit(image, at, n_out, in, n_in);
    check_same(pair, &made, what);
    mr_test_image_free(&made);
}

static size_t find_marker(const struct mr_test_image *image, size_t from, uint8_t marker)
{
    while (from + 1 < image->len &&
           !(image->bytes[from] == 0xff && image->bytes[from + 1] == marker))
        from++;
    assert_true(from + 1 < image->len);
    return from;
}

static void check_markers(struct scan_pair *pair)
{
    struct mr_test_jpeg options = {.width = 90, .height = 70, .restart = 2};
    struct mr_test_image image = mr_test_jpeg(&options);
    size_t at = find_marker(&image, mr_test_scan_start(&image), 0xd3);
    check_edit(pair, &image, at, 0, "\xff", 1, "a fill byte");
    check_edit(pair, &image, at, 0, "\x12\x34\x56", 3, "bytes before a restart");
    check_edit(pair, &image, at, 2, "\xff\xd5", 2, "a restart out of turn");
    check_edit(pair, &image, at, 2, "\xff\xd9", 2, "an end in place of a restart");
    check_edit(pair, &image, at, 2, NULL, 0, "no restart");
    check_edit(pair, &image, at, 0, "\xff\xe5\0\4ab", 6, "a segment before a restart");
    check_edit(pair, &image, at + 2, 0, "\xff\xd3", 2, "a restart twice");
    check_edit(pair, &image, at + 9, 0, "\xff\xd4", 2, "a restart too early");
    check_edit(pair, &image, at + 9, 0, "\xff\xff\0", 3, "a fill byte before a zero");
    check_edit(pair, &image, at + 9, image.len - at - 9, NULL, 0, "cut");
    check_edit(pair, &image, at + 9, image.len - at - 9, "\xff", 1, "cut after 0xff");
    mr_test_image_free(&image);
}

static void markers_out_of_turn_are_judged_by_libjpeg(void **state)
{
    (void)state;
    with_all_kernels(check_markers);
}

static void check_end(struct scan_pair *pair)
{
    struct mr_test_jpeg options = {.width = 90, .height = 70};
    struct mr_test_image image = mr_test_jpeg(&options);
    uint32_t all = check_same(pair, &image, "good");
    struct mr_test_image more = edit(&image, image.len, 0, "\xff\xd9\xff\xd9garbage\xff\xda", 13);
    assert_int_equal(check_same(pair, &more, "more after the end"), all);
    mr_test_image_free(&more);
    for (size_t n = 1; n < 60; n += n < 12 ? 1 : 7)
        check_edit(pair, &image, image.len - n, n, NULL, 0, "cut");
    mr_test_image_free(&image);
}

static void bytes_after_the_end_do_not_matter(void **state)
{
    (void)state;
    with_all_kernels(check_end);
}

static void check_values(struct scan_pair *pair)
{
    struct mr_test_scan options = {.width = 90, .height = 70, .n_components = 3, .dc_grows = true};
    struct mr_test_image image = mr_test_scan(&options);
    uint32_t n = check_same(pair, &image, "DC coefficients beyond 16 bits");
    assert_true(n < 12);
    mr_test_image_free(&image);
    /*
     * The sizes 11 and 12 of AC coefficients, and a run without an end: no encoder makes these
     * symbols.
     */
    options = (struct mr_test_scan){
        .width = 90, .height = 70, .n_components = 3, .code = MR_TEST_CODE_LONG};
    for (uint32_t i = 0; i < 40; i++) {
        static const uint8_t symbols[] = {0x0b, 0x0c, 0x30, 0x0f, 0xff};
        options.seed = i;
        image = mr_test_scan(&options);
        size_t ac = find_marker(&image, find_marker(&image, 0, 0xc4) + 2, 0xc4);
        image.bytes[ac + 5 + 16 + i % 12] = symbols[i % 5];
        check_same(pair, &image, "invalid symbols");
        mr_test_image_free(&image);
    }
}

static void values_that_no_encoder_makes_are_judged_by_libjpeg(void **state)
{
    (void)state;
    with_all_kernels(check_values);
}

static void check_below(struct scan_pair *pair)
{
    struct mr_test_jpeg options = {.width = 90, .height = 170};
    struct mr_test_image image = mr_test_jpeg(&options);
    struct mr_test_image cut = edit(&image, image.len - 200, 200, NULL, 0);
    struct scan_box box = {20, 10, 50, 50};
    assert_null(scan_pair_compare(pair, cut.bytes, cut.len, &box));
    assert_int_equal(pair->n_own, pair->n_compared);
    box.height = 160;
    assert_null(scan_pair_compare(pair, cut.bytes, cut.len, &box));
    assert_int_equal(pair->n_own, pair->n_compared - 1);
    mr_test_image_free(&cut);
    mr_test_image_free(&image);
}

static void damage_below_the_box_is_not_seen(void **state)
{
    (void)state;
    with_all_kernels(check_below);
}

/* Files that are not baseline of one scan never reach the decoder. */
static void other_files_are_decoded_by_libjpeg(void **state)
{
    static const struct mr_test_jpeg others[] = {
        {.width = 50, .height = 40, .progressive = true},
        {.width = 50, .height = 40, .one_scan_each = true},
        {.width = 50, .height = 40, .arithmetic = true},
        {.width = 50, .height = 40, .colour = MR_TEST_GREY, .sampling = {{2, 2}}},
    };
    struct scan_pair pair;
    (void)state;
    scan_pair_init(&pair, &zeros, mr_kernels_best());
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct mr_test_image image = mr_test_jpeg(&others[i]);
        assert_null(scan_pair_compare(&pair, image.bytes, image.len, NULL));
        assert_int_equal(pair.n_own, 0);
        mr_test_image_free(&image);
    }
    scan_pair_fini(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_encoders_are_not_decoded_again),
        cmocka_unit_test(no_colour_space_is_decoded_again),
        cmocka_unit_test(scans_longer_than_the_window_move_it_forward),
        cmocka_unit_test(any_run_size_and_code_is_decoded),
        cmocka_unit_test(markers_out_of_turn_are_judged_by_libjpeg),
        cmocka_unit_test(bytes_after_the_end_do_not_matter),
        cmocka_unit_test(values_that_no_encoder_makes_are_judged_by_libjpeg),
        cmocka_unit_test(damage_below_the_box_is_not_seen),
        cmocka_unit_test(other_files_are_decoded_by_libjpeg),
    };
    if (mr_packed_selftest_decoder() == MR_CODEC_JPEG_STOCK) {
        printf("this libjpeg does not accept a decoder of scans\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
