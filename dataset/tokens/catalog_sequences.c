/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of whole documents: a sample is one sequence of the index of Megatron-Core, which is
 * mapped beside the region, up to the longest row that is allowed.
 */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/catalog.h"
#include "dataset/catalog_region.h"
#include "dataset/tokens/megatron_index.h"

static bool has_index(const struct mr_catalog *catalog)
{
    const struct mr_catalog_header *header = catalog->header;
    return header->n_samples > 0 && header->names_file_bytes >= MR_MEGATRON_HEADER &&
           header->n_samples <= (header->names_file_bytes - MR_MEGATRON_HEADER) / 12;
}

/* The index was checked when the dataset was opened. */
static struct mr_megatron_index find_index(const struct mr_catalog *catalog)
{
    return (struct mr_megatron_index){.map = catalog->beside,
                                      .n_sequences = catalog->header->n_samples};
}

static uint64_t count_ids(const struct mr_catalog *catalog, int64_t index, uint64_t most)
{
    const struct mr_megatron_index idx = find_index(catalog);
    uint64_t length = mr_megatron_length(&idx, (uint64_t)index);
    return length < most ? length : most;
}

static uint64_t row_length(const struct mr_catalog *catalog, int64_t index)
{
    return count_ids(catalog, index, catalog->header->kind.tokens);
}

static struct mr_extent row_extent(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_sample_kind *kind = &catalog->header->kind;
    const struct mr_megatron_index idx = find_index(catalog);
    return (struct mr_extent){.offset = mr_megatron_pointer(&idx, (uint64_t)index),
                              .len = count_ids(catalog, index, (uint64_t)kind->shape[0]) *
                                     mr_dtype_size(kind->dtype)};
}

static void row_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    char suffix[24];
    snprintf(suffix, sizeof suffix, "#%" PRId64, index);
    mr_catalog_region_name(catalog, index, 0, suffix, name_out, size);
}

const struct mr_catalog_ops mr_catalog_sequences_ops = {
    .beside = "the .idx of the tokens",
    .is_watched = true,
    .is_sound = has_index,
    .image = row_extent,
    .length = row_length,
    .path = mr_catalog_region_plain_path,
    .name = row_name,
    .label = mr_catalog_region_no_label,
};
