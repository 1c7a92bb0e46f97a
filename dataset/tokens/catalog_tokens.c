/* SPDX-License-Identifier: Apache-2.0 */
/* The scheme of tokens: many rows per file, which may overlap. A row has no label of its own. */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/catalog.h"
#include "dataset/catalog_region.h"

static bool has_starts(const struct mr_catalog *catalog)
{
    uint64_t n = catalog->header->n_files;
    return mr_catalog_region_len(catalog, MR_SECTION_STARTS) / sizeof(uint64_t) > n &&
           mr_catalog_region_len(catalog, MR_SECTION_OFFSETS) / sizeof(uint64_t) >= n;
}

static uint64_t find_file(const struct mr_catalog *catalog, int64_t index, uint64_t *row_out)
{
    const uint64_t *starts = mr_catalog_region_section(catalog, MR_SECTION_STARTS);
    uint64_t file = mr_catalog_region_last(starts, catalog->header->n_files, 1, (uint64_t)index);
    *row_out = (uint64_t)index - starts[file];
    return file;
}

/* It cannot overflow: the file was larger than this when it was opened. */
static struct mr_extent row_extent(const struct mr_catalog *catalog, int64_t index)
{
    const uint64_t *offsets = mr_catalog_region_section(catalog, MR_SECTION_OFFSETS);
    uint64_t row, file = find_file(catalog, index, &row);
    return (struct mr_extent){.file = file,
                              .offset = offsets[file] + row * catalog->header->record.stride,
                              .len = catalog->header->kind.data_bytes};
}

/* FILE#ROW, as records have it. */
static void row_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    uint64_t row, file = find_file(catalog, index, &row);
    char suffix[24];
    snprintf(suffix, sizeof suffix, "#%" PRIu64, row);
    mr_catalog_region_name(catalog, index, file, suffix, name_out, size);
}

const struct mr_catalog_ops mr_catalog_tokens_ops = {
    .is_sound = has_starts,
    .image = row_extent,
    .path = mr_catalog_region_plain_path,
    .name = row_name,
    .label = mr_catalog_region_no_label,
};
