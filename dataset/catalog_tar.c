/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of tar shards: the image of each sample is a member, a range of its shard. The labels
 * were read when the dataset was opened.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "dataset/catalog.h"
#include "dataset/catalog_region.h"
#include "dataset/reader/file_cache.h"

static bool has_members(const struct mr_catalog *catalog)
{
    uint64_t n = catalog->header->n_samples,
             n_steps = n / MR_CATALOG_STEP + (n % MR_CATALOG_STEP != 0), n_all;
    uint32_t n_extra = catalog->header->kind.n_extra;
    return catalog->header->n_files > 0 && n_extra <= MR_MAX_MEMBERS &&
           mr_checked_mul_u64(n, n_extra, &n_all) &&
           mr_catalog_region_len(catalog, MR_SECTION_EXTRA) / sizeof(struct mr_catalog_extra) >=
               n_all &&
           mr_catalog_region_len(catalog, MR_SECTION_FOLDERS) / sizeof(struct mr_catalog_folder) >=
               catalog->header->n_files &&
           mr_catalog_region_len(catalog, MR_SECTION_MEMBERS) / sizeof(struct mr_catalog_member) >=
               n &&
           mr_catalog_region_len(catalog, MR_SECTION_INDEX) / sizeof(uint64_t) >= n_steps;
}

static uint64_t find_shard(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_catalog_folder *shards = mr_catalog_region_section(catalog, MR_SECTION_FOLDERS);
    return mr_catalog_region_last(&shards->first_file, catalog->header->n_files,
                                  sizeof *shards / sizeof(uint64_t), (uint64_t)index);
}

static const struct mr_catalog_member *find_member(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_catalog_member *members =
        mr_catalog_region_section(catalog, MR_SECTION_MEMBERS);
    return &members[index];
}

/* The extra members of a sample: kind.n_extra of them. */
static const struct mr_catalog_extra *find_extra(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_catalog_extra *extra = mr_catalog_region_section(catalog, MR_SECTION_EXTRA);
    return &extra[(uint64_t)index * catalog->header->kind.n_extra];
}

/*
 * The extent of the image. Damaged samples have one too, except a lost sample and one that may be
 * cut off: theirs is empty.
 */
static struct mr_extent image_extent(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_catalog_member *member = find_member(catalog, index);
    struct mr_extent extent = {.file = find_shard(catalog, index)};
    if (member->problem != MR_PROBLEM_LOST && member->problem != MR_PROBLEM_CUT) {
        extent.offset = member->offset;
        extent.len = member->len;
    }
    return extent;
}

/* A damaged sample has no members. */
static void find_members(const struct mr_catalog *catalog, int64_t index,
                         struct mr_extent members_out[MR_MAX_MEMBERS])
{
    const struct mr_catalog_extra *extra = find_extra(catalog, index);
    bool good = find_member(catalog, index)->problem == MR_PROBLEM_NONE;
    for (uint32_t i = 0; i < catalog->header->kind.n_extra; i++)
        members_out[i] = (struct mr_extent){.file = find_shard(catalog, index),
                                            .offset = extra[i].offset,
                                            .len = good ? extra[i].len : 0};
}

static int find_path(const struct mr_catalog *catalog, uint64_t file,
                     char path_out[MR_CATALOG_PATH])
{
    const struct mr_catalog_folder *shards = mr_catalog_region_section(catalog, MR_SECTION_FOLDERS);
    const char *paths = mr_catalog_region_section(catalog, MR_SECTION_FOLDER_PATHS);
    /* tar_shards.c has checked the length */
    snprintf(path_out, MR_CATALOG_PATH, "%s", paths + shards[file].path);
    return 0;
}

/* Offsets and labels are valid only for the version of the shard that was indexed. */
static bool is_indexed(const struct mr_catalog *catalog, uint64_t file, const struct stat *st)
{
    const struct mr_catalog_folder *shards = mr_catalog_region_section(catalog, MR_SECTION_FOLDERS);
    return shards[file].class_ == mr_file_cache_stamp(st);
}

static void member_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                        size_t size)
{
    char suffix[MR_CATALOG_PATH + 1];
    const char *name = "";
    size_t len = 0;
    mr_catalog_region_find(catalog, (uint64_t)index, '\0', &name, &len);
    snprintf(suffix, sizeof suffix, "/%.*s", (int)len, name);
    mr_catalog_region_name(catalog, index, find_shard(catalog, index), suffix, name_out, size);
}

/* The error for an extra member that is too long. */
static mr_status refuse_long(const struct mr_catalog *catalog, int64_t index, mr_error *error)
{
    const struct mr_catalog_extra *extra = find_extra(catalog, index);
    const struct mr_sample_kind *kind = &catalog->header->kind;
    char which[MR_CATALOG_DESCRIPTION];
    uint32_t i = 0;
    while (i + 1 < kind->n_extra && extra[i].len <= kind->extra[i].max_bytes)
        i++;
    mr_catalog_describe(catalog, index, which);
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s: its member '%s' has %" PRIu64 " bytes, above the maximum of %" PRIu64,
                        which, kind->extra[i].name, extra[i].len, kind->extra[i].max_bytes);
}

static mr_status find_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                            struct mr_extent *extent_out, mr_error *error)
{
    static const char *const problems[MR_N_PROBLEMS] = {
        [MR_PROBLEM_NO_IMAGE] = "the sample has no image member",
        [MR_PROBLEM_NO_LABEL] = "the sample has no label member",
        [MR_PROBLEM_BAD_LABEL] = "the sample's label is not an integer",
        [MR_PROBLEM_TWICE] = "two members of the sample have the same suffix",
        [MR_PROBLEM_CUT] = "the shard ends within the sample",
        [MR_PROBLEM_LOST] = "there is no tar header here; the members that were here are lost",
    };
    (void)extent_out;
    const struct mr_catalog_member *member = find_member(catalog, index);
    if (member->problem == MR_PROBLEM_NONE) {
        memcpy(label_out, &member->label, sizeof member->label);
        return MR_OK;
    }
    if (member->problem == MR_PROBLEM_LONG && catalog->header->kind.n_extra > 0)
        return refuse_long(catalog, index, error);
    char which[MR_CATALOG_DESCRIPTION];
    mr_catalog_describe(catalog, index, which);
    const char *problem = member->problem < MR_N_PROBLEMS ? problems[member->problem] : NULL;
    return mr_error_set(error, MR_ERR_DAMAGED, "%s: %s", which,
                        problem ? problem : "its index is wrong");
}

const struct mr_catalog_ops mr_catalog_tar_ops = {
    .in_shards = true,
    .is_sound = has_members,
    .image = image_extent,
    .members = find_members,
    .path = find_path,
    .is_file = is_indexed,
    .name = member_name,
    .label = find_label,
};
