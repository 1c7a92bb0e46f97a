/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a result to a file or to a stream. A rename would replace a pipe, a device, or the file to
 * which the shell redirected standard output. So these are opened before the work and written
 * directly.
 */
#include "tools/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/temporary_file.h"
#include "tools/say.h"

/* True for "-", and for a name of the file that is standard output. */
static bool is_stdout(const char *path)
{
    struct stat named, out;

    if (strcmp(path, "-") == 0)
        return true;
    return stat(path, &named) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
           named.st_dev == out.st_dev && named.st_ino == out.st_ino && !S_ISCHR(named.st_mode);
}

/* True for a pipe, a device, or the path of an open file descriptor. */
static bool is_stream(const char *path)
{
    struct stat info;

    if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0 ||
        strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0)
        return true;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Reserve standard output for the result; everything else that is printed goes to stderr. */
static int reserve_stdout(void)
{
    fflush(stdout);
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (fd >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        int os_error = errno;
        close(fd);
        errno = os_error;
        return -1;
    }
    return fd;
}

bool mr_outlet_open(struct mr_outlet *outlet, const char *path)
{
    *outlet = (struct mr_outlet){.path = path, .fd = -1};
    if (path == NULL)
        return true;
    if (is_stdout(path) || strcmp(path, "/dev/stdout") == 0)
        outlet->fd = reserve_stdout();
    else if (is_stream(path))
        outlet->fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    else
        return mr_temporary_file_check(path);
    outlet->stream = outlet->fd >= 0;
    if (!outlet->stream)
        mr_say_errno(errno, "%s", path);
    return outlet->stream;
}

bool mr_outlet_store(struct mr_outlet *outlet, const void *bytes, size_t len_bytes)
{
    if (!outlet->stream)
        return mr_temporary_file_store(outlet->path, bytes, len_bytes);
    fflush(stdout); /* the table comes first if both go to the same place */
    return mr_say_write(outlet->fd, outlet->path, bytes, len_bytes);
}

void mr_outlet_close(struct mr_outlet *outlet)
{
    if (outlet->stream)
        close(outlet->fd);
    *outlet = (struct mr_outlet){0};
}
