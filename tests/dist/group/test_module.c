/* SPDX-License-Identifier: Apache-2.0 */
/* Where modules are searched, and the error if there is none or a wrong one. */
#include "dist/group/module.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void a_module_is_found_by_the_path(void **state)
{
    (void)state;
    const struct mr_engine_table *table = NULL;
    mr_error error;
    setenv("MR_MODULE_PATH", "/nowhere::" MR_TEST_DOUBLE, 1);
    if (mr_module_open("gloo", &table, &error))
        fail_msg("%s", error.text);
    assert_string_equal(table->name, "double");
    assert_int_equal(table->abi, MR_ENGINE_ABI);
}

static void a_missing_module_is_named_with_the_searched_folders(void **state)
{
    (void)state;
    const struct mr_engine_table *table = (const struct mr_engine_table *)state;
    mr_error error;
    setenv("MR_MODULE_PATH", "/nowhere", 1);
    assert_int_equal(mr_module_open("absent", &table, &error), MR_ERR_UNSUPPORTED);
    assert_null(table);
    assert_words(error.text, "libmillrace-absent.so");
    assert_words(error.text, "/nowhere");
}

static void malformed_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "../gloo", "Gloo", "gloo/..", "averyveryverylongname"};
    const struct mr_engine_table *table;
    mr_error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_error(mr_module_open(names[i], &table, &error), MR_ERR_UNSUPPORTED, &error,
                     "there is no backend");
    }
}

/* It exists but cannot be used: no other folder is searched. */
static void a_file_that_is_not_a_module_is_named(void **state)
{
    (void)state;
    const struct mr_engine_table *table;
    mr_error error;
    char folder[] = "/tmp/mr_module_XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libmillrace-gloo.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("this is no shared object\n", file);
    fclose(file);
    setenv("MR_MODULE_PATH", folder, 1);
    assert_error(mr_module_open("gloo", &table, &error), MR_ERR_UNSUPPORTED, &error, path);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_is_found_by_the_path),
        cmocka_unit_test(a_missing_module_is_named_with_the_searched_folders),
        cmocka_unit_test(malformed_names_are_refused),
        cmocka_unit_test(a_file_that_is_not_a_module_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
