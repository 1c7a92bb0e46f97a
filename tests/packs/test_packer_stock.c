/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packer with our decoder of scans makes the same samples as one with libjpeg alone, from good
 * files and from odd ones: the same bytes, and the same reasons for files that stay unchanged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/packs/packer_support.h"
#include "tests/support/scans.h"
#include "tests/transforms/packed_sample.h"

struct packers {
    struct mr_packer *own, *stock;
};

static int make_packers(void **state)
{
    static struct packers packers;
    struct mr_packer_options options = {.encoding = MR_PACKED_DCT};
    packers.own = packer_make(&options);
    options.stock_jpeg = true;
    packers.stock = packer_make(&options);
    *state = &packers;
    return 0;
}

static int free_packers(void **state)
{
    struct packers *packers = *state;
    mr_packer_destroy(packers->own);
    mr_packer_destroy(packers->stock);
    return 0;
}

static void check_same(const struct packers *packers, const struct mr_test_image *file,
                       const char *what)
{
    struct mr_packed_sample own = packer_pack(packers->own, file->bytes, file->len);
    struct mr_packed_sample stock = packer_pack(packers->stock, file->bytes, file->len);
    if (strcmp(own.why, stock.why) != 0 || own.damaged != stock.damaged)
        fail_msg("%s: '%s' instead of '%s'", what, own.why, stock.why);
    assert_int_equal(own.image.encoding, stock.image.encoding);
    assert_int_equal(own.image.flags, stock.image.flags);
    assert_int_equal(own.image.len, stock.image.len);
    assert_memory_equal(own.bytes, stock.bytes, own.image.len);
}

static void good_files_become_the_same_samples(void **state)
{
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        check_same(*state, &jpeg, "an encoder's file");
        struct mr_test_image extreme = packed_sample_extreme(&jpeg, i);
        check_same(*state, &extreme, "a file of extreme coefficients");
        mr_test_image_free(&extreme);
        mr_test_image_free(&jpeg);
    }
    for (uint32_t i = 0; i < 18; i++) {
        struct mr_test_scan options = {
            .width = 50 + i, .height = 60, .seed = i, .code = i % 3, .restart = i % 4};
        options.n_components = i % 2 ? 3 : 1;
        options.dc_grows = i == 17; /* libjpeg lets the DC coefficients wrap around */
        struct mr_test_image jpeg = mr_test_scan(&options);
        check_same(*state, &jpeg, "a file written by hand");
        mr_test_image_free(&jpeg);
    }
}

static void odd_files_are_kept_for_the_same_reasons(void **state)
{
    uint32_t random = 1;
    for (uint32_t i = 0; i < 300; i++) {
        struct mr_test_jpeg options = {.width = 60, .height = 50, .restart = i % 3};
        struct mr_test_image jpeg = mr_test_jpeg(&options);
        size_t start = mr_test_scan_start(&jpeg);
        for (uint32_t k = 0; k <= i % 3; k++) {
            random = random * 1664525u + 1013904223u;
            jpeg.bytes[start + (random >> 4) % (jpeg.len - start)] ^= (uint8_t)(1u << i % 8);
        }
        if (i % 10 == 9)
            jpeg.len -= 1 + i % 40;
        char what[32];
        snprintf(what, sizeof what, "odd file %u", i);
        check_same(*state, &jpeg, what);
        mr_test_image_free(&jpeg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_files_become_the_same_samples, make_packers,
                                        free_packers),
        cmocka_unit_test_setup_teardown(odd_files_are_kept_for_the_same_reasons, make_packers,
                                        free_packers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
