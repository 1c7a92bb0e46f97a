/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes packs for tests, and alters them. Opening a pack compares the checksum of the whole index.
 * So a test that alters an index must compute its checksum again to reach the later checks.
 */
#include "tests/support/packs.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "dataset/pack_format.h"
#include "tests/support/die.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

enum { PATH = 512 };

/* Pictures. */

static const struct mr_test_jpeg jpegs[] = {
    {.width = 161, .height = 120},
    {.width = 97, .height = 131, .sampling = {{1, 1}}},
    {.width = 130, .height = 77, .sampling = {{2, 1}}},
    {.width = 75, .height = 140, .sampling = {{1, 2}}},
    {.width = 201, .height = 66, .sampling = {{4, 1}}},
    {.width = 90, .height = 92, .sampling = {{1, 1}, {2, 2}, {1, 1}}},
    {.width = 1, .height = 1},
    {.width = 17, .height = 300},
    {.width = 300, .height = 5},
    {.width = 88, .height = 88, .colour = MR_TEST_GREY},
    {.width = 70, .height = 95, .colour = MR_TEST_RGB},
    {.width = 84, .height = 60, .colour = MR_TEST_CMYK},
    {.width = 61, .height = 83, .colour = MR_TEST_YCCK},
    {.width = 150, .height = 111, .progressive = true},
    {.width = 99, .height = 64, .one_scan_each = true},
    {.width = 128, .height = 96, .restart = 3},
    {.width = 140, .height = 93, .quality = 100},
    {.width = 140, .height = 93, .quality = 8},
    {.width = 120, .height = 80, .orientation = 3},
    {.width = 120, .height = 80, .orientation = 6},
    {.width = 80, .height = 113, .orientation = 7},
    {.width = 333, .height = 250},
};
static const struct mr_test_png pngs[] = {
    {.width = 90, .height = 70, .colour_type = 2},
    {.width = 64, .height = 65, .colour_type = 0},
    {.width = 50, .height = 41, .colour_type = 6, .orientation = 5},
};
enum { N_JPEGS = sizeof jpegs / sizeof *jpegs, N_PNGS = sizeof pngs / sizeof *pngs };

static void write_picture(const char *folder, uint32_t class_, uint32_t number,
                          struct mr_test_image *image)
{
    char name[64];
    snprintf(name, sizeof name, "class_%u/%03u.jpg", class_, number);
    mr_test_folder_write(folder, name, image->bytes, image->len);
    mr_test_image_free(image);
}

static void write_bad(const char *folder)
{
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 200, .height = 160});
    mr_test_folder_write(folder, "class_0/004_short.jpg", image.bytes, image.len / 5);
    mr_test_folder_write(folder, "class_0/011_text.jpg", "this is no image\n", 17);
    mr_test_folder_write(folder, "class_1/000_empty.jpg", "", 0);
    mr_test_image_free(&image);
}

static void make_folders(const char *folder, uint32_t n_classes)
{
    char path[PATH];
    if (mkdir(folder, 0777) != 0)
        mr_test_die(folder);
    for (uint32_t class_ = 0; class_ < n_classes; class_++) {
        snprintf(path, sizeof path, "%s/class_%u", folder, class_);
        if (mkdir(path, 0777) != 0)
            mr_test_die(path);
    }
}

int64_t mr_test_packs_fill(const char *folder)
{
    make_folders(folder, 2);
    for (uint32_t class_ = 0; class_ < 2; class_++) {
        for (uint32_t i = 0; i < N_JPEGS; i++) {
            struct mr_test_jpeg options = jpegs[i];
            options.seed = class_ * 100 + i;
            struct mr_test_image image = mr_test_jpeg(&options);
            write_picture(folder, class_, i, &image);
        }
        for (uint32_t i = 0; i < N_PNGS; i++) {
            struct mr_test_image image = mr_test_png(&pngs[i]);
            write_picture(folder, class_, N_JPEGS + i, &image);
        }
    }
    write_bad(folder);
    return 2 * (N_JPEGS + N_PNGS) + MR_TEST_PACKS_N_BAD;
}

int64_t mr_test_packs_fill_equal(const char *folder)
{
    struct mr_test_jpeg options = {.width = 60, .height = 40};
    uint32_t n = 0;
    make_folders(folder, 1);
    mr_test_folder_write(folder, "class_0/000.jpg", "text", 4);
    for (n = 1; n < 5; n++) {
        options.seed = n;
        options.orientation = n == 3 ? 6 : 0;
        struct mr_test_image image = mr_test_jpeg(&options);
        write_picture(folder, 0, n, &image);
    }
    struct mr_test_image image =
        mr_test_png(&(struct mr_test_png){.width = 60, .height = 40, .colour_type = 2});
    write_picture(folder, 0, n++, &image);
    return n;
}

void mr_test_packs_make(const char *spec, const char *dir, mr_pack_encoding encoding)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_error error;
    options.encoding = encoding;
    options.num_workers = 2;
    if (mr_dataset_pack(dataset, dir, &options, NULL, &error) != MR_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    mr_dataset_destroy(dataset);
}

/* Altered packs. */

static int open_file(const char *dir, const char *name, int flags)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        mr_test_die(path);
    return fd;
}

static uint8_t *read_index(const char *dir, size_t *len_out)
{
    struct stat st;
    int fd = open_file(dir, MR_PACK_INDEX, O_RDONLY);
    if (fstat(fd, &st) != 0)
        mr_test_die("fstat");
    uint8_t *bytes = malloc((size_t)st.st_size);
    if (!bytes || read(fd, bytes, (size_t)st.st_size) != st.st_size)
        mr_test_die("reading an index");
    close(fd);
    *len_out = (size_t)st.st_size;
    return bytes;
}

struct mr_test_packs_place mr_test_packs_find(const char *dir, int64_t index)
{
    size_t len;
    uint8_t *bytes = read_index(dir, &len);
    const struct mr_pack_header *header = (const void *)bytes;
    const struct mr_pack_sample *samples =
        (const void *)(bytes + header->sections[MR_PACK_SAMPLES].off);
    struct mr_test_packs_place place = {.offset = samples[index].offset, .len = samples[index].len};
    snprintf(place.shard, sizeof place.shard, MR_PACK_SHARD, samples[index].shard);
    free(bytes);
    return place;
}

void mr_test_packs_flip(const char *dir, int64_t index, uint64_t byte)
{
    struct mr_test_packs_place place = mr_test_packs_find(dir, index);
    int fd = open_file(dir, place.shard, O_RDWR);
    off_t at = (off_t)(place.offset + byte);
    uint8_t value;
    if (pread(fd, &value, 1, at) != 1)
        mr_test_die(place.shard);
    value = (uint8_t)~value;
    if (pwrite(fd, &value, 1, at) != 1 || close(fd) != 0)
        mr_test_die(place.shard);
}

void mr_test_packs_edit(const char *dir, void (*edit)(uint8_t *index, int64_t sample),
                        int64_t sample)
{
    size_t len;
    uint8_t *bytes = read_index(dir, &len);
    struct mr_pack_header *header = (void *)bytes;
    edit(bytes, sample);
    header->checksum = 0;
    header->checksum = mr_xxh3(bytes, len);
    mr_test_folder_write(dir, MR_PACK_INDEX, bytes, len);
    free(bytes);
}
