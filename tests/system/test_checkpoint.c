/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of the training examples: what was written is read back, and a file is on the disk
 * before it gets its final name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/checkpoint.h"
#include "tests/support/folder.h"

static char calls[64]; /* f: fsync of a file, d: of a folder, r: rename */
static int fsync_errno;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    strcat(calls, S_ISDIR(st.st_mode) ? "d" : "f");
    errno = fsync_errno;
    return fsync_errno ? -1 : __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    strcat(calls, "r");
    return __real_rename(from, to);
}

static void a_checkpoint_is_synced_before_and_after_its_rename(void **state)
{
    (void)state;
    const float numbers[4] = {1, 2, 3, 4};
    float found[4];
    struct checkpoint head = {.dtype = MR_F32, .n_params = 2, .epoch = 7}, read = head;
    char *folder = mr_test_folder_create(), path[300];
    snprintf(path, sizeof path, "%s/last.ckpt", folder);
    assert_true(checkpoint_write(folder, "last.ckpt", &head, numbers));
    assert_string_equal(calls, "frd");
    assert_true(checkpoint_read(path, &read, found));
    assert_int_equal(read.epoch, 7);
    assert_memory_equal(found, numbers, sizeof numbers);

    head.epoch = 8;
    fsync_errno = ENOSPC;
    assert_false(checkpoint_write(folder, "last.ckpt", &head, numbers));
    assert_true(checkpoint_read(path, &read, found));
    assert_int_equal(read.epoch, 7); /* the older checkpoint still exists */
}

static void a_fifo_is_refused(void **state)
{
    (void)state;
    struct checkpoint head = {0};
    char *folder = mr_test_folder_create(), path[300];
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(checkpoint_read(path, &head, NULL)); /* does not wait for a writer */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_is_synced_before_and_after_its_rename),
        cmocka_unit_test(a_fifo_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
