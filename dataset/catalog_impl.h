/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the table share: table.c attaches it and answers for files and records, table_pack.c for packs. */
#ifndef DATASET_CATALOG_IMPL_H
#define DATASET_CATALOG_IMPL_H

#include <locale.h>

#include "dataset/pack_index.h"
#include "dataset/catalog.h"
#include "dataset/catalog_format.h"

struct mr_table {
    const struct mr_table_header *header;
    const char *names; /* the section, or the list file */
    size_t names_len;
    const uint64_t *index;
    int root;
    const void *beside; /* the list file or the pack's index, mapped beside the region; NULL: none */
    size_t beside_len;
    struct mr_pack_index pack;
    locale_t c_locale; /* numbers in lists */
};

const void *mr_table_section_at(const struct mr_table *table, enum mr_table_section which);

/* Of a pack: its index is what it was when the pack was opened. */
mr_status mr_table_pack_attach(struct mr_table *table, mr_error *error);
uint32_t mr_table_pack_extents(const struct mr_table *table, int64_t index, struct mr_extent *extents_out);
void mr_table_pack_name(const struct mr_table *table, int64_t index, char *name_out, size_t size);
void mr_table_pack_which(const struct mr_table *table, int64_t index, char which_out[MR_TABLE_WHICH]);
mr_status mr_table_pack_label(const struct mr_table *table, int64_t index, void *label_out, mr_error *error);

#endif
