/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of element types. */
#include <millrace/batch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static void every_dtype_has_its_name_and_size(void **state)
{
    (void)state;
    static const struct {
        mr_dtype dtype;
        const char *name;
        size_t size;
    } known[] = {
        {MR_U8, "u8", 1},   {MR_F32, "f32", 4}, {MR_F16, "f16", 2}, {MR_BF16, "bf16", 2},
        {MR_F64, "f64", 8}, {MR_I8, "i8", 1},   {MR_U16, "u16", 2}, {MR_I16, "i16", 2},
        {MR_I32, "i32", 4}, {MR_I64, "i64", 8}, {MR_U32, "u32", 4},
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
    assert_int_equal(mr_dtype_parse("Bf16", &dtype), MR_OK);
    assert_int_equal(dtype, MR_BF16);
}

static void what_is_none_is_refused_and_not_written(void **state)
{
    (void)state;
    mr_dtype dtype = MR_F64;
    static const char *const wrong[] = {"", "f", "f323", "float", "default", "u8 ", "?"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mr_dtype_parse(wrong[i], &dtype), MR_ERR_INVALID);
    assert_int_equal(dtype, MR_F64);
    assert_string_equal(mr_dtype_name(MR_DTYPE_DEFAULT), "default");
    assert_int_equal(mr_dtype_size(MR_DTYPE_DEFAULT), 0);
    assert_string_equal(mr_dtype_name((mr_dtype)99), "?");
    assert_string_equal(mr_dtype_name((mr_dtype)-1), "?");
    assert_int_equal(mr_dtype_size((mr_dtype)99), 0);
}

static void a_null_argument_is_refused(void **state)
{
    (void)state;
    mr_dtype dtype;
    assert_int_equal(mr_dtype_parse(NULL, &dtype), MR_ERR_INVALID);
    assert_int_equal(mr_dtype_parse("u8", NULL), MR_ERR_INVALID);
}

/*
 * In a Turkish locale "I" is not the capital of "i". The locale is made for this test. It is
 * skipped if the locale's sources are not installed.
 */
static void names_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    char folder[] = "/tmp/millrace-locale-XXXXXX", command[200];
    mr_dtype dtype = MR_DTYPE_DEFAULT;
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i tr_TR -f UTF-8 %s/tr_TR.UTF-8 >%s/log 2>&1",
             folder, folder);
    int made = system(command);
    setenv("LOCPATH", folder, 1);
    bool turkish = made == 0 && setlocale(LC_ALL, "tr_TR.UTF-8") != NULL;
    mr_status status = mr_dtype_parse("I64", &dtype);
    setlocale(LC_ALL, "C");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!turkish)
        skip();
    assert_int_equal(status, MR_OK);
    assert_int_equal(dtype, MR_I64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_has_its_name_and_size),
        cmocka_unit_test(names_are_read_in_any_case),
        cmocka_unit_test(a_null_argument_is_refused),
        cmocka_unit_test(names_do_not_depend_on_the_locale),
        cmocka_unit_test(what_is_none_is_refused_and_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
