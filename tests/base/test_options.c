/* SPDX-License-Identifier: Apache-2.0 */
/* Options structs of older and newer callers. */
#include "base/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct old {
    size_t struct_size;
    uint64_t a;
};
struct now {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
};
struct newer {
    size_t struct_size;
    uint64_t a;
    uint64_t b;
    uint64_t c;
};

static void the_present_version_is_copied(void **state)
{
    (void)state;
    struct now src = {.struct_size = sizeof src, .a = 1, .b = 2}, dst;
    assert_int_equal(mr_options_copy(&dst, sizeof dst, &src, "mr_now", NULL), MR_OK);
    assert_memory_equal(&dst, &src, sizeof dst);
}

static void an_older_caller_s_missing_fields_are_zero(void **state)
{
    (void)state;
    struct old src = {.struct_size = sizeof src, .a = 1};
    struct now dst;
    memset(&dst, 0xff, sizeof dst);
    assert_int_equal(mr_options_copy(&dst, sizeof dst, &src, "mr_now", NULL), MR_OK);
    assert_int_equal(dst.struct_size, sizeof dst);
    assert_int_equal(dst.a, 1);
    assert_int_equal(dst.b, 0);
}

static void a_newer_caller_s_unused_fields_do_not_matter(void **state)
{
    (void)state;
    struct newer src = {.struct_size = sizeof src, .a = 1, .b = 2};
    struct now dst;
    assert_int_equal(mr_options_copy(&dst, sizeof dst, &src, "mr_now", NULL), MR_OK);
    assert_int_equal(dst.struct_size, sizeof dst);
    assert_int_equal(dst.b, 2);
}

static void a_newer_caller_s_used_field_is_refused(void **state)
{
    (void)state;
    struct newer src = {.struct_size = sizeof src, .c = UINT64_C(1) << 8};
    struct now dst;
    mr_error error;
    assert_int_equal(mr_options_copy(&dst, sizeof dst, &src, "mr_now", &error), MR_ERR_INVALID);
    assert_string_equal(error.text,
                        "struct_size 32 is above this library's 24 and byte 25 is not zero");
}

static void no_struct_means_all_defaults(void **state)
{
    (void)state;
    struct now dst;
    memset(&dst, 0xff, sizeof dst);
    assert_int_equal(mr_options_copy(&dst, sizeof dst, NULL, "mr_now", NULL), MR_OK);
    assert_int_equal(dst.struct_size, sizeof dst);
    assert_int_equal(dst.a + dst.b, 0);
}

static void an_impossible_size_is_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct now src = {.struct_size = sizes[i]}, dst;
        mr_error error;
        assert_int_equal(mr_options_copy(&dst, sizeof dst, &src, "mr_now", &error), MR_ERR_INVALID);
        assert_int_equal(strncmp(error.text, "struct_size ", 12), 0);
        if (sizes[i] == 0)
            assert_string_equal(error.text,
                                "struct_size of the mr_now is 0: initialise it with MR_NOW_INIT");
    }
    struct now only_size = {.struct_size = sizeof(size_t), .a = 7}, dst;
    assert_int_equal(mr_options_copy(&dst, sizeof dst, &only_size, "mr_now", NULL), MR_OK);
    assert_int_equal(dst.a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_present_version_is_copied),
        cmocka_unit_test(an_older_caller_s_missing_fields_are_zero),
        cmocka_unit_test(a_newer_caller_s_unused_fields_do_not_matter),
        cmocka_unit_test(a_newer_caller_s_used_field_is_refused),
        cmocka_unit_test(no_struct_means_all_defaults),
        cmocka_unit_test(an_impossible_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
