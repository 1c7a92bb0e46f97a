/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens any folder of photographs as a dataset: through a list in an anonymous file, which is read
 * when the dataset is opened.
 */
#include "bench/flat_folder.h"

#include "bench/write_list.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static int is_jpeg(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && entry->d_type != DT_DIR &&
           (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int list_jpegs(const char *path, struct dirent ***entries_out)
{
    return scandir(path, entries_out, is_jpeg, by_name);
}

static void free_entries(struct dirent **entries, int n)
{
    for (int i = 0; i < n; i++)
        free(entries[i]);
    if (n >= 0)
        free(entries);
}

bool mr_flat_folder_is(const char *path)
{
    struct dirent **entries = NULL;
    int n = list_jpegs(path, &entries);
    free_entries(entries, n);
    return n > 0;
}

static mr_status write_entries(FILE *file, const char *path, struct dirent **entries, int n,
                               mr_error *error)
{
    char *real = realpath(path, NULL), name[PATH_MAX + NAME_MAX + 2];
    if (!real)
        return mr_error_os(error, MR_ERR_IO, errno, "%s", path);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s/%s", real, entries[i]->d_name);
        mr_write_list_line(file, name, 0);
    }
    free(real);
    return fflush(file) == 0 ? MR_OK
                             : mr_error_os(error, MR_ERR_IO, errno, "write a list of %s", path);
}

mr_status mr_flat_folder_open(const char *path, mr_dataset **dataset_out, mr_error *error)
{
    struct dirent **entries = NULL;
    *dataset_out = NULL;
    int n = list_jpegs(path, &entries), fd = memfd_create("millrace-bench", MFD_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    mr_status status;
    if (n < 0 || !file)
        status = mr_error_os(error, MR_ERR_IO, errno, "list %s", path);
    else
        status = write_entries(file, path, entries, n, error);
    if (status == MR_OK) {
        char spec[64];
        snprintf(spec, sizeof spec, "list:/proc/self/fd/%d", fd);
        status = mr_dataset_open(spec, NULL, dataset_out, error);
    }
    free_entries(entries, n);
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return status;
}
