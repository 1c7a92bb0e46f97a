/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extended FOLDER: opens flat:FOLDER, the kind that dataset_kind.patch adds, and reads it with the
 * reader that reader.patch adds. test_extending.sh makes the folder and compiles this against the
 * patched sources.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "dataset/reader/reader.h"

static void require(bool holds, const char *what, const mr_error *error)
{
    if (holds)
        return;
    fprintf(stderr, "%s%s%s\n", what, error ? ": " : "", error ? error->text : "");
    exit(1);
}

/* All bytes of a sample, in memory of the caller's; a failed read ends with its message instead. */
static char *read_with(const struct mr_catalog *catalog, mr_reader_kind kind, int64_t index,
                       uint64_t max_bytes, size_t *len_out)
{
    const struct mr_reader_options options = {.kind = kind, .depth = 2};
    struct mr_reader *reader;
    struct mr_part_list list;
    struct mr_read read;
    mr_error error = {0};
    require(mr_reader_create(catalog, &options, &reader, &error) == MR_OK, "no reader", &error);
    require((strcmp(mr_reader_name(reader), "slow") == 0) == (kind == MR_READER_SLOW),
            "another reader", NULL);
    mr_catalog_parts(catalog, index, max_bytes, &list);
    mr_reader_submit(reader, 7, index, &list);
    require(mr_reader_reap(reader, true, &read) && read.tag == 7, "nothing was read", NULL);
    const void *from = read.status == MR_OK ? (const void *)read.part[0].bytes : read.error->text;
    size_t len = read.status == MR_OK ? read.part[0].len : sizeof read.error->text;
    char *bytes = malloc(len + 1);
    require(bytes, "no memory", NULL);
    memcpy(bytes, from, len);
    mr_reader_recycle(reader, &read);
    mr_reader_destroy(reader);
    *len_out = len;
    return bytes;
}

static void compare_readers(const struct mr_catalog *catalog, int64_t index, uint64_t max_bytes)
{
    size_t old_len, new_len;
    char *old_bytes = read_with(catalog, MR_READER_PREAD, index, max_bytes, &old_len);
    char *new_bytes = read_with(catalog, MR_READER_SLOW, index, max_bytes, &new_len);
    require(old_len == new_len && memcmp(old_bytes, new_bytes, old_len) == 0, "the readers differ",
            NULL);
    free(old_bytes);
    free(new_bytes);
}

/*
 * Samples are "not there yet" at first, which is no error, and end in another order than they were
 * submitted in.
 */
static void read_out_of_order(const struct mr_catalog *catalog)
{
    const struct mr_reader_options options = {.kind = MR_READER_SLOW, .depth = 3};
    struct mr_reader *reader;
    struct mr_read read;
    uint64_t order = 0, n_not_yet = 0;
    require(mr_reader_create(catalog, &options, &reader, NULL) == MR_OK, "no reader", NULL);
    for (uint64_t i = 0; i < 3; i++) {
        struct mr_part_list list;
        mr_catalog_parts(catalog, (int64_t)i, 1 << 20, &list);
        mr_reader_submit(reader, i, (int64_t)i, &list);
    }
    while (mr_reader_n_pending(reader) > 0) {
        if (!mr_reader_reap(reader, false, &read)) {
            n_not_yet++;
            continue;
        }
        require(read.status == MR_OK && (uint64_t)read.index == read.tag, "a read failed", NULL);
        order = order * 10 + read.tag;
        mr_reader_recycle(reader, &read);
    }
    require(order != 12 && n_not_yet > 0, "the reader is not slow", NULL);
    mr_reader_destroy(reader);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"1.jpg", "2.JPEG", "10.png"};
    char spec[4096], name[4096];
    mr_dataset *dataset;
    mr_error error = {0};
    require(argc == 2, "usage: extended FOLDER", NULL);
    snprintf(spec, sizeof spec, "flat:%s", argv[1]);
    require(mr_dataset_open(spec, NULL, &dataset, &error) == MR_OK, "open", &error);
    require(mr_dataset_n_samples(dataset) == 3, "not 3 samples", NULL);
    for (int64_t i = 0; i < 3; i++) {
        int64_t label = -1;
        require(mr_dataset_name(dataset, i, name, sizeof name) > 0, "no name", NULL);
        require(strstr(name, names[i]) && strncmp(name, argv[1], strlen(argv[1])) == 0, name, NULL);
        require(mr_dataset_label(dataset, i, &label, &error) == MR_OK && label == 0, "label",
                &error);
        compare_readers(mr_dataset_catalog(dataset), i, 1 << 20);
        compare_readers(mr_dataset_catalog(dataset), i, 4); /* too large: both say so */
    }
    read_out_of_order(mr_dataset_catalog(dataset));
    mr_dataset_destroy(dataset);
    puts("3 samples");
    return 0;
}
