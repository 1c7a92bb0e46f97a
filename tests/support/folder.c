/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes temporary folders. Removal follows no links. */
#include "tests/support/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/die.h"

/* The folders that this process has made and not removed yet. */
static struct left {
    struct left *next;
    pid_t maker;
    char *path;
} * left;

/* Uses descriptors, because a path may be longer than PATH_MAX. True: everything was removed. */
static bool remove_content(int fd)
{
    DIR *dir = fdopendir(fd);
    bool all = dir != NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (below < 0 && errno == EACCES && fchmodat(dirfd(dir), entry->d_name, 0700, 0) == 0)
            below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (below >= 0)
            all = remove_content(below) && all;
        all = unlinkat(dirfd(dir), entry->d_name, below >= 0 ? AT_REMOVEDIR : 0) == 0 && all;
    }
    if (dir)
        closedir(dir);
    return all;
}

static bool remove_folder(const char *path)
{
    return remove_content(open(path, O_RDONLY | O_DIRECTORY)) && rmdir(path) == 0;
}

/* A child that ends with exit() removes nothing. */
static void remove_left(void)
{
    (void)!seteuid(getuid()); /* a failed test may have left another user id */
    for (const struct left *at = left; at; at = at->next)
        if (at->maker == getpid())
            remove_folder(at->path);
}

char *mr_test_folder_create(void)
{
    static bool is_told;
    const char *parent = getenv("TMPDIR");
    struct left *made = malloc(sizeof *made);
    if (!made || asprintf(&made->path, "%s/millrace-test-XXXXXX", parent ? parent : "/tmp") < 0)
        mr_test_die("a path");
    if (!mkdtemp(made->path))
        mr_test_die(made->path);
    if (!is_told && atexit(remove_left) != 0)
        mr_test_die("atexit");
    is_told = true;
    made->maker = getpid();
    made->next = left;
    left = made;
    return made->path;
}

void mr_test_folder_write(const char *folder, const char *name, const void *bytes, uint64_t len)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || (len > 0 && fwrite(bytes, 1, len, file) != len) || fclose(file) != 0)
        mr_test_die(path);
}

void mr_test_folder_remove(char *folder)
{
    struct left **at = &left;
    while (*at && (*at)->path != folder)
        at = &(*at)->next;
    if (*at) {
        struct left *found = *at;
        *at = found->next;
        free(found);
    }
    if (!remove_folder(folder))
        mr_test_die(folder);
    free(folder);
}
