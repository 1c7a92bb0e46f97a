/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of element types and layouts. */
#include <millrace/batch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void every_dtype_has_its_name_and_size(void **state)
{
    (void)state;
    static const struct {
        mr_dtype dtype;
        const char *name;
        size_t size;
    } known[] = {
        {MR_U8, "u8", 1}, {MR_F32, "f32", 4}, {MR_F16, "f16", 2}, {MR_BF16, "bf16", 2}, {MR_F64, "f64", 8},
        {MR_I8, "i8", 1}, {MR_U16, "u16", 2}, {MR_I16, "i16", 2}, {MR_I32, "i32", 4},   {MR_I64, "i64", 8},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        mr_dtype parsed = MR_DTYPE_DEFAULT;
        assert_string_equal(mr_dtype_name(known[i].dtype), known[i].name);
        assert_int_equal(mr_dtype_size(known[i].dtype), known[i].size);
        assert_int_equal(mr_dtype_parse(known[i].name, &parsed), MR_OK);
        assert_int_equal(parsed, known[i].dtype);
    }
}

static void names_are_read_in_any_case(void **state)
{
    (void)state;
    mr_dtype dtype;
    mr_layout layout = MR_NCHW;
    assert_int_equal(mr_dtype_parse("Bf16", &dtype), MR_OK);
    assert_int_equal(dtype, MR_BF16);
    assert_int_equal(mr_layout_parse("NhWc", &layout), MR_OK);
    assert_int_equal(layout, MR_NHWC);
    assert_int_equal(mr_layout_parse("NCHW", &layout), MR_OK);
    assert_int_equal(layout, MR_NCHW);
}

static void what_is_none_is_refused_and_not_written(void **state)
{
    (void)state;
    mr_dtype dtype = MR_F64;
    mr_layout layout = MR_NHWC;
    static const char *const wrong[] = {"", "f", "f323", "float", "default", "u8 ", "?"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mr_dtype_parse(wrong[i], &dtype), MR_ERR_INVALID);
    assert_int_equal(dtype, MR_F64);
    assert_int_equal(mr_layout_parse("nhcw", &layout), MR_ERR_INVALID);
    assert_int_equal(layout, MR_NHWC);
    assert_string_equal(mr_dtype_name(MR_DTYPE_DEFAULT), "default");
    assert_int_equal(mr_dtype_size(MR_DTYPE_DEFAULT), 0);
    assert_string_equal(mr_dtype_name((mr_dtype)99), "?");
    assert_string_equal(mr_dtype_name((mr_dtype)-1), "?");
    assert_int_equal(mr_dtype_size((mr_dtype)99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_has_its_name_and_size),
        cmocka_unit_test(names_are_read_in_any_case),
        cmocka_unit_test(what_is_none_is_refused_and_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
