/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the catalog share: catalog.c attaches it and answers for files and records, catalog_pack.c for
 * packs.
 */
#ifndef DATASET_CATALOG_IMPL_H
#define DATASET_CATALOG_IMPL_H

#include <locale.h>

#include "dataset/pack_index.h"
#include "dataset/catalog.h"
#include "dataset/catalog_format.h"

struct mr_catalog {
    const struct mr_catalog_header *header;
    const char *names; /* the section, or the list file */
    size_t names_len;
    const uint64_t *index;
    int root;
    const void *beside; /* the list file or the pack's index, mapped beside the region; NULL: none */
    size_t beside_len;
    struct mr_pack_index pack;
    locale_t c_locale; /* numbers in lists */
};

const void *mr_catalog_section_at(const struct mr_catalog *catalog, enum mr_catalog_section which);

/* Of a pack: its index is what it was when the pack was opened. */
mr_status mr_catalog_pack_attach(struct mr_catalog *catalog, mr_error *error);
uint32_t mr_catalog_pack_extents(const struct mr_catalog *catalog, int64_t index, struct mr_extent *extents_out);
void mr_catalog_pack_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size);
void mr_catalog_pack_which(const struct mr_catalog *catalog, int64_t index, char which_out[MR_CATALOG_WHICH]);
mr_status mr_catalog_pack_label(const struct mr_catalog *catalog, int64_t index, void *label_out, mr_error *error);

#endif
