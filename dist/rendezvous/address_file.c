/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of file:///PATH. A file that this library did not write is not overwritten, because the
 * user may have named it by mistake. A file left by a crashed run is overwritten.
 */
#include "dist/rendezvous/address_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/regular_file.h"

#define MAGIC "millrace-store 1"
#define LINE 512

static int format_line(const struct mr_address_file *file, char line[LINE])
{
    return snprintf(line, LINE, MAGIC " %s %u %016" PRIx64 " %s\n", file->host,
                    (unsigned)file->port, file->run, file->boot[0] ? file->boot : "-");
}

static bool parse_line(const char *line, struct mr_address_file *file_out)
{
    struct mr_address_file file = {0};
    unsigned port = 0;
    char end = '\0';
    int n = sscanf(line, MAGIC " %71s %5u %16" SCNx64 " %39s%c", file.host, &port, &file.run,
                   file.boot, &end);
    if (n != 5 || end != '\n' || port == 0 || port > 65535)
        return false;
    if (strcmp(file.boot, "-") == 0)
        file.boot[0] = '\0';
    file.port = (uint16_t)port;
    *file_out = file;
    return true;
}

/* The first line of a file, or -errno. */
static int read_line(const char *path, char line[LINE])
{
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, NULL);
    line[0] = '\0';
    if (fd < 0)
        return fd;
    ssize_t n = read(fd, line, LINE - 1);
    int rc = n < 0 ? -errno : (int)n;
    close(fd);
    line[rc > 0 ? rc : 0] = '\0';
    return rc;
}

mr_status mr_address_file_read(const char *path, struct mr_address_file *file_out, mr_error *error)
{
    char line[LINE];
    int rc = read_line(path, line);
    if (rc < 0 && rc != -ENXIO)
        return mr_error_os(error, MR_PENDING, -rc, "%s", path);
    if (!parse_line(line, file_out))
        return mr_error_set(error, MR_PENDING, "%s is not a store's address", path);
    return MR_OK;
}

static mr_status write_temporary(const char *temporary, const struct mr_address_file *file,
                                 mr_error *error)
{
    char line[LINE];
    int len = format_line(file, line);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* A crashed run with the same run id and process id may have left one. */
    if (fd < 0 && errno == EEXIST && unlink(temporary) == 0)
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot create %s", temporary);
    int rc = 0;
    ssize_t n = write(fd, line, (size_t)len);
    if (n != len)
        rc = n < 0 ? errno : ENOSPC;
    else if (fsync(fd) != 0)
        rc = errno;
    if (close(fd) != 0 && rc == 0)
        rc = errno;
    if (rc != 0) {
        unlink(temporary);
        return mr_error_os(error, MR_ERR_IO, rc, "cannot write %s", temporary);
    }
    return MR_OK;
}

mr_status mr_address_file_write(const char *path, const struct mr_address_file *file,
                                mr_error *error)
{
    char temporary[4200], line[LINE];
    struct mr_address_file stale;
    int rc = read_line(path, line);
    if (rc != -ENOENT && rc != 0 && !(rc > 0 && parse_line(line, &stale)))
        return mr_error_set(error, MR_ERR_INVALID, "%s exists and is not a store's address", path);
    int len = snprintf(temporary, sizeof temporary, "%s.%016" PRIx64 ".%ld", path, file->run,
                       (long)getpid());
    if (len < 0 || (size_t)len >= sizeof temporary)
        return mr_error_set(error, MR_ERR_INVALID, "the path of file:// has %zu bytes",
                            strlen(path));
    mr_status status = write_temporary(temporary, file, error);
    if (status != MR_OK)
        return status;
    if (rename(temporary, path) != 0) {
        status = mr_error_os(error, MR_ERR_IO, errno, "cannot rename %s to %s", temporary, path);
        unlink(temporary);
    }
    return status;
}

void mr_address_file_remove(const char *path, const struct mr_address_file *file)
{
    struct mr_address_file found;
    if (mr_address_file_read(path, &found, NULL) == MR_OK && found.run == file->run &&
        found.port == file->port && strcmp(found.host, file->host) == 0)
        unlink(path);
}
