/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files by name: only regular ones are opened, nothing waits, and a new file is synced before it
 * has its name.
 */
#include "base/regular_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/folder.h"

static struct {
    char *path;
    int fd;
    char calls[64]; /* f: fsync of a file, d: of a folder, r: renameat */
    int fsync_errno;
} rig;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    strcat(rig.calls, S_ISDIR(st.st_mode) ? "d" : "f");
    errno = rig.fsync_errno;
    return rig.fsync_errno ? -1 : __real_fsync(fd);
}

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    strcat(rig.calls, "r");
    return __real_renameat(from_fd, from, to_fd, to);
}

static int set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.path = mr_test_folder_create();
    rig.fd = open(rig.path, O_RDONLY | O_DIRECTORY);
    return rig.fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(rig.fd);
    return 0;
}

static void a_regular_file_is_opened_and_described(void **state)
{
    (void)state;
    struct stat st;
    mr_test_folder_write(rig.path, "file", "seven b", 7);
    int fd = mr_regular_file_open(rig.fd, "file", O_RDONLY, &st);
    assert_true(fd >= 0);
    assert_int_equal(st.st_size, 7);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    assert_int_equal(mr_regular_file_open(rig.fd, "none", O_RDONLY, &st), -ENOENT);
}

static void bind_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", rig.path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/*
 * A reader of a FIFO without O_NONBLOCK would wait for a writer, and the alarm would end the test.
 */
static void what_is_no_regular_file_is_refused_at_once(void **state)
{
    (void)state;
    static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR};
    mr_error error;
    assert_int_equal(mkfifoat(rig.fd, "fifo", 0600), 0);
    bind_socket();
    alarm(30);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        assert_int_equal(mr_regular_file_open(rig.fd, "fifo", flags[i], NULL), -ENXIO);
        assert_int_equal(mr_regular_file_open(rig.fd, "socket", flags[i], NULL), -ENXIO);
        assert_int_equal(mr_regular_file_open(AT_FDCWD, "/dev/null", flags[i], NULL), -ENXIO);
    }
    alarm(0);
    assert_int_equal(mr_regular_file_open(rig.fd, ".", O_RDONLY, NULL), -EISDIR);
    assert_int_equal(mr_regular_file_fail(&error, ENXIO, "cannot open %s", "fifo"), MR_ERR_IO);
    assert_string_equal(error.text, "cannot open fifo: not a regular file");
    assert_int_equal(mr_regular_file_fail(&error, EISDIR, "cannot open %s", "."), MR_ERR_IO);
    assert_string_equal(error.text, "cannot open .: Is a directory");
}

static int write_temporary(void)
{
    int fd = mr_regular_file_open(rig.fd, "new.tmp", O_WRONLY | O_CREAT | O_EXCL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "new", 3), 3);
    return fd;
}

static void a_new_file_is_synced_then_renamed_then_its_folder_is_synced(void **state)
{
    (void)state;
    char bytes[8], path[300];
    int fd = write_temporary();
    mr_test_folder_write(rig.path, "name", "old one", 7);
    assert_int_equal(mr_regular_file_publish(rig.fd, fd, "new.tmp", "name"), 0);
    assert_string_equal(rig.calls, "frd");
    close(fd);
    fd = mr_regular_file_open(rig.fd, "name", O_RDONLY, NULL);
    assert_int_equal(read(fd, bytes, sizeof bytes), 3);
    close(fd);
    fd = write_temporary();
    *rig.calls = '\0';
    snprintf(path, sizeof path, "%s/new.tmp", rig.path); /* the folder is found by the path too */
    char *name = strdup(path);
    strcpy(strrchr(name, '/'), "/name");
    assert_int_equal(mr_regular_file_publish(AT_FDCWD, fd, path, name), 0);
    assert_string_equal(rig.calls, "frd");
    free(name);
    close(fd);
}

static void a_file_that_cannot_be_synced_does_not_get_the_name(void **state)
{
    (void)state;
    struct stat st;
    int fd = write_temporary();
    rig.fsync_errno = ENOSPC;
    assert_int_equal(mr_regular_file_publish(rig.fd, fd, "new.tmp", "name"), -ENOSPC);
    assert_int_equal(fstatat(rig.fd, "name", &st, 0), -1);
    assert_int_equal(fstatat(rig.fd, "new.tmp", &st, 0), -1);
    close(fd);
}

static void a_file_that_cannot_be_renamed_is_removed(void **state)
{
    (void)state;
    struct stat st;
    int fd = write_temporary();
    assert_int_equal(mkdirat(rig.fd, "name", 0700), 0);
    assert_int_equal(mr_regular_file_publish(rig.fd, fd, "new.tmp", "name"), -EISDIR);
    assert_int_equal(fstatat(rig.fd, "new.tmp", &st, 0), -1);
    close(fd);
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_regular_file_is_opened_and_described),
        RIG_TEST(what_is_no_regular_file_is_refused_at_once),
        RIG_TEST(a_new_file_is_synced_then_renamed_then_its_folder_is_synced),
        RIG_TEST(a_file_that_cannot_be_synced_does_not_get_the_name),
        RIG_TEST(a_file_that_cannot_be_renamed_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
