/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a box: how many are given at once, and which memory is reused. */
#include "transforms/formats/box_rows.h"

#include "tests/support/allocations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void rows_are_given_until_none_is_left(void **state)
{
    (void)state;
    struct mr_box_rows rows = {0};
    const uint8_t *given[8];
    uint32_t n;
    mr_error error;
    assert_int_equal(mr_box_rows_reserve(&rows, 100, NULL), MR_OK);
    assert_int_equal(mr_box_rows_give(&rows, given, 8, &n, &error), MR_ERR_STATE);
    mr_box_rows_place(&rows, 7, 20, 3);
    assert_int_equal(mr_box_rows_give(&rows, given, 2, &n, NULL), MR_OK);
    assert_int_equal(n, 2);
    assert_ptr_equal(given[0], rows.bytes + 7);
    assert_ptr_equal(given[1], rows.bytes + 27);
    assert_int_equal(mr_box_rows_give(&rows, given, 8, &n, NULL), MR_OK);
    assert_int_equal(n, 1);
    assert_ptr_equal(given[0], rows.bytes + 47);
    assert_int_equal(mr_box_rows_give(&rows, given, 8, &n, &error), MR_ERR_STATE);
    mr_box_rows_place(&rows, 0, 20, 3);
    mr_box_rows_clear(&rows);
    assert_int_equal(mr_box_rows_give(&rows, given, 8, &n, &error), MR_ERR_STATE);
    mr_box_rows_fini(&rows);
}

static void memory_is_reused_unless_it_is_large(void **state)
{
    (void)state;
    struct mr_box_rows rows = {0};
    assert_int_equal(mr_box_rows_reserve(&rows, 16 << 20, NULL), MR_OK);
    mr_box_rows_clear(&rows);
    uint8_t *saved = rows.bytes;
    assert_non_null(saved);
    assert_int_equal(mr_box_rows_reserve(&rows, 5, NULL), MR_OK);
    assert_ptr_equal(rows.bytes, saved);
    assert_int_equal(mr_box_rows_reserve(&rows, (16 << 20) + 1, NULL), MR_OK);
    mr_box_rows_clear(&rows);
    assert_null(rows.bytes);
    assert_int_equal(rows.memory.len_allocated, 0);
    mr_box_rows_fini(&rows);
}

/* After a failed allocation the object must not believe in its old size. */
static void a_failed_allocation_is_tried_again(void **state)
{
    (void)state;
    struct mr_box_rows rows = {0};
    mr_error error;
    assert_int_equal(mr_box_rows_reserve(&rows, 100, NULL), MR_OK);
    allocations = (struct allocations){.refused = 1};
    assert_int_equal(mr_box_rows_reserve(&rows, 200, &error), MR_ERR_NO_MEMORY);
    allocations.refused = 0;
    assert_int_equal(mr_box_rows_reserve(&rows, 200, NULL), MR_OK);
    memset(rows.bytes, 1, 200);
    assert_int_equal(rows.memory.len_allocated, 200);
    mr_box_rows_fini(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_given_until_none_is_left),
        cmocka_unit_test(memory_is_reused_unless_it_is_large),
        cmocka_unit_test(a_failed_allocation_is_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
