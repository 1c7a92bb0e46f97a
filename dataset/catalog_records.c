/* SPDX-License-Identifier: Apache-2.0 */
/* The scheme of records: many samples of one size per file, each with its label near its data. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dataset/catalog.h"
#include "dataset/catalog_region.h"

static bool has_starts(const struct mr_catalog *catalog)
{
    return mr_catalog_region_len(catalog, MR_SECTION_STARTS) / sizeof(uint64_t) >
           catalog->header->n_files;
}

static uint64_t find_file(const struct mr_catalog *catalog, int64_t index, uint64_t *record_out)
{
    const uint64_t *starts = mr_catalog_region_section(catalog, MR_SECTION_STARTS);
    uint64_t file = mr_catalog_region_last(starts, catalog->header->n_files, 1, (uint64_t)index);
    *record_out = (uint64_t)index - starts[file];
    return file;
}

/*
 * Offset of a part of a record in its file. It cannot overflow: the file was larger than this when
 * it was opened.
 */
static uint64_t part_start(const struct mr_catalog_record *record, uint64_t number,
                           int64_t part_off)
{
    return record->header + number * record->stride + (uint64_t)part_off;
}

static struct mr_extent part_extent(const struct mr_catalog *catalog, int64_t index, uint64_t part)
{
    const struct mr_catalog_record *record = &catalog->header->record;
    uint64_t number, file = find_file(catalog, index, &number);
    return (struct mr_extent){.file = file,
                              .offset = part_start(record, number, record->part_off[part]),
                              .len = record->part_len[part]};
}

/* The data, and all of a record that is one part. */
static struct mr_extent data_extent(const struct mr_catalog *catalog, int64_t index)
{
    return part_extent(catalog, index, 0);
}

static bool label_extent(const struct mr_catalog *catalog, int64_t index,
                         struct mr_extent *extent_out)
{
    if (catalog->header->record.n_parts < 2)
        return false;
    *extent_out = part_extent(catalog, index, 1);
    return true;
}

static void record_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                        size_t size)
{
    uint64_t number, file = find_file(catalog, index, &number);
    char suffix[24];
    snprintf(suffix, sizeof suffix, "#%" PRIu64, number);
    mr_catalog_region_name(catalog, index, file, suffix, name_out, size);
}

static void widen_label(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                        void *label_out)
{
    (void)index;
    const struct mr_catalog_record *record = &catalog->header->record;
    if (!record->widen) {
        memcpy(label_out, bytes, record->label_len);
        return;
    }
    uint64_t value = 0;
    for (uint64_t i = record->label_len; i-- > 0;)
        value = value << 8 | bytes[i];
    int64_t label = record->label_len == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
    memcpy(label_out, &label, sizeof label);
}

static mr_status locate_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                              struct mr_extent *extent_out, mr_error *error)
{
    (void)error;
    const struct mr_catalog_record *record = &catalog->header->record;
    if (record->label_len == 0) {
        memset(label_out, 0, catalog->header->kind.label_bytes);
        return MR_OK;
    }
    uint64_t part = record->n_parts - 1, number; /* the label is in the last part */
    uint64_t file = find_file(catalog, index, &number);
    uint64_t in_part = record->label_at - (part ? record->part_len[0] : 0);
    *extent_out =
        (struct mr_extent){.file = file,
                           .offset = part_start(record, number, record->part_off[part]) + in_part,
                           .len = record->label_len};
    return MR_PENDING;
}

static mr_status split_record(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                              size_t len, const uint8_t *label, const uint8_t **data_out,
                              size_t *data_len_out, void *label_out, mr_error *error)
{
    const struct mr_catalog_record *record = &catalog->header->record;
    if (len < record->part_len[0]) {
        char which[MR_CATALOG_DESCRIPTION];
        mr_catalog_describe(catalog, index, which);
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %zu bytes were read, but a record has %" PRIu64, which, len,
                            record->part_len[0]);
    }
    *data_out = bytes + record->data_at;
    *data_len_out = catalog->header->kind.data_bytes;
    if (record->label_len == 0)
        memset(label_out, 0, catalog->header->kind.label_bytes);
    else
        widen_label(catalog, index,
                    label ? label + (record->label_at - record->part_len[0])
                          : bytes + record->label_at,
                    label_out);
    return MR_OK;
}

const struct mr_catalog_ops mr_catalog_records_ops = {
    .is_sound = has_starts,
    .image = data_extent,
    .label_extent = label_extent,
    .path = mr_catalog_region_plain_path,
    .name = record_name,
    .label = locate_label,
    .widen = widen_label,
    .split = split_record,
};
