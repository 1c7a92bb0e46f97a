/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boxes of a sample, from the bytes of its member kind.boxes. The first bytes tell the format:
 * rows of struct mr_box_row after MR_BOX_ROWS_MAGIC, an annotation of VOC that begins with '<', or
 * the lines of a darknet label file. With MR_ANNOTATIONS_VOC they are always XML.
 */
#ifndef DATASET_ANNOTATIONS_BOX_MEMBER_H
#define DATASET_ANNOTATIONS_BOX_MEMBER_H

#include "base/box_list.h"
#include "dataset/catalog.h"

/* 8 bytes before little-endian rows: not a text that any of the other formats begins with. */
#define MR_BOX_ROWS_MAGIC                                                                          \
    "\x89"                                                                                         \
    "BOXES\r\n"
enum { MR_BOX_ROWS_HEAD = 8 };

/*
 * Replace the content of *list_out by the boxes of the sample. No bytes are no boxes, but damage
 * with MR_ANNOTATIONS_VOC. Returns MR_OK; MR_ERR_DAMAGED, with the names of the file and the line;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_box_member_read(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                             size_t len, struct mr_box_list *list_out, mr_error *error);

#endif
