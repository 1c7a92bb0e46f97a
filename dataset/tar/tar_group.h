/* SPDX-License-Identifier: Apache-2.0 */
/* Groups the members of a shard into samples, as WebDataset does. */
#ifndef DATASET_TAR_GROUP_H
#define DATASET_TAR_GROUP_H

#include "dataset/catalog_build.h"
#include "dataset/extent.h"
#include "dataset/tar/tar_scan.h"

#define MR_TAR_MAX_IMAGES 16
#define MR_TAR_RECIPE 768

enum mr_tar_label { MR_TAR_LABEL_CLS, MR_TAR_LABEL_JSON, MR_TAR_LABEL_NONE };

/* Which members make up a sample: the keys of a SPEC, parsed. storage holds the image suffixes. */
struct mr_tar_recipe {
    enum mr_tar_label label;
    char field[128]; /* field of the JSON object */
    uint32_t n_images;
    const char *images[MR_TAR_MAX_IMAGES]; /* suffixes in lower case; the first one that a sample
                                              has is its image */
    uint32_t n_extra;
    uint32_t boxes;                      /* as in struct mr_sample_kind */
    struct mr_extra extra[MR_MAX_EXTRA]; /* extra members, by suffix */
    char storage[256];
    char text[MR_TAR_RECIPE]; /* all of the above as text: equal texts give equal samples */
};

/* The samples of one shard. */
struct mr_tar_samples {
    uint64_t n;
    struct mr_bytes members; /* struct mr_catalog_member */
    struct mr_bytes extra;   /* struct mr_catalog_extra: n_extra for each sample */
    struct mr_bytes names;   /* names of the samples, NUL-terminated */
    struct mr_bytes notes;   /* lines about broken places, NUL-terminated */
    bool is_broken;
    uint64_t stamp;                   /* mr_file_cache_stamp() of the shard */
    struct mr_object_version version; /* of a remote shard */
};

void mr_tar_samples_fini(struct mr_tar_samples *samples);

struct mr_tar_group;

/*
 * Split the name of a member: stem_len_out is the length up to the first dot of its base name,
 * suffix_out what follows the dot. False: the member does not belong to a sample.
 */
bool mr_tar_group_split(const char *name, size_t *stem_len_out, const char **suffix_out);

/*
 * samples must be empty. Ownership: file, recipe and samples belong to the caller, and must stay
 * valid until destroy.
 */
mr_status mr_tar_group_create(struct mr_tar_file *file, const struct mr_tar_recipe *recipe,
                              struct mr_tar_samples *samples, struct mr_tar_group **group_out,
                              mr_error *error);
void mr_tar_group_destroy(struct mr_tar_group *group);

/*
 * The next member, or the next gap. group is a struct mr_tar_group. These are the events of
 * mr_tar_scan().
 */
mr_status mr_tar_group_member(void *group, const struct mr_tar_member *member, mr_error *error);
mr_status mr_tar_group_gap(void *group, const struct mr_tar_gap *gap, mr_error *error);
/* Call after the last member. */
mr_status mr_tar_group_finish(struct mr_tar_group *group, mr_error *error);

#endif
