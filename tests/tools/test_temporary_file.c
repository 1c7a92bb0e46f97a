/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that belong together get their names all at once or not at all, and a killed process leaves
 * none. Each test also runs without O_TMPFILE, as on file systems that lack it: the linker
 * redirects open() to this file.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tools/run_command.h"
#include "tools/temporary_file.h"

enum { N = 3 };

static const char *const names[N] = {"a", "b", "sub/c"};
static bool all_have_names;

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    if (all_have_names && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    /* data to sync, which takes time: a kill meanwhile must leave nothing */
    if ((flags & O_TMPFILE) == O_DIRECTORY)
        assert_int_equal(mr_run_count_entries(".old"), 0);
    return __real_open(path, flags, mode);
}

static int open_named(void **state)
{
    (void)state;
    all_have_names = true;
    return 0;
}

static int open_unnamed(void **state)
{
    (void)state;
    all_have_names = false;
    return 0;
}

/* "a" is there already, "b" is not. */
static void open_all(struct mr_temporary_file files[N], struct mr_temporary_file *all[N])
{
    mr_run_write_file("a", "old", 3);
    assert_true(mkdir("sub", 0777) == 0 || errno == EEXIST);
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
    if (files[2].temporary != NULL)
        assert_int_equal(unlink(files[2].temporary), 0);
    assert_int_equal(rmdir("sub"), 0);
    assert_false(mr_temporary_file_rename_all(all, N));
    close_all(files);
    expect_bytes("a", "old");
    assert_false(mr_run_exists("b"));
    assert_int_equal(unlink("a"), 0);
}

static void a_file_is_replaced(void **state)
{
    (void)state;
    mr_run_write_file("a", "older", 5);
    assert_true(mr_temporary_file_store("a", "new", 3));
    expect_bytes("a", "new");
    assert_int_equal(mr_run_count_entries(".tmp"), 0);
    assert_int_equal(unlink("a"), 0);
}

static void its_mode_follows_the_umask(void **state)
{
    struct stat info;
    mode_t before = umask(027);

    (void)state;
    assert_true(mr_temporary_file_store("a", "new", 3));
    umask(before);
    assert_int_equal(stat("a", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(unlink("a"), 0);
}

static void a_killed_process_leaves_nothing(void **state)
{
    struct mr_temporary_file files[N], *all[N];
    int wait_status;

    (void)state;
    int probe = __real_open(".", O_TMPFILE | O_WRONLY, 0600);
    if (probe < 0)
        skip(); /* the file system of the temporary folder has no files without a name */
    close(probe);
    pid_t pid = fork();
    if (pid == 0) {
        open_all(files, all);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL);
    assert_int_equal(mr_run_count_entries(".tmp"), 0);
    expect_bytes("a", "old");
    assert_int_equal(unlink("a"), 0);
    assert_int_equal(rmdir("sub"), 0);
}

static void a_check_leaves_nothing(void **state)
{
    (void)state;
    assert_true(mr_temporary_file_check("d"));
    assert_false(mr_temporary_file_check("missing/d"));
    assert_false(mr_temporary_file_check("/dev/d"));
    assert_int_equal(mr_run_count_entries("d"), 0);
}

#define BOTH_WAYS(f) cmocka_unit_test_setup(f, open_unnamed), cmocka_unit_test_setup(f, open_named)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(all_get_their_names),
        BOTH_WAYS(one_that_cannot_be_renamed_leaves_all_as_before),
        BOTH_WAYS(a_file_is_replaced),
        BOTH_WAYS(its_mode_follows_the_umask),
        BOTH_WAYS(a_check_leaves_nothing),
        cmocka_unit_test_setup(a_killed_process_leaves_nothing, open_unnamed),
    };

    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
