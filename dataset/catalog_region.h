/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region of a catalog: maps and checks it, finds its sections and the names in them. The
 * schemes use these functions.
 */
#ifndef DATASET_CATALOG_REGION_H
#define DATASET_CATALOG_REGION_H

#include "dataset/catalog_ops.h"

/* Map the region, check its header and set catalog->header. On failure nothing is mapped. */
mr_status mr_catalog_region_map(struct mr_catalog *catalog, int fd, mr_error *error);
/* MR_ERR_INVALID if these bytes are not a region of this build. */
mr_status mr_catalog_region_check(const struct mr_catalog_header *header, uint64_t len,
                                  mr_error *error);
/*
 * Map the file beside the region. It must be at least as long as when the dataset was opened. what:
 * its name in messages.
 */
mr_status mr_catalog_region_map_beside(struct mr_catalog *catalog, int fd, const char *what,
                                       mr_error *error);
void mr_catalog_region_unmap(struct mr_catalog *catalog);
/* True if the sections that every scheme has are large enough and end where they must. */
bool mr_catalog_region_is_sound(const struct mr_catalog *catalog);

const void *mr_catalog_region_section(const struct mr_catalog *catalog,
                                      enum mr_catalog_section which);
uint64_t mr_catalog_region_len(const struct mr_catalog *catalog, enum mr_catalog_section which);

/*
 * The i-th text in names, where texts end with separator. The length is without the separator.
 * False only for a list that was overwritten.
 */
bool mr_catalog_region_find(const struct mr_catalog *catalog, uint64_t i, char separator,
                            const char **name_out, size_t *len_out);
/*
 * Index of the last of n entries whose first u64 is at most value. Entries are stride u64s apart;
 * the first u64 of the first entry is 0.
 */
uint64_t mr_catalog_region_last(const uint64_t *firsts, uint64_t n, uint64_t stride,
                                uint64_t value);
/*
 * The i-th NUL-terminated name as a path in folder ("": no folder). Returns 0, -ENAMETOOLONG or
 * -EINVAL.
 */
int mr_catalog_region_path(const struct mr_catalog *catalog, uint64_t i, const char *folder,
                           char path_out[MR_CATALOG_PATH]);
/* The same without a folder, for schemes whose files are named so. */
int mr_catalog_region_plain_path(const struct mr_catalog *catalog, uint64_t file,
                                 char path_out[MR_CATALOG_PATH]);
/* For schemes whose samples have no label: kind.label_bytes is 0. */
mr_status mr_catalog_region_no_label(const struct mr_catalog *catalog, int64_t index,
                                     void *label_out, struct mr_extent *extent_out,
                                     mr_error *error);
/* The name of a sample: the path of its file as the user would write it, then suffix. */
void mr_catalog_region_name(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                            const char *suffix, char *name_out, size_t size);

/*
 * For schemes with one file per sample: further member k of the sample is the file with the number
 * n_files * (k + 1) + index.
 */
void mr_catalog_region_member_files(const struct mr_catalog *catalog, int64_t index,
                                    struct mr_extent members_out[MR_MAX_MEMBERS]);
/*
 * For schemes with one file per sample: the extent and the path of the file with the number of the
 * sample.
 */
struct mr_extent mr_catalog_region_whole_file(const struct mr_catalog *catalog, int64_t index);
void mr_catalog_region_file_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                                 size_t size);

#endif
