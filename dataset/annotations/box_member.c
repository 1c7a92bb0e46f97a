/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the formats of boxes apart, and reads rows as they are. */
#include "dataset/annotations/box_member.h"

#include <string.h>

#include <millrace/dataset.h>

#include "dataset/annotations/annotation.h"
#include "dataset/annotations/voc_xml.h"
#include "dataset/annotations/yolo_label.h"

static mr_status read_rows(const struct mr_annotation *annotation, struct mr_box_list *list,
                           mr_error *error)
{
    size_t len = annotation->len - MR_BOX_ROWS_HEAD;
    if (len % sizeof(struct mr_box_row) != 0)
        return mr_annotation_fail(annotation, 0, error, "%zu bytes are not rows of %zu", len,
                                  sizeof(struct mr_box_row));
    for (size_t at = 0; at < len; at += sizeof(struct mr_box_row)) {
        struct mr_box_row *row;
        mr_status status = mr_box_list_add(list, &row, error);
        if (status < 0)
            return status;
        memcpy(row, annotation->bytes + MR_BOX_ROWS_HEAD + at, sizeof *row);
    }
    return MR_OK;
}

/* White space may be before XML, and the mark that some editors write before UTF-8. */
static bool is_xml(const uint8_t *bytes, size_t len)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    size_t at = len >= sizeof mark && memcmp(bytes, mark, sizeof mark) == 0 ? sizeof mark : 0;
    while (at < len && (bytes[at] == ' ' || (bytes[at] >= '\t' && bytes[at] <= '\r')))
        at++;
    return at < len && bytes[at] == '<';
}

mr_status mr_box_member_read(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                             size_t len, struct mr_box_list *list_out, mr_error *error)
{
    struct mr_annotation annotation = {catalog, index, bytes, len};
    mr_box_list_clear(list_out);
    if (len >= MR_BOX_ROWS_HEAD && memcmp(bytes, MR_BOX_ROWS_MAGIC, MR_BOX_ROWS_HEAD) == 0)
        return read_rows(&annotation, list_out, error);
    return mr_catalog_kind(catalog)->annotations == MR_ANNOTATIONS_VOC || is_xml(bytes, len)
               ? mr_voc_xml_parse(&annotation, list_out, error)
               : mr_yolo_label_parse(&annotation, list_out, error);
}
