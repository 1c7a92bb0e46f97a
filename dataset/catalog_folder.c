/* SPDX-License-Identifier: Apache-2.0 */
/* The scheme of image folders: one file per sample. The folder of a file determines its class. */
#include <string.h>

#include "dataset/catalog_region.h"

static bool has_folders(const struct mr_catalog *catalog)
{
    return catalog->header->n_files == 0 || mr_catalog_region_len(catalog, MR_SECTION_FOLDERS) > 0;
}

static const struct mr_catalog_folder *find_folder(const struct mr_catalog *catalog, uint64_t file)
{
    const struct mr_catalog_folder *folders =
        mr_catalog_region_section(catalog, MR_SECTION_FOLDERS);
    uint64_t n = mr_catalog_region_len(catalog, MR_SECTION_FOLDERS) / sizeof *folders;
    return &folders[mr_catalog_region_last(&folders->first_file, n,
                                           sizeof *folders / sizeof(uint64_t), file)];
}

static int find_path(const struct mr_catalog *catalog, uint64_t file,
                     char path_out[MR_CATALOG_PATH])
{
    const char *folders = mr_catalog_region_section(catalog, MR_SECTION_FOLDER_PATHS);
    return mr_catalog_region_path(catalog, file, folders + find_folder(catalog, file)->path,
                                  path_out);
}

static mr_status find_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                            struct mr_extent *extent_out, mr_error *error)
{
    (void)extent_out, (void)error;
    int64_t label = (int64_t)find_folder(catalog, (uint64_t)index)->class_;
    memcpy(label_out, &label, sizeof label);
    return MR_OK;
}

const struct mr_catalog_ops mr_catalog_folder_ops = {
    .loose_files = true,
    .is_sound = has_folders,
    .image = mr_catalog_region_whole_file,
    .path = find_path,
    .name = mr_catalog_region_file_name,
    .label = find_label,
};
