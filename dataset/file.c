/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, reads and writes one file by ordinary calls. It opens with O_NONBLOCK, so that a FIFO called x.jpg does not
 * block the caller.
 */
#include "dataset/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

mr_status mr_file_error(const struct mr_catalog *catalog, int64_t index, int os_error, mr_error *error)
{
    char name[MR_CATALOG_WHICH];
    mr_catalog_file_name(catalog, index, name);
    mr_status status = mr_error_os(error, MR_ERR_IO, os_error, "%s", name);
    if (error)
        error->index = index;
    return status;
}

/* As the readers say it. */
static mr_status refuse_irregular(const struct mr_catalog *catalog, int64_t index, mr_error *error)
{
    char name[MR_CATALOG_WHICH];
    mr_catalog_file_name(catalog, index, name);
    mr_error_set(error, MR_ERR_IO, "%s: not a regular file", name);
    if (error)
        error->index = index;
    return MR_ERR_IO;
}

mr_status mr_file_open_sample(const struct mr_catalog *catalog, int64_t index, uint64_t file, int *fd_out,
                              mr_error *error)
{
    char path[MR_CATALOG_PATH];
    struct stat st;
    int rc = mr_catalog_path(catalog, file, path);
    if (rc < 0)
        return mr_file_error(catalog, index, -rc, error);
    int fd = openat(mr_catalog_root(catalog), path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) /* ENXIO: a socket, or a device that is not there */
        return errno == ENXIO ? refuse_irregular(catalog, index, error) : mr_file_error(catalog, index, errno, error);
    rc = fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? EISDIR : ENXIO;
    if (rc != 0) {
        close(fd);
        return rc == ENXIO ? refuse_irregular(catalog, index, error) : mr_file_error(catalog, index, rc, error);
    }
    *fd_out = fd;
    return MR_OK;
}

int mr_file_read_at(int fd, uint64_t offset, void *out, size_t len, size_t *n_out)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, (char *)out + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *n_out = done;
    return 0;
}

int mr_file_write_at(int fd, const void *bytes, size_t len, uint64_t offset)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -ENOSPC;
        done += (size_t)n;
    }
    return 0;
}
