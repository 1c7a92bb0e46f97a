/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region of a catalog: mapped and checked; its sections, and the names in it. Schemes look
 * things up with these.
 */
#ifndef DATASET_CATALOG_REGION_H
#define DATASET_CATALOG_REGION_H

#include "dataset/catalog_ops.h"

/* Map the region and check its header: catalog->header, or nothing on failure. */
mr_status mr_catalog_region_map(struct mr_catalog *catalog, int fd, mr_error *error);
/* Map the file beside it, which must still be as long as it was. what: its name in messages. */
mr_status mr_catalog_region_map_beside(struct mr_catalog *catalog, int fd, const char *what,
                                       mr_error *error);
void mr_catalog_region_unmap(struct mr_catalog *catalog);
/* Do the sections that every scheme has hold what is looked up in them? */
bool mr_catalog_region_is_sound(const struct mr_catalog *catalog);

const void *mr_catalog_region_section(const struct mr_catalog *catalog,
                                      enum mr_catalog_section which);
uint64_t mr_catalog_region_len(const struct mr_catalog *catalog, enum mr_catalog_section which);

/*
 * The i-th text between separators in names; its length without the separator. False only in a list
 * that was overwritten.
 */
bool mr_catalog_region_find(const struct mr_catalog *catalog, uint64_t i, char separator,
                            const char **name_out, size_t *len_out);
/*
 * The last entry whose first u64 is at most value; entries are stride u64s apart, the first is 0.
 */
uint64_t mr_catalog_region_last(const uint64_t *firsts, uint64_t n, uint64_t stride,
                                uint64_t value);
/*
 * The i-th of the NUL-terminated names as a path in folder ("": none). Returns 0, -ENAMETOOLONG or
 * -EINVAL.
 */
int mr_catalog_region_path(const struct mr_catalog *catalog, uint64_t i, const char *folder,
                           char path_out[MR_CATALOG_PATH]);
/* The name of a sample: the path of its file as the user would write it, and suffix. */
void mr_catalog_region_name(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                            const char *suffix, char *name_out, size_t size);

/*
 * What schemes with one file per sample answer: all of the file with the sample's number, and its
 * path.
 */
uint32_t mr_catalog_region_whole_file(const struct mr_catalog *catalog, int64_t index,
                                      struct mr_extent *extents_out);
void mr_catalog_region_file_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                                 size_t size);

#endif
