/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files inside a folder and never replaces one.
 *
 * Invariant: the system call that gives a file its name also decides whether the name is free; an
 * earlier check would race. So two processes that unpack into one folder do not replace each
 * other's files. If the file system does not support renameat2() with RENAME_NOREPLACE, link()
 * decides.
 */
#include "packs/pack_unpack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"

enum { TRIES = 100, MAX_PATH = 4200, PIECE_BYTES = 65536 };

/* True if the error is about this name only, so another file may still be written. */
static bool concerns_name(int os_error)
{
    return os_error == ENAMETOOLONG || os_error == ENOTDIR || os_error == EILSEQ ||
           os_error == EINVAL;
}

static mr_status fail_at(const struct mr_pack_unpack_folder *folder, int os_error, const char *what,
                         const char *name, mr_error *error)
{
    mr_status status = concerns_name(os_error) ? MR_ERR_DAMAGED : MR_ERR_IO;
    return mr_error_os(error, status, os_error, "cannot %s %s/%s", what, folder->path, name);
}

mr_status mr_pack_unpack_file_begin(const char *path, struct mr_pack_unpack_folder *folder_out,
                                    mr_error *error)
{
    *folder_out = (struct mr_pack_unpack_folder){.fd = -1, .path = path};
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot make the folder %s", path);
    folder_out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_out->fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot open the folder %s", path);
    return MR_OK;
}

mr_status mr_pack_unpack_file_sync(const struct mr_pack_unpack_folder *folder, mr_error *error)
{
    if (syncfs(folder->fd) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot sync %s", folder->path);
    return MR_OK;
}

void mr_pack_unpack_file_end(struct mr_pack_unpack_folder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

/* Make each folder on the path of the file. */
static mr_status make_parents(const struct mr_pack_unpack_folder *folder, const char *name,
                              mr_error *error)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s", name);
    for (char *slash = path; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdirat(folder->fd, path, 0777) != 0 && errno != EEXIST)
            return fail_at(folder, errno, "make the folder", path, error);
        *slash = '/';
    }
    return MR_OK;
}

/*
 * Create a temporary file in the folder of the final one. Returns its descriptor or a negative
 * errno.
 */
static int create_temporary(const struct mr_pack_unpack_folder *folder, const char *name,
                            char temporary_out[MAX_PATH])
{
    const char *slash = strrchr(name, '/');
    int parent_len = slash ? (int)(slash - name) + 1 : 0;
    for (int i = 0; i < TRIES; i++) {
        snprintf(temporary_out, MAX_PATH, "%.*s.unpack-%ld-%d.tmp", parent_len, name,
                 (long)getpid(), i);
        int fd = openat(folder->fd, temporary_out,
                        O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

/* Returns 0 or a negative errno. */
static int write_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/*
 * Give the file its name if the name is free. Returns 0 or a negative errno; -EEXIST: the name is
 * taken.
 */
static int rename_new(int fd, const char *temporary, const char *name)
{
    if (renameat2(fd, temporary, fd, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(fd, temporary, fd, name, 0) != 0) /* a network file system */
        return -errno;
    (void)unlinkat(fd, temporary, 0);
    return 0;
}

/* Returns 1 for a file with exactly these bytes, 0 for anything else, or a negative errno. */
static int has_bytes(int fd, const char *name, const void *bytes, size_t len)
{
    char piece[PIECE_BYTES];
    struct stat st;
    size_t done = 0;
    ssize_t n = 1;
    int file = mr_regular_file_open(fd, name, O_RDONLY, &st);
    if (file == -ENOENT || file == -EISDIR || file == -ENXIO) /* a link to nowhere, or no file */
        return 0;
    if (file < 0)
        return file;
    int rc = (uint64_t)st.st_size == len;
    while (rc == 1 && done < len && n != 0) {
        n = read(file, piece, sizeof piece);
        if (n < 0 && errno != EINTR)
            rc = -errno;
        if (n > 0 &&
            ((size_t)n > len - done || memcmp(piece, (const char *)bytes + done, (size_t)n) != 0))
            rc = 0;
        done += n > 0 ? (size_t)n : 0;
    }
    close(file);
    return rc == 1 && done < len ? 0 : rc;
}

/* Compare the existing file with the new bytes. */
static mr_status compare_file(const struct mr_pack_unpack_folder *folder, const char *name,
                              const void *bytes, size_t len, mr_error *error)
{
    int rc = has_bytes(folder->fd, name, bytes, len);
    if (rc < 0)
        return fail_at(folder, -rc, "read", name, error);
    if (rc == 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s/%s already exists with different content",
                            folder->path, name);
    return MR_OK;
}

static mr_status write_new(const struct mr_pack_unpack_folder *folder, const char *name,
                           const void *bytes, size_t len, int *rc_out, mr_error *error)
{
    char temporary[MAX_PATH];
    int fd = create_temporary(folder, name, temporary);
    if (fd < 0)
        return fail_at(folder, -fd, "create", name, error);
    int rc = write_all(fd, bytes, len);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0)
        rc = *rc_out = rename_new(folder->fd, temporary, name);
    if (rc != 0)
        (void)unlinkat(folder->fd, temporary, 0);
    return rc == 0 || rc == -EEXIST ? MR_OK : fail_at(folder, -rc, "write", name, error);
}

mr_status mr_pack_unpack_file_write(const struct mr_pack_unpack_folder *folder, const char *name,
                                    const void *bytes, size_t len, bool *written_out,
                                    mr_error *error)
{
    struct stat st;
    int rc = 0;
    *written_out = false;
    /* Checking first avoids writing files again when an interrupted call is repeated. */
    if (fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return compare_file(folder, name, bytes, len, error);
    mr_status status = make_parents(folder, name, error);
    if (status == MR_OK)
        status = write_new(folder, name, bytes, len, &rc, error);
    if (status == MR_OK && rc == -EEXIST)
        return compare_file(folder, name, bytes, len, error);
    *written_out = status == MR_OK;
    return status;
}
