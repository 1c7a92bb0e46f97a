/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes folders for tests. Removal follows no links. */
#include "tests/support/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/images.h"

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

void mr_test_folder_fill(const char *folder, uint32_t n_classes, uint32_t n_images)
{
    char path[4096];
    for (uint32_t c = 0; c < n_classes; c++) {
        snprintf(path, sizeof path, "%s/class_%u", folder, c);
        if (mkdir(path, 0777) != 0)
            die(path);
        for (uint32_t i = 0; i < n_images; i++) {
            uint32_t seed = c * 1000 + i;
            struct mr_test_jpeg jpeg = {.width = 40 + (seed * 37) % 160,
                                        .height = 40 + (seed * 53) % 130,
                                        .seed = seed,
                                        .colour = i % 7 == 3 ? MR_TEST_GREY : MR_TEST_YCC,
                                        .progressive = i % 5 == 4,
                                        .restart = i % 11 == 5 ? 3 : 0};
            struct mr_test_image image = mr_test_jpeg(&jpeg);
            snprintf(path, sizeof path, "class_%u/%03u.jpg", c, i);
            mr_test_folder_write(folder, path, image.bytes, image.len);
            mr_test_image_free(&image);
        }
    }
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
