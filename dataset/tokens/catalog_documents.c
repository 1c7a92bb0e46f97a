/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of rows that are cut from joined documents: a row is one or more pieces of one file.
 * The index of Megatron-Core is mapped beside the region, and says where each document is.
 */
#include <inttypes.h>
#include <stdio.h>

#include "dataset/catalog.h"
#include "dataset/catalog_region.h"
#include "dataset/tokens/document_rows.h"
#include "dataset/tokens/megatron_index.h"

static uint64_t count_documents(const struct mr_catalog *catalog)
{
    return mr_catalog_region_len(catalog, MR_SECTION_DOCUMENTS) / sizeof(uint32_t);
}

static bool has_places(const struct mr_catalog *catalog)
{
    const struct mr_catalog_header *header = catalog->header;
    uint64_t n_places = mr_catalog_region_len(catalog, MR_SECTION_PLACES);
    return header->n_samples > 0 && count_documents(catalog) > 0 &&
           mr_catalog_region_len(catalog, MR_SECTION_SHUFFLE) / sizeof(uint32_t) >=
               header->n_samples &&
           n_places / sizeof(struct mr_token_place) > (header->n_samples - 1) / MR_TOKEN_STEP;
}

static struct mr_extent row_extent(const struct mr_catalog *catalog, int64_t index)
{
    (void)index;
    return (struct mr_extent){.file = MR_FILE_PIECES, .len = catalog->header->kind.data_bytes};
}

/* The index was checked when the dataset was opened; n_sequences is kept in case it changes. */
static struct mr_megatron_index find_index(const struct mr_catalog *catalog)
{
    return (struct mr_megatron_index){.map = catalog->beside,
                                      .n_sequences = catalog->header->record.part_len[0]};
}

/* Tokens of a document from the walk's place to its end. */
static uint64_t tokens_left(const struct mr_catalog *catalog, const struct mr_piece_walk *walk)
{
    const uint32_t *documents = mr_catalog_region_section(catalog, MR_SECTION_DOCUMENTS);
    const struct mr_megatron_index index = find_index(catalog);
    uint64_t length = mr_megatron_length(&index, documents[walk->document]);
    return length > walk->offset ? length - walk->offset : 0;
}

/* Go n tokens forward, not beyond the begin of the last row. */
static void skip_tokens(const struct mr_catalog *catalog, uint64_t n, struct mr_piece_walk *walk)
{
    const struct mr_sample_kind *kind = &catalog->header->kind;
    const uint64_t extra = (uint64_t)kind->shape[0] - kind->tokens;
    uint64_t left;
    while ((left = tokens_left(catalog, walk)) <= n &&
           walk->document + 1 < count_documents(catalog)) {
        n -= left;
        walk->document++;
        walk->offset = 0;
    }
    left = left > extra ? left - extra : 0;
    walk->offset += walk->document + 1 < count_documents(catalog) || n < left ? n : left;
}

static void begin_pieces(const struct mr_catalog *catalog, int64_t index,
                         struct mr_piece_walk *walk_out)
{
    const uint32_t *shuffle = mr_catalog_region_section(catalog, MR_SECTION_SHUFFLE);
    const struct mr_token_place *places = mr_catalog_region_section(catalog, MR_SECTION_PLACES);
    const struct mr_sample_kind *kind = &catalog->header->kind;
    const uint32_t row = shuffle[index];
    const struct mr_token_place *place = &places[row / MR_TOKEN_STEP];
    *walk_out = (struct mr_piece_walk){.index = index,
                                       .document = place->document,
                                       .offset = place->offset,
                                       .n_left = (uint64_t)kind->shape[0]};
    skip_tokens(catalog, (uint64_t)(row % MR_TOKEN_STEP) * kind->tokens, walk_out);
}

static bool next_piece(const struct mr_catalog *catalog, struct mr_piece_walk *walk,
                       struct mr_extent *piece_out)
{
    const uint32_t *documents = mr_catalog_region_section(catalog, MR_SECTION_DOCUMENTS);
    const struct mr_megatron_index index = find_index(catalog);
    const uint64_t size = mr_dtype_size(catalog->header->kind.dtype);
    for (; walk->n_left > 0 && walk->document < count_documents(catalog);
         walk->document++, walk->offset = 0) {
        uint64_t n = tokens_left(catalog, walk);
        n = n < walk->n_left ? n : walk->n_left;
        if (n == 0)
            continue;
        uint64_t begin = mr_megatron_pointer(&index, documents[walk->document]);
        *piece_out = (struct mr_extent){.offset = begin + walk->offset * size, .len = n * size};
        walk->n_left -= n;
        walk->document++;
        walk->offset = 0;
        return true;
    }
    return false;
}

static void row_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    char suffix[24];
    snprintf(suffix, sizeof suffix, "#%" PRId64, index);
    mr_catalog_region_name(catalog, index, 0, suffix, name_out, size);
}

const struct mr_catalog_ops mr_catalog_documents_ops = {
    .beside = "the .idx of the tokens",
    .is_watched = true,
    .is_sound = has_places,
    .image = row_extent,
    .begin_pieces = begin_pieces,
    .next_piece = next_piece,
    .path = mr_catalog_region_plain_path,
    .name = row_name,
    .label = mr_catalog_region_no_label,
};
