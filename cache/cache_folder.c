/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a cache: its marker and its segments.
 *
 * Invariant: two jobs may find the directory empty at the same moment. So the marker is created by
 * rename. And a directory counts as foreign only if the marker is still missing after a foreign
 * file was seen.
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

#include "base/bytes.h"
#include "base/regular_file.h"
#include "dataset/file.h"
#include "cache/cache_format.h"
#include "cache/cache_log.h"

enum marker { MARKER_GOOD, MARKER_MISSING, MARKER_TORN };

/* The format in a marker. 0: a crash of the machine left it empty, cut, or full of zeros. */
static unsigned parse_marker(const char *text)
{
    unsigned format;
    char end;
    return sscanf(text, MR_CACHE_MARKER_WORDS "%u%c", &format, &end) == 2 && end == '\n' ? format
                                                                                         : 0;
}

static mr_status read_marker(int folder, const char *path, enum marker *marker_out, mr_error *error)
{
    char text[64];
    size_t n = 0;
    int fd = mr_regular_file_open(folder, MR_CACHE_MARKER, O_RDONLY | O_NOFOLLOW, NULL);
    *marker_out = MARKER_MISSING;
    if (fd == -ENOENT)
        return MR_OK;
    if (fd == -ENXIO || fd == -EISDIR)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s is not a cache: its %s is not a regular file", path,
                            MR_CACHE_MARKER);
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, -fd, "cannot open %s/%s", path, MR_CACHE_MARKER);
    int rc = mr_file_read_at(fd, 0, text, sizeof text - 1, &n);
    close(fd);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "cannot read %s/%s", path, MR_CACHE_MARKER);
    text[n] = '\0';
    unsigned format = parse_marker(text);
    *marker_out = format == 0 ? MARKER_TORN : MARKER_GOOD;
    if (format > MR_CACHE_VERSION)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s is a cache of format %u; this version uses format %u", path, format,
                            MR_CACHE_VERSION);
    return MR_OK;
}

void mr_cache_folder_name(uint64_t id, const char *ending, char name_out[MR_CACHE_NAME])
{
    snprintf(name_out, MR_CACHE_NAME, "seg-%016" PRIx64 "%s", id, ending);
}

/*
 * The files of a segment. The data file is removed first, so an interrupted removal leaves the log.
 */
static const char *const endings[] = {MR_CACHE_DATA, MR_CACHE_LOG};
enum { N_ENDINGS = sizeof endings / sizeof *endings };

/* Parse a name that we would write. Another spelling of the same number is another file. */
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

static DIR *open_listing(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !listing)
        close(fd);
    return listing;
}

/*
 * True if the directory contains anything but segments and markers being written. Returns 0, 1 or a
 * negative errno.
 */
static int has_other_files(int folder)
{
    DIR *listing = open_listing(folder);
    if (!listing)
        return -errno;
    const struct dirent *entry;
    uint64_t id;
    int other = 0;
    errno = 0;
    while (!other && (entry = readdir(listing))) {
        other = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                strncmp(entry->d_name, MR_CACHE_MARKER, strlen(MR_CACHE_MARKER)) != 0 &&
                !parse_name(entry->d_name, &id);
        errno = 0;
    }
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
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot make the cache %s", path);
    int rc = mr_file_write_at(fd, MR_CACHE_MARKER_TEXT, strlen(MR_CACHE_MARKER_TEXT), 0);
    if (rc == 0)
        rc = mr_regular_file_publish(folder, fd, name, MR_CACHE_MARKER);
    else
        (void)unlinkat(folder, name, 0);
    close(fd);
    return rc == 0
               ? MR_OK
               : mr_error_os(error, MR_ERR_IO, -rc, "cannot write %s/%s", path, MR_CACHE_MARKER);
}

/*
 * A crash of the machine may leave segments with a torn marker or none. A loader then writes the
 * marker again.
 */
static mr_status ensure_marker(int folder, const char *path, bool make, mr_error *error)
{
    enum marker marker;
    mr_status status = read_marker(folder, path, &marker, error);
    if (status < 0 || marker == MARKER_GOOD)
        return status;
    if (marker == MARKER_MISSING && !make)
        return mr_error_set(error, MR_ERR_INVALID, "%s is not a cache: it has no file %s", path,
                            MR_CACHE_MARKER);
    int other = has_other_files(folder);
    if (other < 0)
        return mr_error_os(error, MR_ERR_IO, -other, "cannot list %s", path);
    if (other == 0)
        return make ? write_marker(folder, path, error) : MR_OK;
    /* another job may have written the marker meanwhile */
    status = read_marker(folder, path, &marker, error);
    if (status < 0 || marker == MARKER_GOOD)
        return status;
    return mr_error_set(
        error, MR_ERR_INVALID,
        marker == MARKER_TORN
            ? "%s is not a cache: its " MR_CACHE_MARKER " is damaged, and it holds other files"
            : "%s is not a cache and holds other files; a cache needs an empty directory",
        path);
}

/* A read-only file system may contain a cache, so EROFS counts only if the directory is missing. */
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
        return mr_error_set(error, MR_ERR_INVALID, "%s is not a cache: it is not a directory",
                            path);
    return mr_error_os(error, MR_ERR_IO, os_error, "cannot open the directory %s", path);
}

mr_status mr_cache_folder_open(const char *path, bool make, int *fd_out, mr_error *error)
{
    int folder = -1;
    *fd_out = -1;
    mr_status status = open_directory(path, make, &folder, error);
    if (status < 0)
        return status;
    status = ensure_marker(folder, path, make, error);
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

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Most ids are there twice, once for each file. */
static void remove_repeats(struct mr_cache_ids *ids)
{
    size_t n = 0;
    if (ids->n > 0)
        qsort(ids->ids, ids->n, sizeof *ids->ids, compare_ids);
    for (size_t i = 0; i < ids->n; i++)
        if (i == 0 || ids->ids[i] != ids->ids[i - 1])
            ids->ids[n++] = ids->ids[i];
    ids->n = n;
}

int mr_cache_folder_list(int folder, struct mr_cache_ids *ids_out)
{
    *ids_out = (struct mr_cache_ids){0};
    DIR *listing = open_listing(folder);
    if (!listing)
        return -errno;
    struct mr_bytes found = {0};
    const struct dirent *entry;
    uint64_t id;
    int rc = 0;
    errno = 0;
    while (rc == 0 && (entry = readdir(listing))) {
        if (parse_name(entry->d_name, &id) && mr_bytes_append_u64(&found, id, NULL) < 0)
            rc = -ENOMEM;
        errno = 0;
    }
    if (rc == 0)
        rc = -errno;
    closedir(listing);
    *ids_out = (struct mr_cache_ids){.ids = (void *)found.data, .n = found.len / sizeof id};
    remove_repeats(ids_out);
    return rc;
}

static int open_regular(int folder, uint64_t id, const char *ending, bool writing, int *fd_out)
{
    char name[MR_CACHE_NAME];
    mr_cache_folder_name(id, ending, name);
    int fd = mr_regular_file_open(folder, name, (writing ? O_RDWR : O_RDONLY) | O_NOFOLLOW, NULL);
    if (fd < 0)
        return fd;
    *fd_out = fd;
    return 0;
}

int mr_cache_folder_open_file(int folder, uint64_t id, const char *ending)
{
    int fd = -1;
    int rc = open_regular(folder, id, ending, false, &fd);
    if (rc == 0 && strcmp(ending, MR_CACHE_LOG) == 0 && !mr_cache_log_read_head(fd, id)) {
        close(fd);
        rc = -EINVAL;
    }
    return rc == 0 ? fd : rc;
}

int mr_cache_folder_open_segment(int folder, uint64_t id, bool writing,
                                 struct mr_cache_files *files_out)
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

static uint64_t find_file_bytes(int folder, uint64_t id, const char *ending)
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
    uint64_t log = find_file_bytes(folder, id, MR_CACHE_LOG);
    if (log_bytes_out)
        *log_bytes_out = log;
    return log + find_file_bytes(folder, id, MR_CACHE_DATA);
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
