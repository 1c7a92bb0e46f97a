/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of image folders: one file per sample. The folder of a file determines its class.
 * Further members have the name of the image with another ending, in folders of their own.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/catalog_region.h"

static bool has_folders(const struct mr_catalog *catalog)
{
    uint32_t n_extra = catalog->header->kind.n_extra;
    return (catalog->header->n_files == 0 ||
            mr_catalog_region_len(catalog, MR_SECTION_FOLDERS) > 0) &&
           n_extra <= MR_MAX_MEMBERS &&
           mr_catalog_region_len(catalog, MR_SECTION_EXTRA) >= 2 * n_extra;
}

static const struct mr_catalog_folder *find_folder(const struct mr_catalog *catalog, uint64_t file)
{
    const struct mr_catalog_folder *folders =
        mr_catalog_region_section(catalog, MR_SECTION_FOLDERS);
    uint64_t n = mr_catalog_region_len(catalog, MR_SECTION_FOLDERS) / sizeof *folders;
    return &folders[mr_catalog_region_last(&folders->first_file, n,
                                           sizeof *folders / sizeof(uint64_t), file)];
}

static int image_path(const struct mr_catalog *catalog, uint64_t file,
                      char path_out[MR_CATALOG_PATH])
{
    const char *folders = mr_catalog_region_section(catalog, MR_SECTION_FOLDER_PATHS);
    return mr_catalog_region_path(catalog, file, folders + find_folder(catalog, file)->path,
                                  path_out);
}

static const char *next_text(const char *text)
{
    return text + strlen(text) + 1;
}

/* The folder of member k; its suffix follows. */
static const char *member_folder(const struct mr_catalog *catalog, uint64_t k)
{
    const char *folder = mr_catalog_region_section(catalog, MR_SECTION_EXTRA);
    for (; k > 0; k--)
        folder = next_text(next_text(folder));
    return folder;
}

/*
 * Turn the path of an image into that of its member k: the member's folder, the path up to its last
 * dot, the member's suffix. In place, because callers may have little stack.
 */
static int turn_into_member(const struct mr_catalog *catalog, uint64_t k,
                            char path[MR_CATALOG_PATH])
{
    const char *folder = member_folder(catalog, k);
    const char *suffix = next_text(folder);
    const char *dot = strrchr(path, '.'); /* mr_imagefolder_is_image() has found it */
    size_t stem_len = dot ? (size_t)(dot - path) : 0;
    size_t start = strlen(folder) + 1, suffix_len = strlen(suffix);
    if (start + stem_len + suffix_len >= MR_CATALOG_PATH)
        return -ENAMETOOLONG;
    memmove(path + start, path, stem_len);
    memcpy(path, folder, start - 1);
    path[start - 1] = '/';
    memcpy(path + start + stem_len, suffix, suffix_len + 1);
    return 0;
}

/* A sample may lack a member, but the member's folder must exist. */
static bool may_lack(const struct mr_catalog *catalog, uint64_t file)
{
    struct stat st;
    uint64_t n = catalog->header->n_files;
    return file >= n && stat(member_folder(catalog, file / n - 1), &st) == 0 && S_ISDIR(st.st_mode);
}

static int find_path(const struct mr_catalog *catalog, uint64_t file,
                     char path_out[MR_CATALOG_PATH])
{
    uint64_t n = catalog->header->n_files;
    int rc = image_path(catalog, file % n, path_out);
    return rc < 0 || file < n ? rc : turn_into_member(catalog, file / n - 1, path_out);
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
    .members = mr_catalog_region_member_files,
    .path = find_path,
    .may_lack = may_lack,
    .name = mr_catalog_region_file_name,
    .label = find_label,
};
