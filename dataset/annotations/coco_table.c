/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts and searches the tables of a COCO annotation file. */
#include "dataset/annotations/coco_table.h"

#include <stdlib.h>
#include <string.h>

void mr_coco_table_fini(struct mr_coco_table *table)
{
    mr_bytes_fini(&table->images);
    mr_bytes_fini(&table->boxes);
    mr_bytes_fini(&table->categories);
    mr_bytes_fini(&table->names);
    mr_bytes_fini(&table->box_ids);
}

size_t mr_coco_table_n_images(const struct mr_coco_table *table)
{
    return table->images.len / sizeof(struct mr_coco_image);
}

size_t mr_coco_table_n_boxes(const struct mr_coco_table *table)
{
    return table->boxes.len / sizeof(struct mr_coco_box);
}

size_t mr_coco_table_n_categories(const struct mr_coco_table *table)
{
    return table->categories.len / sizeof(struct mr_coco_category);
}

const struct mr_coco_image *mr_coco_table_images(const struct mr_coco_table *table)
{
    return (const struct mr_coco_image *)(const void *)table->images.data;
}

const struct mr_coco_box *mr_coco_table_boxes(const struct mr_coco_table *table)
{
    return (const struct mr_coco_box *)(const void *)table->boxes.data;
}

const struct mr_coco_category *mr_coco_table_categories(const struct mr_coco_table *table)
{
    return (const struct mr_coco_category *)(const void *)table->categories.data;
}

const char *mr_coco_table_name(const struct mr_coco_table *table, uint64_t name)
{
    return (const char *)table->names.data + name;
}

/*
 * Entries begin with an int64 that they are sorted by. The order of equal ones stays: they are
 * merged from halves, and most files are sorted already.
 */
static int64_t key_of(const uint8_t *entry)
{
    int64_t key;
    memcpy(&key, entry, sizeof key);
    return key;
}

static void merge_halves(uint8_t *entries, size_t n, size_t size, uint8_t *spare)
{
    size_t half = n / 2, a = 0, b = half;
    if (n < 2)
        return;
    merge_halves(entries, half, size, spare);
    merge_halves(entries + half * size, n - half, size, spare);
    if (key_of(entries + (half - 1) * size) <= key_of(entries + half * size))
        return;
    memcpy(spare, entries, half * size);
    for (uint8_t *out = entries; a < half; out += size) {
        bool first = b == n || key_of(spare + a * size) <= key_of(entries + b * size);
        memcpy(out, first ? spare + a++ * size : entries + b++ * size, size);
    }
}

static mr_status sort_entries(struct mr_bytes *entries, size_t size, mr_error *error)
{
    size_t n = entries->len / size;
    uint8_t *spare = malloc(n / 2 * size + 1);
    if (!spare)
        return mr_error_memory(error, n / 2 * size);
    merge_halves(entries->data, n, size, spare);
    free(spare);
    return MR_OK;
}

static void keep_last(struct mr_bytes *entries, size_t size)
{
    size_t n = entries->len / size, kept = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *entry = entries->data + i * size;
        if (i + 1 < n && key_of(entry) == key_of(entry + size))
            continue;
        memmove(entries->data + kept++ * size, entry, size);
    }
    entries->len = kept * size;
}

/* Boxes with one id become the last of them. Each stays with its image. */
static mr_status use_last_boxes(struct mr_coco_table *table, mr_error *error)
{
    mr_status status = sort_entries(&table->box_ids, sizeof(struct mr_coco_box_id), error);
    const struct mr_coco_box_id *ids = (const void *)table->box_ids.data;
    struct mr_coco_box *boxes = (void *)table->boxes.data;
    size_t n = table->box_ids.len / sizeof *ids;
    for (size_t i = n; status == MR_OK && i-- > 1;) {
        if (ids[i - 1].id != ids[i].id)
            continue;
        int64_t image = boxes[ids[i - 1].box].image;
        boxes[ids[i - 1].box] = boxes[ids[i].box];
        boxes[ids[i - 1].box].image = image;
    }
    mr_bytes_fini(&table->box_ids);
    return status;
}

mr_status mr_coco_table_sort(struct mr_coco_table *table, mr_error *error)
{
    mr_status status = sort_entries(&table->images, sizeof(struct mr_coco_image), error);
    if (status == MR_OK)
        status = sort_entries(&table->categories, sizeof(struct mr_coco_category), error);
    if (status == MR_OK)
        status = use_last_boxes(table, error);
    if (status == MR_OK)
        status = sort_entries(&table->boxes, sizeof(struct mr_coco_box), error);
    keep_last(&table->images, sizeof(struct mr_coco_image));
    keep_last(&table->categories, sizeof(struct mr_coco_category));
    return status;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = key_of(a), y = key_of(b);
    return (x > y) - (x < y);
}

int64_t mr_coco_table_find_category(const struct mr_coco_table *table, int64_t id)
{
    const struct mr_coco_category *categories = mr_coco_table_categories(table), *found = NULL;
    if (categories)
        found =
            bsearch(&id, categories, mr_coco_table_n_categories(table), sizeof *found, compare_ids);
    return found ? found - categories : -1;
}
