/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files that get their names when they are complete. A full disk may be reported only by
 * fsync(), so files are synced first. The descriptor is close-on-exec, so workers do not inherit
 * it.
 */
#include "tools/temporary_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "tools/interrupt.h"
#include "tools/say.h"

enum { TRIES = 100, LINK_BYTES = 32 };

/* The name to use in messages. */
static const char *choose_name(const struct mr_temporary_file *file)
{
    return file->temporary != NULL ? file->temporary : file->path;
}

static const char *format_link(int fd, char link_out[LINK_BYTES])
{
    snprintf(link_out, LINK_BYTES, "/proc/self/fd/%d", fd);
    return link_out;
}

/* Give the open file this name, which must be free. Returns -1 with errno set on failure. */
static int link_file(const struct mr_temporary_file *file, const char *name)
{
    char link[LINK_BYTES];

    return linkat(AT_FDCWD, format_link(file->fd, link), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/*
 * Open a file without a name in path's folder. Returns -1 if the file system does not support this,
 * or if /proc, which is needed to name the file, is missing.
 */
static int create_unnamed(const char *path)
{
    char link[LINK_BYTES], *copy = strdup(path);
    int fd = copy != NULL ? open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;

    free(copy);
    if (fd >= 0 && access(format_link(fd, link), F_OK) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/*
 * Give the open file, or else a new one, a temporary name in path's folder. A crashed process with
 * the same id may have left such a name, hence several tries. False with errno set.
 */
static bool name_temporary(struct mr_temporary_file *file)
{
    for (int i = 0; i < TRIES; i++) {
        if (asprintf(&file->temporary, "%s.%ld-%d.tmp", file->path, (long)getpid(), i) < 0) {
            file->temporary = NULL;
            errno = ENOMEM;
            return false;
        }
        if (file->fd >= 0 ? link_file(file, file->temporary) == 0
                          : (file->fd = open(file->temporary,
                                             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0)
            return true;
        int os_error = errno;
        free(file->temporary);
        file->temporary = NULL;
        errno = os_error;
        if (os_error != EEXIST)
            return false;
    }
    return false;
}

/*
 * Resolve symbolic links to the file that the rename may replace. A device or a directory is an
 * error: renaming to /dev/null would replace it by a file. NULL with errno set.
 */
static char *resolve_target(const char *path)
{
    struct stat info;
    char *target;

    if (stat(path, &info) < 0)
        target = errno == ENOENT && path[0] != '\0' ? strdup(path) : NULL;
    else if (S_ISREG(info.st_mode))
        target = realpath(path, NULL);
    else {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        target = NULL;
    }
    return target;
}

/*
 * True if path is directly in /dev, by any name of that folder. A file there is in memory and lost
 * after a restart.
 */
static bool is_in_dev(const char *path)
{
    struct stat folder, dev;
    char *copy = strdup(path);
    bool same = copy != NULL && stat(dirname(copy), &folder) == 0 && stat("/dev", &dev) == 0 &&
                folder.st_dev == dev.st_dev && folder.st_ino == dev.st_ino;

    free(copy);
    return same;
}

bool mr_temporary_file_check(const char *path)
{
    struct mr_temporary_file file;

    mr_interrupt_hold();
    bool good = mr_temporary_file_open(&file, path);
    mr_temporary_file_close(&file);
    mr_interrupt_release();
    return good;
}

static bool open_file(struct mr_temporary_file *file, const char *path, bool named)
{
    if (is_in_dev(path)) {
        mr_say_error("%s: files are not created in /dev", path);
        *file = (struct mr_temporary_file){0};
        return false;
    }
    *file = (struct mr_temporary_file){.path = resolve_target(path), .fd = -1};
    if (file->path != NULL && !named)
        file->fd = create_unnamed(file->path);
    if (file->fd >= 0 || (file->path != NULL && name_temporary(file)))
        return true;
    mr_say_errno(errno, "%s", path);
    free(file->path);
    *file = (struct mr_temporary_file){0};
    return false;
}

bool mr_temporary_file_open(struct mr_temporary_file *file, const char *path)
{
    return open_file(file, path, false);
}

bool mr_temporary_file_open_named(struct mr_temporary_file *file, const char *path)
{
    return open_file(file, path, true);
}

bool mr_temporary_file_write(struct mr_temporary_file *file, const void *bytes, size_t len_bytes)
{
    return mr_say_write(file->fd, choose_name(file), bytes, len_bytes);
}

bool mr_temporary_file_rewrite(struct mr_temporary_file *file, const void *bytes, size_t len_bytes)
{
    if (lseek(file->fd, 0, SEEK_SET) < 0) {
        mr_say_errno(errno, "%s", choose_name(file));
        return false;
    }
    if (!mr_temporary_file_write(file, bytes, len_bytes))
        return false;
    if (lseek(file->fd, 0, SEEK_END) < 0) {
        mr_say_errno(errno, "%s", choose_name(file));
        return false;
    }
    return true;
}

bool mr_temporary_file_sync(struct mr_temporary_file *file)
{
    /* EINVAL: the file system does not support fsync. */
    if (fsync(file->fd) == 0 || errno == EINVAL)
        return true;
    mr_say_errno(errno, "%s", choose_name(file));
    return false;
}

/* Make the name survive a crash. Errors are ignored: the file itself is complete. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    int fd = copy != NULL ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
    free(copy);
}

static bool place_file(struct mr_temporary_file *file)
{
    /* Only rename() replaces an existing file, and it needs a name for the new one. */
    file->placed = file->temporary == NULL && link_file(file, file->path) == 0;
    if (!file->placed)
        file->placed = (file->temporary != NULL || name_temporary(file)) &&
                       rename(file->temporary, file->path) == 0;
    if (!file->placed) {
        mr_say_errno(errno, "%s", file->path);
        return false;
    }
    free(file->temporary);
    file->temporary = NULL;
    return true;
}

bool mr_temporary_file_rename(struct mr_temporary_file *file)
{
    bool good = place_file(file);

    if (good)
        sync_folder(file->path);
    return good;
}

/*
 * Give the file that the rename will replace, if there is one, a second name. On a file system
 * without hard links, move it there. False with errno set.
 */
static bool save_old(struct mr_temporary_file *file)
{
    char *old;

    if (asprintf(&old, "%s.%ld.old", file->path, (long)getpid()) < 0) {
        errno = ENOMEM;
        return false;
    }
    unlink(old); /* left by a crashed process with the same id */
    if (link(file->path, old) == 0 || (errno != ENOENT && rename(file->path, old) == 0)) {
        file->old = old;
        return true;
    }
    int os_error = errno;
    free(old);
    errno = os_error;
    return os_error == ENOENT;
}

/*
 * If the new file is already in place, replace it by the old one, or remove it if there was none.
 */
static void restore_old(struct mr_temporary_file *file)
{
    if (file->old == NULL && file->placed)
        unlink(file->path);
    /* rename() does nothing if both names belong to one file, so unlink the second name. */
    if (file->old != NULL && rename(file->old, file->path) == 0)
        unlink(file->old);
}

bool mr_temporary_file_rename_all(struct mr_temporary_file *const all[], size_t n)
{
    size_t done = 0, kept = 0;
    bool good = true;

    for (; good && kept < n; kept += good) {
        good = save_old(all[kept]);
        if (!good)
            mr_say_errno(errno, "%s", all[kept]->path);
    }
    for (; good && done < n; done += good)
        good = place_file(all[done]);
    for (size_t i = 0; i < kept; i++) {
        if (good && all[i]->old != NULL)
            unlink(all[i]->old);
        if (!good)
            restore_old(all[i]);
        free(all[i]->old);
        all[i]->old = NULL;
    }
    /* last, because syncing waits: a process killed meanwhile leaves no old file */
    for (size_t i = 0; good && i < n; i++)
        sync_folder(all[i]->path);
    return good;
}

void mr_temporary_file_close(struct mr_temporary_file *file)
{
    if (file->path == NULL)
        return;
    close(file->fd);
    if (file->temporary != NULL)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct mr_temporary_file){0};
}

bool mr_temporary_file_store(const char *path, const void *bytes, size_t len_bytes)
{
    struct mr_temporary_file file;

    if (!mr_temporary_file_open(&file, path))
        return false;
    bool good = mr_temporary_file_write(&file, bytes, len_bytes) && mr_temporary_file_sync(&file) &&
                mr_temporary_file_rename(&file);
    mr_temporary_file_close(&file);
    return good;
}
