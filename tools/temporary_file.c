/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files under a temporary name. write() takes at most 2 GiB at once, a full disk may be reported only by fsync()
 * or close(), and the descriptor must not reach the workers.
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

#include "tools/say.h"

enum { TRIES = 100 };

/* A new file beside path. A crashed process of the same id may have left one, hence several tries. */
static int create_temporary(struct mr_aside *aside)
{
    for (int i = 0; i < TRIES; i++) {
        if (asprintf(&aside->temporary, "%s.%ld-%d.tmp", aside->path, (long)getpid(), i) < 0) {
            aside->temporary = NULL;
            errno = ENOMEM;
            return -1;
        }
        int fd = open(aside->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
        free(aside->temporary);
        aside->temporary = NULL;
    }
    return -1;
}

/*
 * The file that a rename may replace: behind symbolic links, and never a device or a directory (renaming to /dev/null
 * would put a file in its place). NULL with errno set.
 */
static char *resolve_target(const char *path)
{
    struct stat info;
    char *target;

    if (stat(path, &info) < 0)
        target = errno == ENOENT ? strdup(path) : NULL;
    else if (S_ISREG(info.st_mode))
        target = realpath(path, NULL);
    else {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        target = NULL;
    }
    return target;
}

bool mr_aside_check(const char *path)
{
    char *target = resolve_target(path);
    bool good = target != NULL;

    if (!good) {
        mr_say_errno(errno, "%s", path);
        return false;
    }
    const char *folder = dirname(target);
    good = access(folder, W_OK | X_OK) == 0;
    if (!good)
        mr_say_errno(errno, "%s: folder %s", path, folder);
    free(target);
    return good;
}

bool mr_aside_open(struct mr_aside *aside, const char *path)
{
    *aside = (struct mr_aside){.path = resolve_target(path), .fd = -1};
    if (aside->path != NULL)
        aside->fd = create_temporary(aside);
    if (aside->fd >= 0)
        return true;
    mr_say_errno(errno, "%s", path);
    free(aside->temporary);
    free(aside->path);
    *aside = (struct mr_aside){0};
    return false;
}

bool mr_aside_write(struct mr_aside *aside, const void *bytes, size_t len_bytes)
{
    const char *at = bytes;

    while (len_bytes > 0) {
        ssize_t n = write(aside->fd, at, len_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            mr_say_errno(errno, "%s", aside->temporary);
            return false;
        }
        at += n;
        len_bytes -= (size_t)n;
    }
    return true;
}

bool mr_aside_rewrite(struct mr_aside *aside, const void *bytes, size_t len_bytes)
{
    if (lseek(aside->fd, 0, SEEK_SET) < 0) {
        mr_say_errno(errno, "%s", aside->temporary);
        return false;
    }
    if (!mr_aside_write(aside, bytes, len_bytes))
        return false;
    if (lseek(aside->fd, 0, SEEK_END) < 0) {
        mr_say_errno(errno, "%s", aside->temporary);
        return false;
    }
    return true;
}

bool mr_aside_sync(struct mr_aside *aside)
{
    /* EINVAL: the file system knows no fsync. */
    if (fsync(aside->fd) == 0 || errno == EINVAL)
        return true;
    mr_say_errno(errno, "%s", aside->temporary);
    return false;
}

bool mr_aside_rename(struct mr_aside *aside)
{
    if (rename(aside->temporary, aside->path) < 0) {
        mr_say_errno(errno, "%s", aside->path);
        return false;
    }
    free(aside->temporary);
    aside->temporary = NULL;
    return true;
}

void mr_aside_close(struct mr_aside *aside)
{
    if (aside->path == NULL)
        return;
    close(aside->fd);
    if (aside->temporary != NULL)
        unlink(aside->temporary);
    free(aside->temporary);
    free(aside->path);
    *aside = (struct mr_aside){0};
}

bool mr_aside_store(const char *path, const void *bytes, size_t len_bytes)
{
    struct mr_aside aside;

    if (!mr_aside_open(&aside, path))
        return false;
    bool good = mr_aside_write(&aside, bytes, len_bytes) && mr_aside_sync(&aside) && mr_aside_rename(&aside);
    mr_aside_close(&aside);
    return good;
}
