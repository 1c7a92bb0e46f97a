/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, reads and writes one file with ordinary calls. */
#include "dataset/file.h"

#include <errno.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/reader/file_cache.h"

const char *mr_file_words(int os_error)
{
    return os_error == ESTALE ? "the file changed since the dataset was opened"
                              : mr_regular_file_words(os_error);
}

mr_status mr_file_error(const struct mr_catalog *catalog, int64_t index, int os_error,
                        mr_error *error)
{
    char name[MR_CATALOG_DESCRIPTION];
    const char *words = mr_file_words(os_error);
    mr_catalog_file_name(catalog, index, name);
    mr_status status = words ? mr_error_set(error, MR_ERR_IO, "%s: %s", name, words)
                             : mr_error_os(error, MR_ERR_IO, os_error, "%s", name);
    if (error)
        error->index = index;
    return status;
}

mr_status mr_file_open_sample(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                              int *fd_out, mr_error *error)
{
    int fd = mr_file_cache_open(catalog, file, NULL);
    if (fd < 0)
        return mr_file_error(catalog, index, -fd, error);
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
