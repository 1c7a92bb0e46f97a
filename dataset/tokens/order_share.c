/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock is a socket that is bound to an abstract name: the kernel binds one at a time, and frees
 * the name when its process ends in any way. A process that stands still holds up the others for a
 * minute; then they make the region themselves. Processes in other containers are not seen, and
 * have regions of their own.
 */
#include "dataset/tokens/order_share.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/regular_file.h"

enum { PATH = 600, POLL_MS = 20, PATIENCE_MS = 60000 };

/* Open a memfd of another process, if it is this user's and its content is sealed. */
static int open_sealed(const char *path)
{
    struct stat st;
    const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, &st);
    if (fd < 0)
        return -1;
    if (st.st_uid == geteuid() && (fcntl(fd, F_GET_SEALS) & wanted) == wanted)
        return fd;
    close(fd);
    return -1;
}

static int search_process(const char *folder, const char *link)
{
    int found = -1;
    DIR *fds = opendir(folder);
    for (struct dirent *entry; fds && found < 0 && (entry = readdir(fds));) {
        char path[PATH], target[256];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        if (strcmp(target, link) == 0)
            found = open_sealed(path);
    }
    if (fds)
        closedir(fds);
    return found;
}

static int search(const char *name)
{
    char link[256];
    int found = -1;
    snprintf(link, sizeof link, "/memfd:%s (deleted)", name);
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && found < 0 && (entry = readdir(processes));) {
        char folder[PATH / 2];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(folder, sizeof folder, "/proc/%s/fd", entry->d_name);
        found = search_process(folder, link);
    }
    if (processes)
        closedir(processes);
    return found;
}

/* Returns the descriptor of the lock, or a negative errno; -EADDRINUSE: another process has it. */
static int lock(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    memcpy(address.sun_path + 1, name, len); /* after a NUL: an abstract name */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    if (bind(fd, (const struct sockaddr *)&address, size) == 0)
        return fd;
    int err = errno;
    close(fd);
    return -err;
}

/* Searching takes long if there are many processes, so it is not repeated while the lock is held.
 */
void mr_order_share_take(const char *name, int *region_out, int *lock_out)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000};
    *lock_out = -1;
    *region_out = search(name);
    if (*region_out >= 0)
        return;
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += POLL_MS) {
        *lock_out = lock(name);
        if (*lock_out != -EADDRINUSE)
            break;
        nanosleep(&pause, NULL);
    }
    *region_out = search(name); /* it may have been finished since */
    if (*region_out >= 0 && *lock_out >= 0)
        close(*lock_out);
    if (*region_out >= 0 || *lock_out < 0)
        *lock_out = -1;
}
