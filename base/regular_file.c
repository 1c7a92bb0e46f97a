/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files by name and publishes new files. A file that a user names may be a FIFO or a device,
 * and opening or reading one may block for ever. O_NONBLOCK and O_NOCTTY make opening safe, and
 * nothing is read before the type of the file is known.
 */
#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int mr_regular_file_open(int folder, const char *path, int flags, struct stat *st_out)
{
    struct stat st;
    int fd = openat(folder, path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd < 0)
        return -errno;
    int rc = fstat(fd, &st) != 0 ? -errno : 0;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    if (st_out)
        *st_out = st;
    return fd;
}

const char *mr_regular_file_words(int os_error)
{
    return os_error == ENXIO ? "not a regular file" : NULL; /* opening a socket gives it too */
}

mr_status mr_regular_file_fail(mr_error *error, int os_error, const char *format, ...)
{
    char text[sizeof error->text];
    const char *words = mr_regular_file_words(os_error);
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    return words ? mr_error_set(error, MR_ERR_IO, "%s: %s", text, words)
                 : mr_error_os(error, MR_ERR_IO, os_error, "%s", text);
}

/* Make the new name survive a crash too. Failures are ignored: some file systems cannot do it. */
static void sync_parent(int folder, const char *name)
{
    char path[PATH_MAX];
    const char *slash = strrchr(name, '/');
    snprintf(path, sizeof path, "%.*s.", slash ? (int)(slash - name) + 1 : 0, name);
    int fd = openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
}

int mr_regular_file_publish(int folder, int fd, const char *temporary, const char *name)
{
    /* EINVAL: the file system does not support fsync */
    int rc = fsync(fd) == 0 || errno == EINVAL ? 0 : -errno;
    if (rc == 0 && renameat(folder, temporary, folder, name) != 0)
        rc = -errno;
    if (rc == 0)
        sync_parent(folder, name);
    else
        (void)unlinkat(folder, temporary, 0);
    return rc;
}
