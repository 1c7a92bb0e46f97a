/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of whole documents: a sample is one sequence of the index of Megatron-Core, which is
 * mapped beside the region, up to the longest row that is allowed. Or rows are packed of these
 * documents: the catalog has their lengths, and finds the pieces that the sampler has planned.
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

/* Packing decides itself how much of a document is in a row. */
static uint64_t row_length(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_sample_kind *kind = &catalog->header->kind;
    return count_ids(catalog, index, kind->pack != MR_PACK_NONE ? UINT64_MAX : kind->tokens);
}

/* The pieces of a packed row are the sampler's. */
static void begin_pieces(const struct mr_catalog *catalog, int64_t index,
                         struct mr_piece_walk *walk_out)
{
    (void)catalog;
    *walk_out = (struct mr_piece_walk){.index = index};
}

/* They come through shared memory and are not trusted. */
static bool next_piece(const struct mr_catalog *catalog, struct mr_piece_walk *walk,
                       struct mr_extent *piece_out)
{
    if (walk->n_pieces == 0)
        return false;
    const struct mr_token_piece *piece = walk->pieces++;
    const struct mr_megatron_index idx = find_index(catalog);
    const uint64_t size = mr_dtype_size(catalog->header->kind.dtype);
    walk->n_pieces--;
    if (piece->document >= idx.n_sequences ||
        (uint64_t)piece->from + piece->len > mr_megatron_length(&idx, piece->document))
        return false;
    *piece_out = (struct mr_extent){.offset = mr_megatron_pointer(&idx, piece->document) +
                                              piece->from * size,
                                    .len = piece->len * size};
    return true;
}

static struct mr_extent row_extent(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_sample_kind *kind = &catalog->header->kind;
    const struct mr_megatron_index idx = find_index(catalog);
    const uint64_t most = kind->pack != MR_PACK_NONE ? UINT64_MAX : (uint64_t)kind->shape[0];
    return (struct mr_extent){.offset = mr_megatron_pointer(&idx, (uint64_t)index),
                              .len = count_ids(catalog, index, most) * mr_dtype_size(kind->dtype)};
}

static void row_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    char suffix[24];
    snprintf(suffix, sizeof suffix, "#%" PRId64, index);
    mr_catalog_region_name(catalog, index, 0, suffix, name_out, size);
}

/* If documents are packed, it is the index of a row to a loader, and of a document to others. */
static void describe_row(const struct mr_catalog *catalog, int64_t index, const uint64_t *file,
                         char which_out[MR_CATALOG_DESCRIPTION])
{
    char name[MR_CATALOG_DESCRIPTION - 40];
    const bool is_packed = catalog->header->kind.pack != MR_PACK_NONE;
    (void)file;
    if (is_packed)
        mr_catalog_region_name(catalog, index, 0, "", name, sizeof name);
    else
        row_name(catalog, index, name, sizeof name);
    snprintf(which_out, MR_CATALOG_DESCRIPTION, "%s (%s %" PRId64 ")", name,
             is_packed ? "packed, index" : "index", index);
}

const struct mr_catalog_ops mr_catalog_sequences_ops = {
    .beside = "the .idx of the tokens",
    .is_watched = true,
    .is_sound = has_index,
    .image = row_extent,
    .begin_pieces = begin_pieces,
    .next_piece = next_piece,
    .length = row_length,
    .path = mr_catalog_region_plain_path,
    .name = row_name,
    .which = describe_row,
    .label = mr_catalog_region_no_label,
};
