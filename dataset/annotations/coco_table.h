/* SPDX-License-Identifier: Apache-2.0 */
/* What a COCO annotation file holds about images, boxes and categories. */
#ifndef DATASET_ANNOTATIONS_COCO_TABLE_H
#define DATASET_ANNOTATIONS_COCO_TABLE_H

#include <stdbool.h>

#include "base/box_list.h"
#include "base/bytes.h"

/* These structs are stored in index files. */
struct mr_coco_image {
    int64_t id;
    uint64_t name;          /* offset of file_name in names */
    uint32_t width, height; /* 0: not stated */
};

struct mr_coco_box {
    int64_t image; /* id */
    struct mr_box_row row;
    uint64_t is_thin; /* 1: a side is at most 1, in float64 */
};

struct mr_coco_box_id {
    int64_t id;
    uint64_t box; /* its place in boxes, before they are sorted */
};

struct mr_coco_category {
    int64_t id;
    uint64_t name; /* offset in names */
};

struct mr_coco_table {
    struct mr_bytes images;     /* struct mr_coco_image */
    struct mr_bytes boxes;      /* struct mr_coco_box */
    struct mr_bytes categories; /* struct mr_coco_category */
    struct mr_bytes names;      /* NUL-terminated */
    struct mr_bytes box_ids; /* struct mr_coco_box_id, of the boxes that have an id; not stored */
};

void mr_coco_table_fini(struct mr_coco_table *table);

/*
 * Sort images and categories by id; of equal ids the last stays, as in pycocotools, where boxes
 * with one id all become the last. Sort the boxes by image, in the order of the file.
 */
mr_status mr_coco_table_sort(struct mr_coco_table *table, mr_error *error);

size_t mr_coco_table_n_images(const struct mr_coco_table *table);
size_t mr_coco_table_n_boxes(const struct mr_coco_table *table);
size_t mr_coco_table_n_categories(const struct mr_coco_table *table);
const struct mr_coco_image *mr_coco_table_images(const struct mr_coco_table *table);
const struct mr_coco_box *mr_coco_table_boxes(const struct mr_coco_table *table);
const struct mr_coco_category *mr_coco_table_categories(const struct mr_coco_table *table);
const char *mr_coco_table_name(const struct mr_coco_table *table, uint64_t name);

/* The place of a category among the sorted ones; -1: there is no such category. */
int64_t mr_coco_table_find_category(const struct mr_coco_table *table, int64_t id);

#endif
