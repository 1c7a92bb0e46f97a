/* SPDX-License-Identifier: Apache-2.0 */
/* The text that names a dataset, and its errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "dataset/kind.h"
#include "dataset/spec.h"
#include "tests/support/assert_words.h"

static const struct mr_kind kinds[] = {{.name = "imagefolder"},
                                       {.name = "list"},
                                       {.name = "records", .many_paths = true},
                                       {.name = NULL}};

static struct mr_spec parse(const char *text)
{
    struct mr_spec spec = {0};
    mr_error error = {0};
    if (mr_spec_parse(text, kinds, &spec, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
    return spec;
}

static void expect_path(const char *text, const char *kind, const char *path)
{
    struct mr_spec spec = parse(text);
    assert_string_equal(spec.kind->name, kind);
    assert_int_equal(spec.n_paths, 1);
    assert_string_equal(spec.paths[0], path);
    mr_spec_fini(&spec);
}

static void expect_error(const char *text, const char *words)
{
    struct mr_spec spec = {0};
    mr_error error = {0};
    if (mr_spec_parse(text, kinds, &spec, &error) != MR_ERR_INVALID)
        fail_msg("'%s' was not refused as invalid", text);
    assert_words(error.text, words);
    assert_null(spec.text);
}

static void a_bare_path_is_an_image_folder(void **state)
{
    (void)state;
    expect_path("photos/train", "imagefolder", "photos/train");
    expect_path("imagefolder:photos/train", "imagefolder", "photos/train");
    expect_path("a:b", "imagefolder", "a:b");
    expect_path("list:a:b", "list", "a:b");
    expect_path("LIST:Aa", "list", "Aa");
    expect_path("LISTS:Aa", "imagefolder", "LISTS:Aa");
    expect_path("/", "imagefolder", "/");
}

static void expect_no_folder_of(const char *text, int os_error, const char *words)
{
    struct mr_spec spec = parse(text);
    mr_error error = {0};
    assert_int_equal(mr_spec_no_folder(&spec, os_error, &error), MR_ERR_IO);
    assert_string_equal(error.text, words);
    mr_spec_fini(&spec);
}

static void expect_no_folder(const char *text, const char *words)
{
    expect_no_folder_of(text, ENOENT, words);
}

static void for_a_file_without_a_kind_the_error_names_the_kinds_for_files(void **state)
{
    (void)state;
    expect_no_folder_of("x", ENOTDIR,
                        "open a file as list:FILE or records:FILE?bytes=N; cannot open the folder "
                        "x: Not a directory");
    expect_no_folder_of("imagefolder:x", ENOTDIR, "cannot open the folder x: Not a directory");
}

static void for_a_word_before_a_colon_the_error_names_the_kinds(void **state)
{
    (void)state;
    expect_no_folder(
        "imagefoldr:x",
        "'imagefoldr' is not a kind of dataset (did you mean 'imagefolder'?); the kinds: "
        "imagefolder, list, records; cannot open the folder imagefoldr:x: No such file or "
        "directory");
    expect_no_folder(
        "tar:x",
        "'tar' is not a kind of dataset; the kinds: imagefolder, list, records; cannot open the "
        "folder tar:x: No such file or directory");
    expect_no_folder("x", "cannot open the folder x: No such file or directory");
    expect_no_folder("imagefolder:a:b", "cannot open the folder a:b: No such file or directory");
    expect_no_folder("./a:b", "cannot open the folder ./a:b: No such file or directory");
}

static void urls_are_refused_by_name(void **state)
{
    (void)state;
    expect_error("list:az://bucket/a", "'az://bucket/a' is a URL that list does not read");
    expect_error("records:a,https://b.c/d", "'https://b.c/d' is a URL");
    expect_error("gs://bucket/a", "'gs://bucket/a' is a URL");
    expect_path("./s3://a", "imagefolder", "./s3://a");
    expect_path("list:a/s3://a", "list", "a/s3://a");
    expect_path("list:s3:/a", "list", "s3:/a");
}

static void escapes_give_any_byte_but_never_separators(void **state)
{
    (void)state;
    expect_path("a%3Fb%2Cc%25%0a%fF%3a", "imagefolder", "a?b,c%\n\xff:");
    expect_path("list%3Ax", "imagefolder", "list:x");
    expect_path("imagefolder:a,b&c=d", "imagefolder", "a,b&c=d");
    expect_error("100%", "'%' in the dataset is not an escape");
    expect_error("a%4", "'%4' in the dataset is not an escape");
    expect_error("a%4g", "'%4g' in the dataset is not an escape");
    expect_error("a%00", "zero byte");
    expect_error("list:a?k=%zz", "'%zz'");
}

static void records_take_several_paths(void **state)
{
    (void)state;
    struct mr_spec spec = parse("records:a,b%2Cc,d?bytes=7&header=%31");
    assert_int_equal(spec.n_paths, 3);
    assert_string_equal(spec.paths[1], "b,c");
    assert_string_equal(spec.paths[2], "d");
    assert_string_equal(mr_spec_take(&spec, "header"), "1");
    assert_null(mr_spec_take(&spec, "stride"));
    mr_error error;
    assert_int_equal(mr_spec_finish(&spec, "this and that", &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "records has no key 'bytes'; its keys: this and that");
    assert_int_equal(mr_spec_finish(&spec, "header, btyes, stride", &error), MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "records has no key 'bytes' (did you mean 'btyes'?); its keys: header, btyes, stride");
    mr_spec_take(&spec, "bytes");
    assert_int_equal(mr_spec_finish(&spec, "", &error), MR_OK);
    mr_spec_fini(&spec);
    expect_error("records:a,,b", "has no path");
    expect_error("records:a,", "has no path");
    expect_error("list:", "'list:' has no path");
    expect_error("list:?a=b", "'list:' has no path");
}

static void kinds_and_keys_may_be_in_any_case_and_values_are_unchanged(void **state)
{
    (void)state;
    struct mr_spec spec = parse("RECords:Dir/A?BYTES=7&Dtype=I16");
    assert_string_equal(spec.kind->name, "records");
    assert_string_equal(spec.paths[0], "Dir/A");
    assert_string_equal(mr_spec_take(&spec, "bytes"), "7");
    assert_string_equal(mr_spec_take(&spec, "dtype"), "I16");
    mr_spec_fini(&spec);
    expect_error("list:a?x=1&X=2", "key 'X' of the dataset is given twice");
}

static void keys_have_values_and_are_given_once(void **state)
{
    (void)state;
    expect_error("list:a?label", "'label' in the dataset is not key=value");
    expect_error("list:a?=f32", "'=f32' in the dataset is not key=value");
    expect_error("list:a?", "'' in the dataset is not key=value");
    expect_error("list:a?x=1&x=2", "key 'x' of the dataset is given twice");
}

static void a_list_keeps_its_escapes_until_it_is_split(void **state)
{
    (void)state;
    struct mr_spec spec = parse("list:a?extra=a%2Cb,c%25&label=%66");
    assert_string_equal(mr_spec_take_list(&spec, "Extra"), "a%2Cb,c%25");
    assert_null(mr_spec_take_list(&spec, "keep"));
    assert_string_equal(mr_spec_take(&spec, "label"), "f");
    assert_string_equal(mr_spec_take(&spec, "label"), "f");
    mr_spec_fini(&spec);
    expect_error("list:a?extra=b,%2", "'%2' in the dataset is not an escape");
}

static void expect_int(const char *value, mr_status status, int64_t expected)
{
    char text[80];
    strcpy(text, "list:a?n=");
    strcat(text, value);
    struct mr_spec spec = parse(text);
    int64_t got = 42;
    mr_error error = {0};
    if (mr_spec_take_int(&spec, "n", -10, INT64_MAX, &got, &error) != status || got != expected)
        fail_msg("'%s' gives %lld, '%s'", value, (long long)got, error.text);
    if (status < 0)
        assert_words(error.text, value);
    mr_spec_fini(&spec);
}

static void numbers_are_whole_and_in_range(void **state)
{
    (void)state;
    expect_int("7", MR_OK, 7);
    expect_int("-10", MR_OK, -10);
    expect_int("9223372036854775807", MR_OK, INT64_MAX);
    expect_int("9223372036854775808", MR_ERR_INVALID, 42);
    expect_int("-11", MR_ERR_INVALID, 42);
    expect_int("1e3", MR_ERR_INVALID, 42);
    expect_int("0x10", MR_ERR_INVALID, 42);
    expect_int("", MR_ERR_INVALID, 42);
    expect_int(" 7", MR_ERR_INVALID, 42);
    expect_int("7 ", MR_ERR_INVALID, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_path_is_an_image_folder),
        cmocka_unit_test(for_a_file_without_a_kind_the_error_names_the_kinds_for_files),
        cmocka_unit_test(for_a_word_before_a_colon_the_error_names_the_kinds),
        cmocka_unit_test(urls_are_refused_by_name),
        cmocka_unit_test(escapes_give_any_byte_but_never_separators),
        cmocka_unit_test(records_take_several_paths),
        cmocka_unit_test(keys_have_values_and_are_given_once),
        cmocka_unit_test(kinds_and_keys_may_be_in_any_case_and_values_are_unchanged),
        cmocka_unit_test(a_list_keeps_its_escapes_until_it_is_split),
        cmocka_unit_test(numbers_are_whole_and_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
