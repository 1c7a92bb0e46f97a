/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes the trees of the dataset tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/die.h"
#include "tests/support/folder.h"

static void must(bool ok, const char *what)
{
    if (!ok)
        mr_test_die(what);
}

static char *buffer(void)
{
    static char buffers[8][4 * PATH_MAX];
    static unsigned next;
    return buffers[next++ % 8];
}

void tree_create(struct tree *tree)
{
    tree->folder = mr_test_folder_create();
    char *real = realpath(tree->folder, NULL);
    must(real && strlen(real) < sizeof tree->path, tree->folder);
    memcpy(tree->path, real, strlen(real) + 1);
    free(real);
}

void tree_destroy(struct tree *tree)
{
    mr_test_folder_remove(tree->folder);
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
        out += sprintf(out, isalnum((unsigned char)*path) || strchr("/._", *path) ? "%c" : "%%%02X",
                       (unsigned char)*path);
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
        fail_msg("%s: %s instead of %s: %s", spec, mr_status_name(got), mr_status_name(status),
                 error.text);
    if (!strstr(error.text, words) || strchr(error.text, '\n'))
        fail_msg("%s: the error '%s' does not say '%s'", spec, error.text, words);
}

const char *path_of(const mr_dataset *dataset, int64_t i)
{
    char *path = buffer();
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    assert_int_equal(mr_catalog_path(catalog, mr_catalog_image(catalog, i).file, path), 0);
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
