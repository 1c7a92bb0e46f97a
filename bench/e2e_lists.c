/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the lists that the end-to-end benchmark needs, in the form that list:FILE reads. */
#include "bench/end_to_end.h"

#include "bench/write_list.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Write n entries with absolute names, repeating the photographs. */
static mr_status put_photos(FILE *file, const struct mr_photos *photos, uint64_t n, mr_error *error)
{
    for (uint64_t i = 0; i < n; i++) {
        char name[MR_CATALOG_PATH], *real;
        int64_t index = photos->photo[i % photos->n].index, label;
        mr_dataset_name(photos->dataset, index, name, sizeof name);
        mr_status status = mr_dataset_label(photos->dataset, index, &label, error);
        if (status != MR_OK)
            return status;
        real = realpath(name, NULL);
        if (!real)
            return mr_error_os(error, MR_ERR_IO, errno, "%s", name);
        mr_write_list_line(file, real, label);
        free(real);
    }
    return MR_OK;
}

static mr_status close_list(FILE *file, const char *path, mr_status status, mr_error *error)
{
    bool failed = ferror(file) != 0;
    if ((fclose(file) != 0 || failed) && status == MR_OK)
        return mr_error_os(error, MR_ERR_IO, errno, "write %s", path);
    return status;
}

static mr_status write_photos(const struct mr_photos *photos, uint64_t n, const char *path,
                              mr_error *error)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return mr_error_os(error, MR_ERR_IO, errno, "create %s", path);
    return close_list(file, path, put_photos(file, photos, n, error), error);
}

/* Write names as long as ImageNet's. */
static mr_status write_listed(const char *path, mr_error *error)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return mr_error_os(error, MR_ERR_IO, errno, "create %s", path);
    for (int i = 0; i < MR_E2E_LISTED; i++) {
        char name[64];
        int label = (int)((int64_t)i * 1000 / MR_E2E_LISTED);
        snprintf(name, sizeof name, "train/n%08d/n%08d_%d.JPEG", 1440764 + label, 1440764 + label,
                 i);
        mr_write_list_line(file, name, label);
    }
    return close_list(file, path, MR_OK, error);
}

mr_status mr_e2e_lists_photos(const struct mr_photos *photos, const char *path, mr_error *error)
{
    return write_photos(photos, photos->n, path, error);
}

mr_status mr_e2e_lists_write(struct mr_end_to_end *bench, mr_error *error)
{
    snprintf(bench->listed, sizeof bench->listed, "%s/listed.tsv", bench->folder);
    snprintf(bench->repeated, sizeof bench->repeated, "%s/repeated.tsv", bench->folder);
    mr_status status = write_listed(bench->listed, error);
    if (status == MR_OK)
        status = write_photos(&bench->photos, MR_E2E_SAMPLES, bench->repeated, error);
    return status;
}
