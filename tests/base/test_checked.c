/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on sizes: the largest results that fit, and the smallest that do not. */
#include "base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void sums_and_products_that_fit_are_right(void **state)
{
    (void)state;
    size_t size;
    uint64_t wide;
    assert_true(mr_checked_add(SIZE_MAX - 1, 1, &size));
    assert_true(size == SIZE_MAX);
    assert_true(mr_checked_mul(SIZE_MAX / 3, 3, &size));
    assert_true(size == SIZE_MAX / 3 * 3);
    assert_true(mr_checked_add_u64(UINT64_MAX, 0, &wide));
    assert_true(wide == UINT64_MAX);
    assert_true(mr_checked_mul_u64(UINT64_C(1) << 32, UINT32_MAX, &wide));
    assert_true(wide == (uint64_t)UINT32_MAX << 32);
}

static void overflow_is_told(void **state)
{
    (void)state;
    size_t size;
    uint64_t wide;
    assert_false(mr_checked_add(SIZE_MAX, 1, &size));
    assert_false(mr_checked_mul(SIZE_MAX / 2 + 1, 2, &size));
    assert_false(mr_checked_add_u64(UINT64_MAX, 1, &wide));
    assert_false(mr_checked_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &wide));
}

static void sizes_are_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(mr_align_up(0, 4096), 0);
    assert_int_equal(mr_align_up(1, 4096), 4096);
    assert_int_equal(mr_align_up(4096, 4096), 4096);
    assert_int_equal(mr_align_up(4097, 4096), 8192);
    assert_int_equal(mr_align_up(17, 1), 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_that_fit_are_right),
        cmocka_unit_test(overflow_is_told),
        cmocka_unit_test(sizes_are_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
