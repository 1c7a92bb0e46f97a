/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and removes the trees of the dataset tests. A test that fails does not reach its tree_destroy(), so leftover
 * trees are removed when the program ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static char *buffer(void)
{
    static char buffers[8][4 * PATH_MAX];
    static unsigned next;
    return buffers[next++ % 8];
}

enum { MAX_TREES = 16 };

/* Trees that exist now, for remove_rest(). */
static struct {
    pid_t owner; /* children of a test that end by exit() leave its trees alone */
    char paths[MAX_TREES][PATH_MAX / 2];
} trees;

static void remove_content(int fd);

static void remove_rest(void)
{
    (void)!seteuid(getuid()); /* a test that failed may have left another */
    for (int i = 0; i < MAX_TREES; i++) {
        int fd = trees.owner == getpid() && *trees.paths[i] ? open(trees.paths[i], O_RDONLY | O_DIRECTORY) : -1;
        if (fd >= 0) {
            remove_content(fd);
            rmdir(trees.paths[i]);
        }
        trees.paths[i][0] = '\0';
    }
}

/* Replace one entry by another; "" is a free one. */
static void note(const char *before, const char *after)
{
    for (int i = 0; i < MAX_TREES; i++) {
        if (strcmp(trees.paths[i], before) == 0) {
            memcpy(trees.paths[i], after, strlen(after) + 1);
            return;
        }
    }
}

void tree_create(struct tree *tree)
{
    const char *parent = getenv("TMPDIR");
    char path[PATH_MAX / 2], real[PATH_MAX];
    snprintf(path, sizeof path, "%s/millrace-test-XXXXXX", parent && *parent ? parent : "/tmp");
    must(mkdtemp(path) != NULL, path);
    must(realpath(path, real) != NULL && strlen(real) < sizeof tree->path, path);
    memcpy(tree->path, real, strlen(real) + 1);
    if (trees.owner != getpid())
        must(atexit(remove_rest) == 0, "atexit");
    trees.owner = getpid();
    note("", tree->path);
}

/* By descriptors, since a path may be longer than PATH_MAX. */
static void remove_content(int fd)
{
    DIR *dir = fdopendir(fd);
    must(dir != NULL, "fdopendir");
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        int below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (below < 0 && errno == EACCES && fchmodat(dirfd(dir), entry->d_name, 0700, 0) == 0)
            below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (below >= 0)
            remove_content(below);
        must(unlinkat(dirfd(dir), entry->d_name, below >= 0 ? AT_REMOVEDIR : 0) == 0, entry->d_name);
    }
    closedir(dir);
}

void tree_destroy(struct tree *tree)
{
    remove_content(open(tree->path, O_RDONLY | O_DIRECTORY));
    must(rmdir(tree->path) == 0, tree->path);
    note(tree->path, "");
}

const char *tree_at(const struct tree *tree, const char *name)
{
    char *path = buffer();
    snprintf(path, 4 * PATH_MAX, "%s/%s", tree->path, name);
    return path;
}

static void make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        must(mkdir(path, 0777) == 0 || errno == EEXIST, path);
        *slash = '/';
    }
}

void tree_folder(const struct tree *tree, const char *name)
{
    char path[4 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/", tree->path, name);
    make_folders(path);
}

void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t len)
{
    char path[4 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", tree->path, name);
    FILE *file = fopen(path, "w");
    if (!file && errno == ENOENT) {
        make_folders(path);
        file = fopen(path, "w");
    }
    must(file != NULL, path);
    must(fwrite(bytes, 1, len, file) == len && fclose(file) == 0, path);
}

void tree_file(const struct tree *tree, const char *name)
{
    tree_write(tree, name, "bytes\n", 6);
}

void tree_link(const struct tree *tree, const char *target, const char *name)
{
    must(symlink(target, tree_at(tree, name)) == 0, name);
}

const char *tree_spec(const struct tree *tree, const char *kind, const char *name)
{
    const char *path = *name ? tree_at(tree, name) : tree->path;
    char *spec = buffer(), *out = spec + sprintf(spec, "%s%s", kind, *kind ? ":" : "");
    for (; *path; path++)
        out +=
            sprintf(out, isalnum((unsigned char)*path) || strchr("/._", *path) ? "%c" : "%%%02X", (unsigned char)*path);
    return spec;
}

mr_dataset *open_dataset(const char *spec)
{
    mr_dataset *dataset = NULL;
    mr_error error = {0};
    if (mr_dataset_open(spec, NULL, &dataset, &error) != MR_OK)
        fail_msg("%s: %s", spec, error.text);
    return dataset;
}

void expect_open_error(const char *spec, mr_status status, const char *words)
{
    mr_dataset *dataset = (mr_dataset *)(uintptr_t)1;
    mr_error error = {0};
    mr_status got = mr_dataset_open(spec, NULL, &dataset, &error);
    if (got != status || error.status != (int32_t)status || dataset)
        fail_msg("%s: %s instead of %s: %s", spec, mr_status_name(got), mr_status_name(status), error.text);
    if (!strstr(error.text, words) || strchr(error.text, '\n'))
        fail_msg("%s: the error '%s' does not say '%s'", spec, error.text, words);
}

const char *path_of(const mr_dataset *dataset, int64_t i)
{
    struct mr_extent extents[MR_CATALOG_MAX_EXTENTS];
    char *path = buffer();
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    assert_true(mr_catalog_extents(catalog, i, extents) >= 1);
    assert_int_equal(mr_catalog_path(catalog, extents[0].file, path), 0);
    return path;
}

int64_t label_of(mr_dataset *dataset, int64_t i)
{
    int64_t label = INT64_MIN;
    mr_error error = {0};
    if (mr_dataset_label(dataset, i, &label, &error) != MR_OK)
        fail_msg("label %lld: %s", (long long)i, error.text);
    return label;
}
