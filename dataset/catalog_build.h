/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a catalog: fill in n_samples, n_files, kind and record of the header, append to the
 * sections, then finish.
 */
#ifndef DATASET_CATALOG_BUILD_H
#define DATASET_CATALOG_BUILD_H

#include "base/bytes.h"
#include "dataset/catalog.h"
#include "dataset/catalog_format.h"

struct mr_catalog_builder {
    struct mr_catalog_header header;
    int fd; /* the region; names are written directly into it */
    unsigned char *map;
    size_t map_len; /* its current size; it grows */
    size_t names_len;
    uint64_t n_names;
    struct mr_bytes sections[MR_CATALOG_N_SECTIONS]; /* all but NAMES */
};

mr_status mr_catalog_builder_init(struct mr_catalog_builder *builder, enum mr_catalog_scheme scheme,
                                  mr_error *error);
/* The same, with a name for the memfd. */
mr_status mr_catalog_builder_init_as(struct mr_catalog_builder *builder,
                                     enum mr_catalog_scheme scheme, const char *name,
                                     mr_error *error);
void mr_catalog_builder_fini(struct mr_catalog_builder *builder);

/* Append the name or path of the next file (no NUL inside). */
mr_status mr_catalog_builder_name(struct mr_catalog_builder *builder, const char *name,
                                  mr_error *error);
/* The files whose names follow are in this folder. */
mr_status mr_catalog_builder_folder(struct mr_catalog_builder *builder, const char *path,
                                    uint64_t class_, mr_error *error);
mr_status mr_catalog_builder_class(struct mr_catalog_builder *builder, const char *name,
                                   mr_error *error);
/*
 * written: the prefix that the user wrote for relative paths ("" for none). absolute: the absolute
 * path of the root.
 */
mr_status mr_catalog_builder_root(struct mr_catalog_builder *builder, const char *written,
                                  const char *absolute, mr_error *error);

/*
 * Append the versions of the next n files, and set is_remote. paths: NUL-terminated, one after the
 * other; the version of one that is not a URL is zeros.
 */
mr_status mr_catalog_builder_versions(struct mr_catalog_builder *builder, const char *paths,
                                      size_t n, mr_error *error);
/* The same for all files, in their order, if any of the paths is a URL; otherwise nothing. */
mr_status mr_catalog_builder_find_versions(struct mr_catalog_builder *builder, char *const *paths,
                                           size_t n, mr_error *error);

/*
 * Write the sections and seal the region. Ownership: the caller closes *fd_out and still calls
 * fini.
 */
mr_status mr_catalog_builder_finish(struct mr_catalog_builder *builder, int *fd_out,
                                    mr_error *error);

#endif
