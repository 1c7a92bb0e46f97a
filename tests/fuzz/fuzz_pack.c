/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the index of a pack, in memory and as a dataset, and as the part of a finished
 * shard: no crash, nothing is read past the end, and one line says what is wrong. If a part has a
 * wrong checksum, its shard is made again, and the pack is complete in the end. Everything happens
 * in a separate folder. With FUZZ_PACK_MEND checksums are made right first; without it a fuzzer
 * gets no further than comparing them.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "dataset/dataset.h"
#include "dataset/pack_index.h"
#include "dataset/reader/reader.h"
#include "tests/dataset/invented_pack.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_pack.h"

enum { MAX_SHARDS = 8, MAX_SHARD = 1 << 16, MAX_SAMPLES = 64, MAX_LABEL = 1 << 16 };

static char folder[64];

static void clear_folder(void)
{
    DIR *dir = opendir(folder);
    require(dir != NULL, "cannot open the folder");
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            require(unlinkat(dirfd(dir), entry->d_name, 0) == 0, "cannot empty the folder");
    closedir(dir);
}

static void remove_folder(void)
{
    clear_folder();
    rmdir(folder);
}

/* In memory if possible, because the writer syncs. */
static void make_folder(void)
{
    if (*folder)
        return;
    snprintf(folder, sizeof folder, "%s/fuzz-pack-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(folder) != NULL && atexit(remove_folder) == 0, "cannot make a folder");
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const void *bytes, size_t len)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && close(fd) == 0,
            "cannot write a file");
}

static void require_words(mr_status status, const mr_error *error)
{
    require(status < 0 && error->text[0] && !strchr(error->text, '\n'),
            "no line says what is wrong");
}

/* Make the header's constants and the checksum right. */
static void mend_header(uint8_t *bytes, size_t len)
{
    struct mr_pack_header header;
    if (len < sizeof header)
        return;
    memcpy(&header, bytes, sizeof header);
    header.magic = MR_PACK_MAGIC;
    header.version = MR_PACK_VERSION;
    header.n_sections = MR_PACK_N_SECTIONS;
    header.file_bytes = len;
    memcpy(bytes, &header, sizeof header);
    mend_index(bytes, len);
}

/* Make a part's checksums right, for all its sections that exist. */
static void mend_part(uint8_t *bytes, size_t len)
{
    struct mr_pack_part_head head;
    size_t at = sizeof head;
    if (len < sizeof head)
        return;
    memcpy(&head, bytes, sizeof head);
    head.magic = MR_PACK_PART_MAGIC;
    for (int which = 0; which < MR_PACK_N_SECTIONS && head.sections[which].len <= len - at;
         which++) {
        head.sections[which].checksum = mr_xxh3(bytes + at, (size_t)head.sections[which].len);
        at += (size_t)head.sections[which].len;
    }
    head.checksum = 0;
    head.checksum = mr_xxh3(&head, sizeof head);
    memcpy(bytes, &head, sizeof head);
}

/* Use every byte, so that a sanitizer sees them read. */
static uint64_t touch(const void *bytes, size_t len)
{
    return len > 0 ? mr_xxh3(bytes, len) : 0;
}

static void check_marks(const struct mr_pack_index *index, uint64_t i,
                        const struct mr_packed_image *image)
{
    struct mr_pack_marks marks;
    bool some = mr_pack_index_marks(index, i, &marks);
    require(!image->marks, "marks before they are read");
    require(image->encoding == MR_PACKED_MARKED ? some && image->marks_len == marks.len
                                                : image->marks_len == 0,
            "a marked sample and its marks");
    require(!some || marks.offset + marks.len <= index->marks_bytes, "marks beyond their file");
    require(!some || mr_pack_index_has_marks(index), "marks in a pack without any");
}

static void check_members(const struct mr_pack_index *index, uint64_t i)
{
    const struct mr_pack_sample *sample;
    struct mr_packed_image image;
    for (uint32_t k = 0; k <= mr_pack_index_n_members(index); k++) {
        struct mr_pack_member member;
        uint64_t offset;
        if (!mr_pack_index_member(index, i, k, &member, &offset))
            continue;
        require(k < mr_pack_index_n_members(index), "one member too many");
        require(!mr_pack_index_sample(index, i, &sample, &image) ||
                    (offset >= sample->offset + sample->len &&
                     offset + member.len <= mr_pack_index_shard_bytes(index, sample->shard)),
                "a member beyond its shard");
    }
}

static uint64_t touch_sample(const struct mr_pack_index *index, uint64_t i)
{
    const struct mr_pack_sample *sample;
    struct mr_packed_image image;
    const char *name = mr_pack_index_name(index, i);
    uint64_t sum = name ? touch(name, strlen(name)) : 0;
    sum += touch(mr_pack_index_label(index, i), index->label_bytes);
    check_members(index, i);
    if (!mr_pack_index_sample(index, i, &sample, &image))
        return sum;
    require(sample->shard < mr_pack_index_n_shards(index), "a shard that does not exist");
    require(sample->offset + sample->len <= mr_pack_index_shard_bytes(index, sample->shard),
            "a sample beyond its shard");
    check_marks(index, i, &image);
    require(!image.rows == !mr_packed_image_has_rows(image.encoding),
            "rows for an encoding that has none");
    if (image.rows)
        sum += touch(image.rows, ((size_t)image.n_rows + 1) * sizeof *image.rows) +
               touch(image.sums, image.sums ? image.n_rows * sizeof *image.sums : 0) +
               touch(image.template, sizeof *image.template);
    return sum;
}

static void try_memory(const uint8_t *bytes, size_t len)
{
    struct mr_pack_index index;
    mr_error error = {0};
    mr_status status = mr_pack_index_attach(bytes, len, "index", &index, &error);
    if (status != MR_OK) {
        require_words(status, &error);
        return;
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < index.n_samples && i < MAX_SAMPLES; i++)
        sum += touch_sample(&index, i);
    for (uint64_t i = 0; i < mr_pack_index_n_classes(&index) && i < MAX_SAMPLES; i++) {
        const char *name = mr_pack_index_class(&index, i);
        sum += name ? touch(name, strlen(name)) : 0;
    }
    require(sum != 1, "a sum that does not occur"); /* keeps the reads */
}

static void make_file(const char *name, uint64_t size)
{
    put_file(name, "", 0);
    if (size <= MAX_SHARD)
        require(truncate(in_folder(name), (off_t)size) == 0, "cannot make a file");
}

/* Shards and marks of the sizes that the index asks for, if they are small. */
static void make_shards(const uint8_t *bytes, size_t len)
{
    struct mr_pack_index index;
    if (mr_pack_index_attach(bytes, len, "index", &index, NULL) != MR_OK)
        return;
    for (uint64_t i = 0; i < mr_pack_index_n_shards(&index) && i < MAX_SHARDS; i++) {
        char name[32];
        snprintf(name, sizeof name, MR_PACK_SHARD, (unsigned)i);
        make_file(name, mr_pack_index_shard_bytes(&index, i));
    }
    if (mr_pack_index_has_marks(&index))
        make_file(MR_PACK_MARKS_FILE, index.marks_bytes);
}

static void ask_reader(const struct mr_catalog *catalog, struct mr_reader *reader, int64_t i,
                       const struct mr_packed_image *image)
{
    for (int whole = 0; whole < 2; whole++) {
        struct mr_part_list list;
        struct mr_extent extent;
        struct mr_read read;
        mr_error error = {0};
        mr_catalog_parts(catalog, i, MAX_SHARD, &list);
        if (!whole) {
            mr_status status = mr_catalog_restrict(catalog, i, (uint64_t)i * 77, 5, &list, &error);
            if (status != MR_OK) {
                require_words(status, &error);
                continue;
            }
        }
        if (mr_catalog_marks(catalog, i, &extent))
            mr_part_list_add(&list, extent, extent.len, MR_FOR_MARKS);
        mr_reader_submit(reader, 1, i, &list);
        require(mr_reader_reap(reader, true, &read), "a read was lost");
        if (read.status != MR_OK)
            require_words(read.status, read.error);
        for (uint32_t k = 0; k < list.n && read.status == MR_OK; k++) {
            enum mr_purpose purpose = list.part[k].purpose;
            uint64_t len = purpose == MR_FOR_MARKS    ? image->marks_len
                           : purpose == MR_FOR_MEMBER ? list.part[k].extent.len
                           : whole                    ? image->len
                                                      : 5;
            require(read.part[k].len == len, "another length");
            require(touch(read.part[k].bytes, read.part[k].len) != 1, "a sum that does not occur");
        }
        mr_reader_recycle(reader, &read);
    }
}

static void ask_all(mr_dataset *dataset)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_reader_options options = {.kind = MR_READER_PREAD, .depth = 1};
    struct mr_reader *reader;
    uint64_t label_bytes = mr_dataset_kind(dataset)->label_bytes;
    void *label = malloc(label_bytes <= MAX_LABEL ? label_bytes : 1);
    require(label && mr_reader_create(catalog, &options, &reader, NULL) == MR_OK, "no memory");
    for (int64_t i = 0; i < mr_dataset_n_samples(dataset) && i < MAX_SAMPLES; i++) {
        char name[64], which[MR_CATALOG_DESCRIPTION];
        mr_sample_info info = MR_SAMPLE_INFO_INIT;
        mr_error error = {0};
        struct mr_extent extent;
        struct mr_packed_image image = {0};
        mr_catalog_name(catalog, i, name, sizeof name);
        mr_catalog_describe(catalog, i, which);
        require(strstr(which, "index ") != NULL, "a sample without its index");
        mr_status status = mr_catalog_verify(catalog, i, (const uint8_t *)"", 0, &error);
        if (status != MR_OK)
            require_words(status, &error);
        for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++)
            if (mr_catalog_verify_member(catalog, i, k, (const uint8_t *)"", 0, &error) != MR_OK)
                require_words(error.status, &error);
        if (label_bytes <= MAX_LABEL)
            require(mr_catalog_label(catalog, i, label, &extent, NULL) == MR_OK, "no label");
        (void)mr_dataset_inspect(dataset, i, &info, &error);
        if (mr_catalog_marks(catalog, i, &extent))
            mr_catalog_describe_file(catalog, i, extent.file, which);
        (void)mr_catalog_packed(catalog, i, &image, &error);
        ask_reader(catalog, reader, i, &image);
    }
    mr_reader_destroy(reader);
    free(label);
}

static void try_dataset(const uint8_t *bytes, size_t len)
{
    char spec[128];
    mr_dataset *dataset;
    mr_error error = {0};
    clear_folder();
    put_file(MR_PACK_INDEX, bytes, len);
    make_shards(bytes, len);
    snprintf(spec, sizeof spec, "pack:%s", folder);
    mr_status status = mr_dataset_open(spec, NULL, &dataset, &error);
    if (status == MR_OK)
        ask_all(dataset);
    else
        require_words(status, &error);
    mr_dataset_destroy(dataset);
}

/* The shards as they were when the seeds' part was written. */
static void make_unfinished(const struct mr_pack_writer_options *options)
{
    require(invented_write_some(folder, options, FUZZ_PACK_SAMPLES - 1, NULL) == MR_OK,
            "cannot write a pack");
}

static void try_part(const uint8_t *bytes, size_t len, int what)
{
    struct mr_pack_writer_options options =
        what & FUZZ_PACK_MEMBERS ? invented_member_options(FUZZ_PACK_SAMPLES, FUZZ_PACK_SHARD)
                                 : invented_options(FUZZ_PACK_SAMPLES, FUZZ_PACK_SHARD);
    options.marks = what & FUZZ_PACK_MARKS;
    char spec[128];
    mr_dataset *dataset;
    mr_error error = {0};
    clear_folder();
    make_unfinished(&options);
    put_file("shard-00000.part", bytes, len);
    mr_status status = invented_write_some(folder, &options, UINT64_MAX, &error);
    if (status != MR_OK) {
        require_words(status, &error);
        return;
    }
    snprintf(spec, sizeof spec, "pack:%s", folder);
    status = mr_dataset_open(spec, NULL, &dataset, &error);
    if (status != MR_OK && what & FUZZ_PACK_MEND) { /* a forged part */
        require_words(status, &error);
        return;
    }
    if (status != MR_OK)
        fprintf(stderr, "%s\n", error.text);
    require(status == MR_OK && mr_dataset_n_samples(dataset) == FUZZ_PACK_SAMPLES,
            "a pack that cannot be opened");
    ask_all(dataset);
    mr_dataset_destroy(dataset);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    int what = bytes[0];
    size_t n = len - 1;
    uint8_t *copy = malloc(n > 0 ? n : 1); /* ends where a sanitizer sees it */
    require(copy != NULL, "out of memory");
    memcpy(copy, bytes + 1, n);
    make_folder();
    if (what & FUZZ_PACK_PART) {
        if (what & FUZZ_PACK_MEND)
            mend_part(copy, n);
        try_part(copy, n, what);
    } else {
        if (what & FUZZ_PACK_MEND)
            mend_header(copy, n);
        try_memory(copy, n);
        try_dataset(copy, n);
    }
    free(copy);
    return 0;
}
