/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a catalog: fill in n_samples, n_files, kind and record of the header, append to the
 * sections, finish.
 */
#ifndef DATASET_CATALOG_BUILD_H
#define DATASET_CATALOG_BUILD_H

#include "base/bytes.h"
#include "dataset/catalog.h"
#include "dataset/catalog_format.h"

struct mr_catalog_builder {
    struct mr_catalog_header header;
    int fd; /* the region; names are written straight into it, once */
    unsigned char *map;
    size_t map_len; /* its size while it grows */
    size_t names_len;
    uint64_t n_names;
    struct mr_bytes sections[MR_CATALOG_N_SECTIONS]; /* all but NAMES */
};

mr_status mr_catalog_builder_init(struct mr_catalog_builder *builder, enum mr_catalog_scheme scheme,
                                  mr_error *error);
void mr_catalog_builder_fini(struct mr_catalog_builder *builder);

/* Append the next file's name or path (no NUL inside). */
mr_status mr_catalog_builder_name(struct mr_catalog_builder *builder, const char *name,
                                  mr_error *error);
/* The files from the next name on lie in this folder. */
mr_status mr_catalog_builder_folder(struct mr_catalog_builder *builder, const char *path,
                                    uint64_t class_, mr_error *error);
mr_status mr_catalog_builder_class(struct mr_catalog_builder *builder, const char *name,
                                   mr_error *error);
/* What the user wrote before relative paths ("" for nothing), and the absolute path of the root. */
mr_status mr_catalog_builder_root(struct mr_catalog_builder *builder, const char *written,
                                  const char *absolute, mr_error *error);

/* Write the sections and seal. Ownership: *fd_out is the caller's; fini is still needed. */
mr_status mr_catalog_builder_finish(struct mr_catalog_builder *builder, int *fd_out,
                                    mr_error *error);

#endif
