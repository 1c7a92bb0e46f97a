/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a folder and passes the image files to the library as a list in memory. Folders may be
 * links, and links may lead back, so a folder that is its own parent is skipped. Bytes of a path
 * that have a meaning in a list are escaped.
 */
#include "tools/image_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/say.h"

struct walk {
    char **paths;
    size_t n;
    size_t capacity;
    uint64_t n_unread;
    struct mr_progress *progress;
};

/* A folder on the path from the root. */
struct parent {
    const struct parent *up;
    dev_t device;
    ino_t inode;
};

static bool is_image(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                          ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

/* Ownership: takes path, also on failure. */
static bool add_path(struct walk *walk, char *path)
{
    if (walk->n == walk->capacity) {
        size_t capacity = walk->capacity * 2 + 1024;
        char **paths = reallocarray(walk->paths, capacity, sizeof *paths);
        if (paths == NULL) {
            free(path);
            mr_say_error("out of memory");
            return false;
        }
        walk->paths = paths;
        walk->capacity = capacity;
    }
    walk->paths[walk->n++] = path;
    mr_progress_files(walk->progress, walk->n);
    return true;
}

static bool walk_folder(struct walk *walk, const char *path, const struct parent *up);

static bool add_entry(struct walk *walk, const char *folder, const char *name,
                      const struct parent *self)
{
    struct stat info;
    char *path;

    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        mr_say_error("out of memory");
        return false;
    }
    bool known = stat(path, &info) == 0;
    if (known && S_ISDIR(info.st_mode)) {
        bool good = walk_folder(walk, path, self);
        free(path);
        return good;
    }
    if (is_image(name)) /* if stat() failed, the check reports the file */
        return add_path(walk, path);
    free(path);
    return true;
}

static bool is_parent(const struct parent *parent, const struct stat *info)
{
    for (; parent != NULL; parent = parent->up)
        if (parent->device == info->st_dev && parent->inode == info->st_ino)
            return true;
    return false;
}

/* Report a folder that cannot be read; the other folders are still searched. */
static void skip_folder(struct walk *walk, const char *path)
{
    mr_progress_clear(walk->progress);
    mr_say_errno(errno, "%s", path);
    walk->n_unread++;
}

static bool walk_folder(struct walk *walk, const char *path, const struct parent *up)
{
    struct stat info;
    bool good = true;
    DIR *folder = opendir(path);

    if (folder == NULL || fstat(dirfd(folder), &info) < 0) {
        skip_folder(walk, path);
        if (folder != NULL)
            closedir(folder);
        return true;
    }
    struct parent self = {up, info.st_dev, info.st_ino};
    errno = 0;
    for (struct dirent *entry; good && !is_parent(up, &info) && (entry = readdir(folder)) != NULL;
         errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            good = add_entry(walk, path, entry->d_name, &self);
    if (good && errno != 0)
        skip_folder(walk, path);
    closedir(folder);
    return good;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_line(FILE *list, const char *path)
{
    for (; *path != '\0'; path++) {
        if (*path == '\\' || *path == '\t' || *path == '\n') {
            fputc('\\', list);
            fputc(*path == '\t' ? 't' : *path == '\n' ? 'n' : '\\', list);
        } else {
            fputc(*path, list);
        }
    }
    fputs("\t0\n", list);
}

/* Write the list to a file in memory. It has a path below /proc while it is open. */
static FILE *make_list(const struct walk *walk)
{
    int fd = memfd_create("millrace-files", MFD_CLOEXEC);
    FILE *list = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (list == NULL) {
        mr_say_errno(errno, "a list in memory");
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    for (size_t i = 0; i < walk->n; i++)
        put_line(list, walk->paths[i]);
    if (fflush(list) == 0 && !ferror(list))
        return list;
    mr_say_errno(errno, "a list in memory");
    fclose(list);
    return NULL;
}

static int open_list(const struct walk *walk, mr_dataset **dataset_out)
{
    char spec[64];
    mr_error error = {0};
    FILE *list = make_list(walk);

    if (list == NULL)
        return MR_EXIT_FAILED;
    snprintf(spec, sizeof spec, "list:/proc/self/fd/%d", fileno(list));
    mr_status status = mr_dataset_open(spec, NULL, dataset_out, &error);
    fclose(list);
    return status < 0 ? mr_say_status(status, &error) : MR_EXIT_OK;
}

int mr_image_files_open(struct mr_image_files *files, const char *path,
                        struct mr_progress *progress, mr_dataset **dataset_out)
{
    struct walk walk = {.progress = progress};
    int exit_status = MR_EXIT_FAILED;

    *dataset_out = NULL;
    *files = (struct mr_image_files){.root = realpath(path, NULL)};
    if (files->root == NULL) {
        mr_say_errno(errno, "%s", path);
        return MR_EXIT_FAILED;
    }
    mr_progress_init(progress);
    bool good = walk_folder(&walk, files->root, NULL);
    mr_progress_clear(progress);
    if (good && walk.n == 0 && walk.n_unread == 0)
        mr_say_error("%s has no image files", path);
    files->n_unread = walk.n_unread;
    if (good && walk.n > 0) {
        qsort(walk.paths, walk.n, sizeof *walk.paths, compare_paths);
        exit_status = open_list(&walk, dataset_out);
    }
    for (size_t i = 0; i < walk.n; i++)
        free(walk.paths[i]);
    free(walk.paths);
    if (exit_status != MR_EXIT_OK)
        mr_image_files_close(files);
    return exit_status;
}

void mr_image_files_close(struct mr_image_files *files)
{
    free(files->root);
    *files = (struct mr_image_files){0};
}
