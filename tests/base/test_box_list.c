/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of boxes grow and are cleared; relative boxes become pixels. */
#include "base/box_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void rows_stay_while_a_list_grows(void **state)
{
    (void)state;
    struct mr_box_list list = {0};
    struct mr_box_row *row;
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(mr_box_list_add(&list, &row, NULL), MR_OK);
        assert_int_equal(row->label, 0);
        row->label = i;
    }
    assert_int_equal(list.n, 1000);
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(list.rows[i].label, i);
    mr_box_list_clear(&list);
    assert_int_equal(mr_box_list_add(&list, &row, NULL), MR_OK);
    assert_int_equal(row->label, 0);
    assert_int_equal(list.n, 1);
    mr_box_list_fini(&list);
}

static void relative_boxes_become_pixels_once(void **state)
{
    (void)state;
    struct mr_box_list list = {.is_relative = 1};
    struct mr_box_row *row;
    assert_int_equal(mr_box_list_add(&list, &row, NULL), MR_OK);
    *row = (struct mr_box_row){.x1 = 0.3f, .y1 = 0.6f, .x2 = 0.2f, .y2 = 0.7f, .label = 5};
    for (int i = 0; i < 2; i++) {
        mr_box_list_scale(&list, 333, 500);
        row = list.rows;
        float x1 = 0.3f - 0.1f, x2 = 0.3f + 0.1f, y1 = 0.6f - 0.35f, y2 = 0.6f + 0.35f;
        x1 *= 333, x2 *= 333, y1 *= 500, y2 *= 500;
        assert_true(row->x1 == x1 && row->x2 == x2 && row->y1 == y1 && row->y2 == y2);
        float w = x2 - x1, h = y2 - y1;
        assert_true(row->area == w * h);
        assert_int_equal(row->label, 5);
    }
    mr_box_list_fini(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_while_a_list_grows),
        cmocka_unit_test(relative_boxes_become_pixels_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
