/* SPDX-License-Identifier: Apache-2.0 */
/* The scheme of tokens: many rows per file, which may overlap. A row has no label of its own. */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/catalog.h"
#include "dataset/catalog_region.h"
#include "dataset/tokens/token_rows.h"

static uint64_t count_runs(const struct mr_catalog *catalog)
{
    return mr_catalog_region_len(catalog, MR_SECTION_ROWS) / sizeof(struct mr_token_rows);
}

static bool has_rows(const struct mr_catalog *catalog)
{
    return count_runs(catalog) > 0;
}

/* The run of a row. *nth_out: its number in the run. */
static const struct mr_token_rows *find_rows(const struct mr_catalog *catalog, int64_t index,
                                             uint64_t *nth_out)
{
    const struct mr_token_rows *rows = mr_catalog_region_section(catalog, MR_SECTION_ROWS);
    rows += mr_catalog_region_last(&rows->first_row, count_runs(catalog),
                                   sizeof *rows / sizeof(uint64_t), (uint64_t)index);
    *nth_out = (uint64_t)index - rows->first_row;
    return rows;
}

/* It cannot overflow: the file was larger than this when it was opened. */
static struct mr_extent row_extent(const struct mr_catalog *catalog, int64_t index)
{
    uint64_t nth;
    const struct mr_token_rows *rows = find_rows(catalog, index, &nth);
    return (struct mr_extent){.file = rows->file,
                              .offset = rows->offset + nth / rows->n_each * rows->distance +
                                        nth % rows->n_each * catalog->header->record.stride,
                              .len = catalog->header->kind.data_bytes};
}

/* FILE#ROW, as records have it. */
static void row_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    uint64_t nth;
    const struct mr_token_rows *rows = find_rows(catalog, index, &nth);
    char suffix[24];
    snprintf(suffix, sizeof suffix, "#%" PRIu64, rows->first_in_file + nth);
    mr_catalog_region_name(catalog, index, rows->file, suffix, name_out, size);
}

const struct mr_catalog_ops mr_catalog_tokens_ops = {
    .is_sound = has_rows,
    .image = row_extent,
    .path = mr_catalog_region_plain_path,
    .name = row_name,
    .label = mr_catalog_region_no_label,
};
