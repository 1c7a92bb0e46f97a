/* SPDX-License-Identifier: Apache-2.0 */
/* The orientation in EXIF blocks, right and wrong ones. */
#include "base/exif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The block has exactly len bytes, so AddressSanitizer sees a read past the end. */
static uint32_t read_orientation(const char *tiff, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    if (len)
        memcpy(copy, tiff, len);
    uint32_t orientation = mr_exif_orientation(copy, len);
    free(copy);
    return orientation;
}

static const char big[] = "MM\0*\0\0\0\10"
                          "\0\2"
                          "\1\17\0\2\0\0\0\4abc\0"
                          "\1\22\0\3\0\0\0\1\0\6\0\0";
static const char little[] = "II*\0\12\0\0\0zz"
                             "\1\0"
                             "\22\1\3\0\1\0\0\0\10\0\0\0";
static const char as_long[] = "II*\0\10\0\0\0"
                              "\1\0"
                              "\22\1\4\0\1\0\0\0\3\0\0\0";

static void both_byte_orders_and_types_are_read(void **state)
{
    (void)state;
    assert_int_equal(read_orientation(big, sizeof big - 1), 6);
    assert_int_equal(read_orientation(little, sizeof little - 1), 8);
    assert_int_equal(read_orientation(as_long, sizeof as_long - 1), 3);
}

static void a_block_cut_anywhere_has_no_orientation(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof big - 1; len++)
        assert_int_equal(read_orientation(big, len), 1);
    for (size_t len = 0; len < sizeof little - 1; len++)
        assert_int_equal(read_orientation(little, len), 1);
}

static void values_out_of_range_count_as_none(void **state)
{
    (void)state;
    for (int value = 0; value < 256; value++) {
        char block[sizeof big];
        memcpy(block, big, sizeof big);
        block[8 + 2 + 12 + 9] = (char)value;
        assert_int_equal(read_orientation(block, sizeof big - 1),
                         value >= 1 && value <= 8 ? (uint32_t)value : 1);
    }
}

static void offsets_and_counts_beyond_the_block_are_harmless(void **state)
{
    (void)state;
    assert_int_equal(read_orientation("II*\0\377\377\377\377\1\0", 10), 1);
    assert_int_equal(read_orientation("II*\0\7\0\0\0\1\0", 10), 1);
    assert_int_equal(read_orientation("II*\0\10\0\0\0\377\377\1\2\3\4", 14), 1);
    assert_int_equal(read_orientation("XX*\0\10\0\0\0\1\0", 10), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_byte_orders_and_types_are_read),
        cmocka_unit_test(a_block_cut_anywhere_has_no_orientation),
        cmocka_unit_test(values_out_of_range_count_as_none),
        cmocka_unit_test(offsets_and_counts_beyond_the_block_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
