/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that the library fills in, with the sizes of older callers and with wrong sizes. */
#include "base/public_struct.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct now {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
};

static const struct now src = {.struct_size = 77, .a = 1, .b = 2};

static void all_but_the_size_is_written(void **state)
{
    (void)state;
    struct now out = {.struct_size = sizeof out};
    assert_int_equal(mr_out_struct_check(&out, sizeof out, "now", NULL), MR_OK);
    mr_out_struct_write(&out, &src, sizeof src);
    assert_int_equal(out.struct_size, sizeof out);
    assert_int_equal(out.a, 1);
    assert_int_equal(out.b, 2);
}

static void an_older_caller_s_struct_is_not_overrun(void **state)
{
    (void)state;
    struct now out = {.struct_size = offsetof(struct now, b), .b = 9};
    assert_int_equal(mr_out_struct_check(&out, sizeof out, "now", NULL), MR_OK);
    mr_out_struct_write(&out, &src, sizeof src);
    assert_int_equal(out.a, 1);
    assert_int_equal(out.b, 9);
    out = (struct now){.struct_size = sizeof(size_t), .a = 8};
    assert_int_equal(mr_out_struct_check(&out, sizeof out, "now", NULL), MR_OK);
    mr_out_struct_write(&out, &src, sizeof src);
    assert_int_equal(out.a, 8);
}

static void a_size_that_is_none_is_refused_by_name(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, sizeof(size_t) - 1, sizeof(struct now) + 1, SIZE_MAX};
    struct now out = {0};
    mr_error error;
    assert_int_equal(mr_out_struct_check(&out, sizeof out, "now", &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "struct_size of the now is 0: initialise it with NOW_INIT");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        out.struct_size = sizes[i];
        assert_error(mr_out_struct_check(&out, sizeof out, "now", &error), MR_ERR_INVALID, &error,
                     "of the now is not from 8 to 24");
    }
}

static void no_struct_is_written_nowhere(void **state)
{
    (void)state;
    assert_int_equal(mr_out_struct_check(NULL, sizeof src, "now", NULL), MR_OK);
    mr_out_struct_write(NULL, &src, sizeof src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_the_size_is_written),
        cmocka_unit_test(an_older_caller_s_struct_is_not_overrun),
        cmocka_unit_test(a_size_that_is_none_is_refused_by_name),
        cmocka_unit_test(no_struct_is_written_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
