/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an annotation: no crash, nothing is read past the end, and what is not accepted is
 * damage with one line of text. The first byte says what the others are: (v) XML of VOC, (y) a
 * label file of darknet, (j) annotations of COCO, (i) an index of these, (m) a mask. Random bytes
 * would fail the checksums of indexes and masks, so these are made right.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/xxh3.h"
#include "dataset/annotations/box_member.h"
#include "dataset/annotations/coco_table.h"
#include "dataset/catalog_format.h"
#include "dataset/dataset.h"
#include "dataset/index_place.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/folder.h"
#include "transforms/codec_png.h"

enum { INDEX_STAMP_END = 40, N_PARTS = 4, SPEC_BYTES = 8192, MAX_SIDE = 256 };

static char folder[4096];
static struct mr_box_list list;

static void expect_line(mr_status status, const mr_error *error)
{
    require(status == MR_OK || status == MR_ERR_DAMAGED, "neither boxes nor damage");
    require(status == MR_OK || (error->text[0] && !strchr(error->text, '\n')),
            "no line says what is wrong");
}

static mr_dataset *open_good(const char *spec)
{
    mr_dataset *dataset;
    mr_error error = {0};
    require(mr_dataset_open(spec, NULL, &dataset, &error) == MR_OK, error.text);
    return dataset;
}

/* The datasets whose annotations are files of their own, with one sample each. */
static mr_dataset *open_listed(bool is_voc)
{
    static mr_dataset *datasets[2];
    char path[SPEC_BYTES];
    if (datasets[is_voc])
        return datasets[is_voc];
    if (is_voc) {
        snprintf(path, sizeof path, "%s/ImageSets", folder);
        require(mkdir(path, 0777) == 0, path);
        snprintf(path, sizeof path, "%s/ImageSets/Main", folder);
        require(mkdir(path, 0777) == 0, path);
    }
    mr_test_folder_write(folder, is_voc ? "ImageSets/Main/train.txt" : "list.txt", "a\n", 2);
    snprintf(path, sizeof path, is_voc ? "voc:%s" : "yolo:%s/list.txt", folder);
    return datasets[is_voc] = open_good(path);
}

static void try_member(bool is_voc, const uint8_t *bytes, size_t len)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(open_listed(is_voc));
    mr_error error = {0};
    mr_status status = mr_box_member_read(catalog, 0, bytes, len, &list, &error);
    expect_line(status, &error);
    bool has_rows = len >= MR_BOX_ROWS_HEAD && memcmp(bytes, MR_BOX_ROWS_MAGIC, 8) == 0;
    for (uint32_t i = 0; status == MR_OK && !has_rows && i < list.n; i++)
        require(list.rows[i].label >= 0 && list.rows[i].x1 - list.rows[i].x1 == 0 &&
                    (!is_voc || list.rows[i].label < mr_catalog_n_classes(catalog)),
                "a box has no class or is not finite");
}

static void walk_coco(const mr_dataset *dataset)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    for (int64_t i = 0; i < mr_dataset_n_samples(dataset); i++) {
        struct mr_extent members[MR_MAX_MEMBERS];
        char path[MR_CATALOG_PATH];
        int64_t id;
        mr_catalog_members(catalog, i, members);
        require(mr_box_member_read(catalog, i, mr_catalog_memory(catalog, members),
                                   (size_t)members[0].len, &list, NULL) == MR_OK,
                "boxes in the catalog are damaged");
        require(mr_catalog_path(catalog, (uint64_t)i, path) == 0, "a path is wrong");
        require(mr_dataset_label(dataset, i, &id, NULL) == MR_OK, "an id is wrong");
        (void)mr_catalog_stated_size(catalog, i);
    }
}

static void open_coco(const char *annotations, const char *keys)
{
    char spec[SPEC_BYTES];
    mr_dataset *dataset;
    mr_error error = {0};
    snprintf(spec, sizeof spec, "coco:.?annotations=%s%s", annotations, keys);
    mr_status status = mr_dataset_open(spec, NULL, &dataset, &error);
    expect_line(status, &error);
    if (status == MR_OK)
        walk_coco(dataset);
    mr_dataset_destroy(dataset);
}

static void try_json(const uint8_t *bytes, size_t len)
{
    static const char *const keys[] = {"&index=none", "&index=none&labels=dense",
                                       "&index=none&coco_reference=train"};
    static int fd = -1;
    char path[64];
    if (fd < 0)
        fd = memfd_create("fuzz_annotations", MFD_CLOEXEC);
    require(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len,
            "cannot write the annotations");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        open_coco(path, keys[i]);
}

/* What is before the checksum of an index: magic, version and stamp; then the lengths. */
struct index_head {
    uint8_t stamp[INDEX_STAMP_END];
    uint64_t lens[N_PARTS];
};

static void save_index(const struct mr_index_place_key *key, const struct index_head *head,
                       const uint8_t *parts, size_t len)
{
    struct mr_bytes file = {0};
    uint64_t sum = mr_xxh3_pair(head, sizeof *head, parts, len);
    require(mr_bytes_append(&file, head, sizeof *head, NULL) == MR_OK &&
                mr_bytes_append_u64(&file, sum, NULL) == MR_OK &&
                mr_bytes_append(&file, parts, len, NULL) == MR_OK,
            "out of memory");
    mr_index_place_save(key, &file);
    mr_bytes_fini(&file);
}

/* Keep the head of an index, whose only image gets another id: it must be read from the index. */
static bool take_index(void *user, const uint8_t *bytes, size_t len)
{
    struct index_head *head = user;
    size_t at = sizeof *head + sizeof(uint64_t);
    require(len > at + sizeof(int64_t), "the index is too short");
    memcpy(head, bytes, sizeof *head);
    return true;
}

static const struct index_head *make_index(const struct mr_index_place_key *key, const char *path)
{
    static struct index_head head;
    static const char json[] = "{\"images\":[{\"id\":1,\"file_name\":\"a\"}],\"annotations\":[]}";
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    char spec[SPEC_BYTES];
    struct mr_coco_image image = {.id = 2};
    uint8_t parts[sizeof image + 2] = {[sizeof image] = 'b'};
    int64_t id = 0;
    if (head.stamp[0])
        return &head;
    mr_test_folder_write(folder, "x.json", json, strlen(json));
    require(utimensat(AT_FDCWD, path, old, 0) == 0, "utimensat");
    snprintf(spec, sizeof spec, "coco:.?annotations=%s&index=beside", path);
    mr_dataset_destroy(open_good(spec));
    require(mr_index_place_load(key, take_index, &head), "no index was saved");
    struct index_head own = head;
    memcpy(own.lens, (uint64_t[N_PARTS]){sizeof image, 0, 0, 2}, sizeof own.lens);
    memcpy(parts, &image, sizeof image);
    save_index(key, &own, parts, sizeof parts);
    mr_dataset *dataset = open_good(spec);
    require(mr_dataset_label(dataset, 0, &id, NULL) == MR_OK && id == 2, "the index has changed");
    mr_dataset_destroy(dataset);
    return &head;
}

/* Three bytes count the images, boxes and categories; the names are what follows them. */
static void try_index(const uint8_t *bytes, size_t len)
{
    static const size_t sizes[] = {sizeof(struct mr_coco_image), sizeof(struct mr_coco_box),
                                   sizeof(struct mr_coco_category)};
    char path[sizeof folder + 16];
    snprintf(path, sizeof path, "%s/x.json", folder);
    struct mr_index_place_key key = {MR_INDEX_BESIDE, AT_FDCWD, path, "coco"};
    struct index_head head = *make_index(&key, path);
    if (len < 3)
        return;
    const uint8_t *parts = bytes + 3;
    size_t rest = len - 3;
    for (int i = 0; i < 3; i++) {
        size_t n = bytes[i] < rest / sizes[i] ? bytes[i] : rest / sizes[i];
        head.lens[i] = n * sizes[i];
        rest -= n * sizes[i];
    }
    head.lens[3] = rest;
    save_index(&key, &head, parts, len - 3);
    open_coco(path, "&index=beside");
    open_coco(path, "&index=beside&coco_reference=val&labels=dense");
}

static uint32_t read_be32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void mend_chunks(uint8_t *png, size_t len)
{
    for (size_t at = 8; at + 12 <= len;) {
        uint32_t n = read_be32(png + at);
        if (n > len - at - 12)
            return;
        uint32_t sum = (uint32_t)crc32(0, png + at + 4, n + 4);
        for (int i = 0; i < 4; i++)
            png[at + 8 + n + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + (size_t)n;
    }
}

static void decode_mask(const uint8_t *png, size_t len)
{
    static struct mr_mask_pixels pixels;
    const struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    uint32_t width = len < 24 ? 1 : read_be32(png + 16);
    uint32_t height = len < 24 ? 1 : read_be32(png + 20);
    mr_error error = {0};
    if (width == 0 || height == 0 || width > MAX_SIDE || height > MAX_SIDE)
        width = height = 1;
    mr_status status = mr_codec_png_read_indices(&limits, png, len, width, height, &pixels, &error);
    expect_line(status, &error);
    for (uint32_t y = 0; status == MR_OK && y < height; y++) /* a sanitizer checks each row */
        (void)mr_xxh3(pixels.first + y * pixels.row_bytes, width * pixels.pixel_bytes);
}

static void try_mask(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len + !len); /* it ends where a sanitizer sees it */
    require(copy != NULL, "out of memory");
    memcpy(copy, bytes, len);
    decode_mask(copy, len);
    mend_chunks(copy, len);
    decode_mask(copy, len);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (folder[0] == '\0')
        require(realpath(mr_test_folder_create(), folder) != NULL, "no folder");
    if (len == 0)
        return 0;
    switch (bytes[0]) {
    case 'v':
    case 'y': try_member(bytes[0] == 'v', bytes + 1, len - 1); break;
    case 'j': try_json(bytes + 1, len - 1); break;
    case 'i': try_index(bytes + 1, len - 1); break;
    case 'm': try_mask(bytes + 1, len - 1); break;
    default: break;
    }
    return 0;
}
