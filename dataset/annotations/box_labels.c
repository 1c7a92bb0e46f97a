/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a sample's boxes outside a loader, for `millrace list` and explanations. */
#include "dataset/annotations/box_member.h"
#include "dataset/dataset.h"
#include "dataset/reader/reader.h"

#include <string.h>

static mr_status parse_read(const struct mr_catalog *catalog, const struct mr_read *read,
                            struct mr_box_list *boxes, mr_error *error)
{
    const struct mr_read_part *member = &read->part[0];
    mr_status status = MR_OK;
    if (read->status < 0) {
        mr_error_copy(error, read->error);
        return read->status;
    }
    if (mr_catalog_is_described(catalog))
        status = mr_catalog_verify_member(catalog, read->index, mr_catalog_kind(catalog)->boxes - 1,
                                          member->bytes, member->len, error);
    return status < 0
               ? status
               : mr_box_member_read(catalog, read->index, member->bytes, member->len, boxes, error);
}

static mr_status read_boxes(const struct mr_catalog *catalog, int64_t index,
                            struct mr_box_list *boxes, mr_error *error)
{
    const struct mr_reader_options options = {.kind = MR_READER_PREAD, .depth = 1};
    const struct mr_sample_kind *kind = mr_catalog_kind(catalog);
    struct mr_extent members[MR_MAX_MEMBERS];
    struct mr_part_list parts = {0};
    struct mr_reader *reader;
    struct mr_read read;
    mr_status status = mr_reader_create(catalog, &options, &reader, error);
    if (status < 0)
        return status;
    mr_catalog_members(catalog, index, members);
    mr_part_list_add(&parts, members[kind->boxes - 1], kind->extra[kind->boxes - 1].max_bytes,
                     MR_FOR_MEMBER);
    mr_reader_submit(reader, 0, index, &parts);
    status = mr_reader_reap(reader, true, &read)
                 ? parse_read(catalog, &read, boxes, error)
                 : mr_error_set(error, MR_ERR_IO, "the reader lost index %lld", (long long)index);
    mr_reader_destroy(reader);
    return status;
}

/* is_given: the caller's pointers are not NULL. */
static mr_status check_and_read(const mr_dataset *dataset, int64_t index, bool is_given,
                                struct mr_box_list *boxes, mr_error *error)
{
    if (!dataset || !is_given || index < 0 || index >= mr_dataset_n_samples(dataset))
        return mr_error_set(error, MR_ERR_INVALID,
                            "index %lld is out of range, or an argument is NULL", (long long)index);
    if (mr_dataset_kind(dataset)->boxes == 0)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "the samples have no boxes");
    return read_boxes(mr_dataset_catalog(dataset), index, boxes, error);
}

mr_status mr_dataset_box_labels(const mr_dataset *dataset, int64_t index, int64_t *labels_out,
                                size_t n, size_t *n_out, mr_error *error)
{
    struct mr_box_list boxes = {0};
    bool is_given = n_out && (n == 0 || labels_out);
    mr_status status = check_and_read(dataset, index, is_given, &boxes, error);
    for (uint32_t i = 0; status == MR_OK && i < boxes.n && i < n; i++)
        labels_out[i] = boxes.rows[i].label;
    if (status == MR_OK)
        *n_out = boxes.n;
    mr_box_list_fini(&boxes);
    return status;
}

mr_status mr_dataset_boxes(const mr_dataset *dataset, int64_t index, uint32_t width,
                           uint32_t height, float *boxes_out, size_t n, size_t *n_out,
                           mr_error *error)
{
    struct mr_box_list boxes = {0};
    bool is_given = n_out && (n == 0 || boxes_out);
    mr_status status = check_and_read(dataset, index, is_given, &boxes, error);
    mr_box_list_scale(&boxes, width, height);
    for (uint32_t i = 0; status == MR_OK && i < boxes.n && i < n; i++)
        memcpy(boxes_out + 4 * i, &boxes.rows[i], 4 * sizeof *boxes_out); /* the first fields */
    if (status == MR_OK)
        *n_out = boxes.n;
    mr_box_list_fini(&boxes);
    return status;
}
