/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a trace's file. Two things show that a file is in use: a lock, which the kernel drops when
 * its holder dies, and the first line, which identifies the process.
 *
 * Invariant: the file is opened without truncation, since another loader may be writing it.
 */
#include "loader/trace/trace_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/regular_file.h"

enum { MAX_OBJECT = 1024, MAX_END = 3, MAX_HEAD = 192, MAX_FILES = 9999 };

/* Identifies this process, unlike its pid, which the system uses again. */
static uint64_t process_stamp(void)
{
    static _Atomic uint64_t stamp;
    uint64_t none = 0;
    atomic_compare_exchange_strong(&stamp, &none, mr_clock_now_ns());
    return atomic_load(&stamp);
}

static void write_head(char head[MAX_HEAD])
{
    snprintf(head, MAX_HEAD,
             "[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"millrace "
             "loader\",\"run\":"
             "\"%llx\"}}",
             (int)getpid(), (unsigned long long)process_stamp());
}

static bool is_of_this_run(int fd, const char *head)
{
    char found[MAX_HEAD];
    size_t len = strlen(head);
    return pread(fd, found, len, 0) == (ssize_t)len && memcmp(found, head, len) == 0;
}

/* Open one candidate. Returns 0 and sets *fd_out, a negative errno, or 1 if the file is in use. */
static int try_path(const char *path, const char *head, int *fd_out)
{
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDWR | O_CREAT, NULL);
    if (fd < 0)
        return fd;
    int rc = 0;
    /* other failures: this file system has no locks */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        rc = 1;
    else if (is_of_this_run(fd, head))
        rc = 1;
    else if (ftruncate(fd, 0) != 0)
        rc = -errno;
    if (rc != 0)
        close(fd);
    else
        *fd_out = fd;
    return rc;
}

mr_status mr_trace_file_open(struct mr_trace_file *file, const char *path, mr_error *error)
{
    char head[MAX_HEAD];
    int rc = 1;
    write_head(head);
    file->fd = -1;
    file->os_error = 0;
    for (int i = 1; rc == 1 && i <= MAX_FILES; i++) {
        int len = i == 1 ? snprintf(file->path, sizeof file->path, "%s", path)
                         : snprintf(file->path, sizeof file->path, "%s.%d", path, i);
        rc = len < (int)sizeof file->path ? try_path(file->path, head, &file->fd) : -ENAMETOOLONG;
    }
    if (rc == 1)
        return mr_error_set(error, MR_ERR_IO, "trace %s: this and all others up to .%d are in use",
                            path, MAX_FILES);
    if (rc != 0)
        return mr_regular_file_fail(error, -rc, "trace %s", file->path);
    if (strcmp(file->path, path) != 0)
        mr_log_line(MR_LOG_INFO, "trace %s is in use by another loader; this one is written to %s",
                    path, file->path);
    file->len = strlen(head);
    memcpy(file->buffer, head, file->len);
    mr_trace_file_flush(file); /* the next loader must find the head */
    return MR_OK;
}

void mr_trace_file_flush(struct mr_trace_file *file)
{
    size_t done = 0;
    while (done < file->len && file->os_error == 0) {
        ssize_t n = write(file->fd, file->buffer + done, file->len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            file->os_error = errno;
    }
    file->len = 0;
}

void mr_trace_file_put(struct mr_trace_file *file, const char *format, ...)
{
    va_list args;
    if (sizeof file->buffer - file->len < MAX_OBJECT + MAX_END)
        mr_trace_file_flush(file);
    char *at = file->buffer + file->len;
    memcpy(at, ",\n", 2);
    va_start(args, format);
    int len = vsnprintf(at + 2, MAX_OBJECT - 2, format, args);
    va_end(args);
    assert(len > 0 && len < MAX_OBJECT - 2);
    file->len += 2 + (size_t)len;
}

void mr_trace_file_close(struct mr_trace_file *file)
{
    memcpy(file->buffer + file->len, "\n]\n", MAX_END);
    file->len += MAX_END;
    mr_trace_file_flush(file);
    if (file->os_error)
        mr_log_line(MR_LOG_WARNING, "trace %s is incomplete: %s", file->path,
                    strerror(file->os_error));
    flock(file->fd, LOCK_UN); /* a forked child may hold the descriptor */
    close(file->fd);
}
