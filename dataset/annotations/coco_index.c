/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a COCO annotation file: a header, images, boxes, categories and names, all under one
 * checksum.
 *
 * Invariant: its content is not trusted. Names must be inside and end, and categories must be
 * sorted; everything else may have any value.
 */
#include "dataset/annotations/coco_index.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/annotations/coco_json.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"

#define MAGIC 0x316f636f434d8dddu
enum { VERSION = 2, N_PARTS = 4 };

struct index_header {
    uint64_t magic;
    uint64_t version;
    struct mr_index_place_stamp stamp;
    uint64_t lens[N_PARTS];
    uint64_t checksum; /* of everything before and after this field */
};

struct loading {
    struct mr_index_place_stamp stamp;
    struct mr_coco_table *table;
};

static void list_parts(struct mr_coco_table *table, struct mr_bytes *parts_out[N_PARTS])
{
    parts_out[0] = &table->images;
    parts_out[1] = &table->boxes;
    parts_out[2] = &table->categories;
    parts_out[3] = &table->names;
}

static uint64_t compute_checksum(const struct index_header *header, const uint8_t *rest, size_t len)
{
    return mr_xxh3_pair(header, offsetof(struct index_header, checksum), rest, len);
}

static bool tables_fit(const struct mr_coco_table *table)
{
    const struct mr_coco_category *categories = mr_coco_table_categories(table);
    uint64_t len = table->names.len;
    bool fit = len == 0 || table->names.data[len - 1] == '\0';
    for (size_t i = 0; fit && i < mr_coco_table_n_images(table); i++)
        fit = mr_coco_table_images(table)[i].name < len;
    for (size_t i = 0; fit && i < mr_coco_table_n_categories(table); i++)
        fit = categories[i].name < len && (i == 0 || categories[i - 1].id < categories[i].id);
    return fit;
}

static bool header_fits(const struct index_header *header, const uint8_t *rest, size_t len,
                        const struct mr_index_place_stamp *stamp)
{
    static const size_t sizes[N_PARTS] = {sizeof(struct mr_coco_image), sizeof(struct mr_coco_box),
                                          sizeof(struct mr_coco_category), 1};
    uint64_t all = 0;
    for (int i = 0; i < N_PARTS; i++)
        if (header->lens[i] % sizes[i] != 0 || !mr_checked_add_u64(all, header->lens[i], &all))
            return false;
    return header->magic == MAGIC && header->version == VERSION &&
           mr_index_place_same(&header->stamp, stamp) && all == len &&
           header->checksum == compute_checksum(header, rest, len);
}

static bool take_index(void *user, const uint8_t *bytes, size_t len)
{
    struct loading *loading = user;
    struct index_header header;
    struct mr_bytes *parts[N_PARTS];
    if (len < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    bytes += sizeof header;
    if (!header_fits(&header, bytes, len - sizeof header, &loading->stamp))
        return false;
    list_parts(loading->table, parts);
    bool good = true;
    for (int i = 0; good && i < N_PARTS; bytes += header.lens[i++])
        good = mr_bytes_append(parts[i], bytes, header.lens[i], NULL) == MR_OK;
    good = good && tables_fit(loading->table);
    if (!good)
        mr_coco_table_fini(loading->table);
    return good;
}

static void save_index(const struct mr_index_place_key *key,
                       const struct mr_index_place_stamp *stamp, struct mr_coco_table *table)
{
    struct index_header header = {.magic = MAGIC, .version = VERSION, .stamp = *stamp};
    struct mr_bytes *parts[N_PARTS], file = {0};
    if (mr_index_place_is_fresh(stamp))
        return;
    list_parts(table, parts);
    bool good = mr_bytes_append(&file, &header, sizeof header, NULL) == MR_OK;
    for (int i = 0; good && i < N_PARTS; i++) {
        header.lens[i] = parts[i]->len;
        good = mr_bytes_append(&file, parts[i]->data, parts[i]->len, NULL) == MR_OK;
    }
    if (good) {
        header.checksum =
            compute_checksum(&header, file.data + sizeof header, file.len - sizeof header);
        memcpy(file.data, &header, sizeof header);
        mr_index_place_save(key, &file);
    }
    mr_bytes_fini(&file);
}

static mr_status parse_file(int fd, const char *path, struct mr_coco_table *table, mr_error *error)
{
    mr_status status = mr_coco_json_parse(fd, path, table, error);
    return status < 0 ? status : mr_coco_table_sort(table, error);
}

static mr_status read_local(struct mr_index_place_key *key, const char *path,
                            struct mr_coco_table *table, mr_error *error)
{
    char absolute[PATH_MAX];
    struct stat st;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, &st);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "cannot open the annotations %s", path);
    key->path = absolute;
    if (!realpath(path, absolute))
        key->place = MR_INDEX_NONE;
    struct loading loading = {mr_index_place_describe(&st), table};
    mr_status status = MR_OK;
    if (!mr_index_place_load(key, take_index, &loading)) {
        status = parse_file(fd, path, table, error);
        struct mr_index_place_stamp now = loading.stamp;
        if (status == MR_OK && fstat(fd, &st) == 0)
            now = mr_index_place_describe(&st);
        if (status == MR_OK && mr_index_place_same(&now, &loading.stamp))
            save_index(key, &now, table);
    }
    close(fd);
    return status;
}

/* The file is copied into memory. All of it is of one version. */
static mr_status read_remote(struct mr_index_place_key *key, const char *url,
                             struct mr_coco_table *table, mr_error *error)
{
    char shown[MR_CATALOG_PATH];
    struct mr_object *object;
    struct stat st;
    int fd;
    mr_status status = mr_url_check(url, error);
    if (status == MR_OK)
        status = mr_object_open(url, NULL, &object, error);
    if (status < 0)
        return status;
    snprintf(shown, sizeof shown, "%.*s", (int)mr_url_shown_len(url), url);
    key->path = shown;
    if (!mr_object_stat(object, &st))
        key->place = MR_INDEX_NONE; /* another version might look the same */
    struct loading loading = {mr_index_place_describe(&st), table};
    if (!mr_index_place_load(key, take_index, &loading)) {
        status = mr_object_load(object, "millrace-coco", &fd, error);
        if (status == MR_OK) {
            status = parse_file(fd, shown, table, error);
            close(fd);
        }
        if (status == MR_OK)
            save_index(key, &loading.stamp, table);
    }
    mr_object_close(object);
    return status;
}

mr_status mr_coco_index_read(enum mr_index_place place, const char *path,
                             struct mr_coco_table *table_out, mr_error *error)
{
    struct mr_index_place_key key = {.place = place, .root = AT_FDCWD, .recipe = "coco"};
    return mr_url_is(path) ? read_remote(&key, path, table_out, error)
                           : read_local(&key, path, table_out, error);
}
