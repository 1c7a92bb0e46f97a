/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes temporary folders. Removal follows no links. */
#include "tests/support/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

char *mr_test_folder_create(void)
{
    const char *parent = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/millrace-test-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(path))
        die(path);
    char *copy = strdup(path);
    if (!copy)
        die("strdup");
    return copy;
}

void mr_test_folder_write(const char *folder, const char *name, const void *bytes, uint64_t len)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || (len > 0 && fwrite(bytes, 1, len, file) != len) || fclose(file) != 0)
        die(path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void mr_test_folder_remove(char *folder)
{
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        die(folder);
    free(folder);
}
