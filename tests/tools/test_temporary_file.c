/* SPDX-License-Identifier: Apache-2.0 */
/* Several files that belong together get their names, or none does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tools/run_command.h"
#include "tools/temporary_file.h"

enum { N = 3 };

static const char *const names[N] = {"a", "b", "c"};

/* "a" is there already, "b" is not. */
static void open_all(struct mr_temporary_file files[N], struct mr_temporary_file *all[N])
{
    mr_run_write_file("a", "old", 3);
    for (int i = 0; i < N; i++) {
        all[i] = &files[i];
        assert_true(mr_temporary_file_open(all[i], names[i]));
        assert_true(mr_temporary_file_write(all[i], "new", 3));
    }
}

static void close_all(struct mr_temporary_file files[N])
{
    for (int i = 0; i < N; i++)
        mr_temporary_file_close(&files[i]);
    assert_int_equal(mr_run_count_entries(".tmp"), 0);
    assert_int_equal(mr_run_count_entries(".old"), 0);
}

static void expect_bytes(const char *path, const char *bytes)
{
    size_t len;
    char *found = mr_run_read_file(path, &len);

    assert_string_equal(found, bytes);
    free(found);
}

static void all_get_their_names(void **state)
{
    struct mr_temporary_file files[N], *all[N];

    (void)state;
    open_all(files, all);
    assert_true(mr_temporary_file_rename_all(all, N));
    close_all(files);
    for (int i = 0; i < N; i++) {
        expect_bytes(names[i], "new");
        assert_int_equal(unlink(names[i]), 0);
    }
}

static void one_that_cannot_be_renamed_leaves_all_as_before(void **state)
{
    struct mr_temporary_file files[N], *all[N];

    (void)state;
    open_all(files, all);
    assert_int_equal(unlink(files[2].temporary), 0);
    assert_false(mr_temporary_file_rename_all(all, N));
    close_all(files);
    expect_bytes("a", "old");
    assert_false(mr_run_exists("b"));
    assert_false(mr_run_exists("c"));
}

static void a_check_leaves_nothing(void **state)
{
    (void)state;
    assert_true(mr_temporary_file_check("d"));
    assert_false(mr_temporary_file_check("missing/d"));
    assert_false(mr_temporary_file_check("/dev/d"));
    assert_int_equal(mr_run_count_entries("d"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_their_names),
        cmocka_unit_test(one_that_cannot_be_renamed_leaves_all_as_before),
        cmocka_unit_test(a_check_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
