/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a cache: its marker and its segments.
 *
 * Invariant: two jobs may find the directory empty at the same moment. So the marker is created by rename, and a
 * directory counts as foreign only if it still has no marker after something foreign was seen in it.
 */
#include "cache/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/file.h"
#include "cache/cache_format.h"
#include "cache/cache_log.h"

#define READ_FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

/* MR_OK with the marker, MR_PENDING without one. */
static mr_status read_marker(int folder, const char *path, mr_error *error)
{
    char text[sizeof MR_CACHE_MARKER_TEXT + 1];
    struct stat st;
    size_t n = 0;
    int fd = openat(folder, MR_CACHE_MARKER, O_RDONLY | READ_FLAGS);
    if (fd < 0)
        return errno == ENOENT ? MR_PENDING
                               : mr_error_os(error, MR_ERR_IO, errno, "cannot open %s/%s", path, MR_CACHE_MARKER);
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    int rc = regular ? mr_file_read_at(fd, 0, text, sizeof text, &n) : 0;
    close(fd);
    if (!regular)
        return mr_error_set(error, MR_ERR_INVALID, "%s is not a cache: its %s is not a regular file", path,
                            MR_CACHE_MARKER);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "cannot read %s/%s", path, MR_CACHE_MARKER);
    if (n != strlen(MR_CACHE_MARKER_TEXT) || memcmp(text, MR_CACHE_MARKER_TEXT, n) != 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s is a cache of another format; this version uses format 1",
                            path);
    return MR_OK;
}

static DIR *open_listing(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !listing)
        close(fd);
    return listing;
}

/* Is there anything but markers that are being made? Returns 0, 1 or a negative errno. */
static int holds_other_things(int folder)
{
    DIR *listing = open_listing(folder);
    if (!listing)
        return -errno;
    const struct dirent *entry;
    int other = 0;
    errno = 0;
    while (!other && (entry = readdir(listing)))
        other = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                strncmp(entry->d_name, MR_CACHE_MARKER, strlen(MR_CACHE_MARKER)) != 0;
    if (!other && errno != 0)
        other = -errno;
    closedir(listing);
    return other;
}

static mr_status write_marker(int folder, const char *path, mr_error *error)
{
    char name[64];
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return mr_error_os(error, MR_ERR_IO, errno, "getrandom");
    snprintf(name, sizeof name, "%s.%016" PRIx64, MR_CACHE_MARKER, number);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | READ_FLAGS, 0666);
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot make the cache %s", path);
    ssize_t len = (ssize_t)strlen(MR_CACHE_MARKER_TEXT);
    bool written = write(fd, MR_CACHE_MARKER_TEXT, (size_t)len) == len;
    bool closed = close(fd) == 0;
    if (written && closed && renameat(folder, name, folder, MR_CACHE_MARKER) == 0)
        return MR_OK;
    mr_status status = mr_error_os(error, MR_ERR_IO, errno, "cannot write %s/%s", path, MR_CACHE_MARKER);
    unlinkat(folder, name, 0);
    return status;
}

static mr_status need_marker(int folder, const char *path, bool make, mr_error *error)
{
    mr_status status = read_marker(folder, path, error);
    if (status != MR_PENDING)
        return status;
    if (!make)
        return mr_error_set(error, MR_ERR_INVALID, "%s is not a cache: it has no file %s", path, MR_CACHE_MARKER);
    int other = holds_other_things(folder);
    if (other < 0)
        return mr_error_os(error, MR_ERR_IO, -other, "cannot list %s", path);
    if (other == 0)
        return write_marker(folder, path, error);
    status = read_marker(folder, path, error); /* another job has made it a cache meanwhile */
    if (status != MR_PENDING)
        return status;
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s is not a cache and holds other files; a cache needs an empty directory", path);
}

/* A directory on a read-only file system may hold a cache; one that is missing there cannot be made. */
static mr_status open_directory(const char *path, bool make, int *fd_out, mr_error *error)
{
    struct stat st;
    int failed = make && mkdir(path, 0777) != 0 ? errno : 0;
    if (failed != 0 && failed != EEXIST && failed != EROFS)
        return mr_error_os(error, MR_ERR_IO, failed, "cannot make the directory %s", path);
    *fd_out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd_out >= 0)
        return MR_OK;
    int os_error = errno;
    if (os_error == ENOENT && failed == EROFS)
        return mr_error_os(error, MR_ERR_IO, EROFS, "cannot make the directory %s", path);
    if (os_error == ENOTDIR && stat(path, &st) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s is not a cache: it is not a directory", path);
    return mr_error_os(error, MR_ERR_IO, os_error, "cannot open the directory %s", path);
}

mr_status mr_cache_folder_open(const char *path, bool make, int *fd_out, mr_error *error)
{
    int folder = -1;
    *fd_out = -1;
    mr_status status = open_directory(path, make, &folder, error);
    if (status < 0)
        return status;
    status = need_marker(folder, path, make, error);
    if (status < 0) {
        close(folder);
        return status;
    }
    *fd_out = folder;
    return MR_OK;
}

bool mr_cache_folder_is_passing(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EINTR;
}

void mr_cache_folder_name(uint64_t id, const char *ending, char name_out[MR_CACHE_NAME])
{
    snprintf(name_out, MR_CACHE_NAME, "seg-%016" PRIx64 "%s", id, ending);
}

/* The files of a segment. The data file comes first, so that a removal that is interrupted leaves its log. */
static const char *const endings[] = {MR_CACHE_DATA, MR_CACHE_LOG};
enum { N_ENDINGS = sizeof endings / sizeof *endings };

/* Only names that we would write: another spelling of the same number would be another file. */
static bool parse_name(const char *name, uint64_t *id_out)
{
    char again[MR_CACHE_NAME];
    uint64_t id;
    bool ours = false;
    if (sscanf(name, "seg-%16" SCNx64, &id) != 1 || id == 0)
        return false;
    for (size_t i = 0; i < N_ENDINGS && !ours; i++) {
        mr_cache_folder_name(id, endings[i], again);
        ours = strcmp(name, again) == 0;
    }
    *id_out = id;
    return ours;
}

static int put_id(struct mr_cache_ids *ids, uint64_t id)
{
    if (ids->n == ids->capacity) {
        size_t capacity = ids->capacity ? 2 * ids->capacity : 64;
        uint64_t *grown = reallocarray(ids->ids, capacity, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        ids->ids = grown;
        ids->capacity = capacity;
    }
    ids->ids[ids->n++] = id;
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Most segments were met twice, once by each file. */
static void drop_repeats(struct mr_cache_ids *ids)
{
    size_t n = 0;
    if (ids->n > 0)
        qsort(ids->ids, ids->n, sizeof *ids->ids, compare_ids);
    for (size_t i = 0; i < ids->n; i++)
        if (i == 0 || ids->ids[i] != ids->ids[i - 1])
            ids->ids[n++] = ids->ids[i];
    ids->n = n;
}

int mr_cache_folder_list(int folder, struct mr_cache_ids *ids)
{
    ids->n = 0;
    DIR *listing = open_listing(folder);
    if (!listing)
        return -errno;
    const struct dirent *entry;
    uint64_t id;
    int rc = 0;
    errno = 0;
    while (rc == 0 && (entry = readdir(listing))) {
        if (parse_name(entry->d_name, &id))
            rc = put_id(ids, id);
        errno = 0;
    }
    if (rc == 0)
        rc = -errno;
    closedir(listing);
    drop_repeats(ids);
    return rc;
}

static int open_regular(int folder, uint64_t id, const char *ending, bool writing, int *fd_out)
{
    char name[MR_CACHE_NAME];
    struct stat st;
    mr_cache_folder_name(id, ending, name);
    int fd = openat(folder, name, (writing ? O_RDWR : O_RDONLY) | READ_FLAGS);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    *fd_out = fd;
    return 0;
}

int mr_cache_folder_open_segment(int folder, uint64_t id, bool writing, struct mr_cache_files *files_out)
{
    struct mr_cache_files files = {-1, -1};
    int rc = open_regular(folder, id, MR_CACHE_LOG, writing, &files.log);
    if (rc == 0)
        rc = open_regular(folder, id, MR_CACHE_DATA, writing, &files.data);
    if (rc == 0 && !mr_cache_log_read_head(files.log, id))
        rc = -EINVAL;
    if (rc != 0)
        mr_cache_folder_close_segment(&files);
    *files_out = files;
    return rc;
}

void mr_cache_folder_close_segment(struct mr_cache_files *files)
{
    if (files->log >= 0)
        close(files->log);
    if (files->data >= 0)
        close(files->data);
    *files = (struct mr_cache_files){-1, -1};
}

static uint64_t file_bytes(int folder, uint64_t id, const char *ending)
{
    char name[MR_CACHE_NAME];
    struct stat st;
    mr_cache_folder_name(id, ending, name);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_size < 0)
        return 0;
    return (uint64_t)st.st_size;
}

uint64_t mr_cache_folder_segment_bytes(int folder, uint64_t id, uint64_t *log_bytes_out)
{
    uint64_t log = file_bytes(folder, id, MR_CACHE_LOG);
    if (log_bytes_out)
        *log_bytes_out = log;
    return log + file_bytes(folder, id, MR_CACHE_DATA);
}

int mr_cache_folder_remove_segment(int folder, uint64_t id)
{
    char name[MR_CACHE_NAME];
    for (size_t i = 0; i < N_ENDINGS; i++) {
        mr_cache_folder_name(id, endings[i], name);
        if (unlinkat(folder, name, 0) != 0 && errno != ENOENT)
            return -errno;
    }
    return 0;
}
