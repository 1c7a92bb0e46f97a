/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed-size records: extents and split must give the same as plain indexing of the bytes of the
 * file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/records.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

enum { FILE_BYTES = 20000 };

static uint8_t bytes_of_file[FILE_BYTES];

static void make_bytes(unsigned seed)
{
    srand(seed);
    for (int i = 0; i < FILE_BYTES; i++)
        bytes_of_file[i] = (uint8_t)(rand() >> 7);
}

static char *with_query(const char *spec, const char *query)
{
    static char text[8192];
    snprintf(text, sizeof text, "%s?%s", spec, query);
    return text;
}

/*
 * Read a sample as a worker does. Its buffer is allocated exactly, so that sanitizers see its end.
 */
static uint8_t *read_sample(const mr_dataset *dataset, int64_t index, void *label,
                            const uint8_t **data, size_t *data_len)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_part_list list;
    mr_catalog_parts(catalog, index, UINT64_MAX, &list);
    size_t len = list.part[0].extent.len, total = len, done = 0;
    if (list.n > 1)
        total += list.part[1].extent.len;
    uint8_t *bytes = malloc(total);
    for (uint32_t i = 0; i < list.n; i++) {
        const struct mr_extent *extent = &list.part[i].extent;
        char path[MR_CATALOG_PATH];
        assert_int_equal(mr_catalog_path(catalog, extent->file, path), 0);
        int fd = openat(mr_catalog_root(catalog), path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, bytes + done, extent->len, (off_t)extent->offset), extent->len);
        close(fd);
        done += extent->len;
    }
    const uint8_t *label_bytes = list.n > 1 ? bytes + len : NULL;
    mr_error error;
    assert_int_equal(mr_catalog_split(catalog, index, bytes, len - 1, label_bytes, data, data_len,
                                      label, &error),
                     MR_ERR_DAMAGED);
    assert_int_equal(
        mr_catalog_split(catalog, index, bytes, len, label_bytes, data, data_len, label, &error),
        MR_OK);
    return bytes;
}

static void expect_sample(const mr_dataset *dataset, int64_t index, const uint8_t *data, size_t len,
                          int64_t label)
{
    const uint8_t *got = NULL;
    size_t got_len = 0;
    int64_t got_label = 0;
    uint8_t *bytes = read_sample(dataset, index, &got_label, &got, &got_len);
    assert_int_equal(got_len, len);
    assert_memory_equal(got, data, len);
    assert_int_equal(got_label, label);
    free(bytes);
}

static void records_are_where_arithmetic_says(void **state)
{
    (void)state;
    static const struct {
        int header, stride, bytes, label_off, label_bytes;
    } cases[] = {
        {0, 10, 10, 0, 0},
        {7, 10, 10, 0, 0},
        {0, 1, 100, 0, 0},
        {3, 64, 130, 0, 0},
        {1, 11, 10, -1, 1},
        {0, 12, 10, 10, 2},
        {16, 40, 30, -16, 8},
        {0, 5, 400, 396, 4},
        {0, 9000, 30, 8500, 8},
        {6000, 50, 40, -5900, 2},
        {0, 20000, 20000, 0, 0},
        {0, 20000, 19999, 19999, 1},
        {5000, 100, 20, -4096 - 1, 1},
        {0, 5000, 10, 10 + 4096, 4},
        {0, 5000, 10, 11 + 4096, 4},
    };
    struct tree tree;
    tree_create(&tree);
    make_bytes(1);
    tree_write(&tree, "a.bin", bytes_of_file, FILE_BYTES);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char query[200];
        snprintf(query, sizeof query, "bytes=%d&header=%d&stride=%d", cases[c].bytes,
                 cases[c].header, cases[c].stride);
        if (cases[c].label_bytes)
            snprintf(query + strlen(query), sizeof query - strlen(query),
                     "&label_off=%d&label_bytes=%d", cases[c].label_off, cases[c].label_bytes);
        mr_dataset *dataset = open_dataset(with_query(tree_spec(&tree, "records", "a.bin"), query));
        int64_t n = 0; /* the oracle: as long as data and label are inside the file */
        for (int64_t at = cases[c].header;; at += cases[c].stride, n++) {
            int64_t label_end = at + cases[c].label_off + cases[c].label_bytes;
            if (at + cases[c].bytes > FILE_BYTES ||
                (cases[c].label_bytes && label_end > FILE_BYTES))
                break;
            int64_t label = 0;
            for (int b = cases[c].label_bytes - 1; b >= 0; b--)
                label =
                    (int64_t)((uint64_t)label << 8 | bytes_of_file[at + cases[c].label_off + b]);
            if (cases[c].label_bytes == 4)
                label = (int32_t)label;
            if (n >= mr_dataset_n_samples(dataset))
                fail_msg("case %zu: only %lld records", c,
                         (long long)mr_dataset_n_samples(dataset));
            expect_sample(dataset, n, bytes_of_file + at, (size_t)cases[c].bytes, label);
            assert_int_equal(label_of(dataset, n), label);
        }
        assert_int_equal(mr_dataset_n_samples(dataset), n);
        mr_dataset_destroy(dataset);
    }
}

static void a_near_label_is_read_with_the_data_and_a_far_one_separately(void **state)
{
    (void)state;
    static const struct {
        int64_t off;
        uint64_t n_parts, first_len;
    } cases[] = {{-1, 1, 11},        {3, 1, 10},       {10, 1, 11},   {10 + 4096, 1, 4107},
                 {11 + 4096, 2, 10}, {-4097, 1, 4107}, {-4098, 2, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_record_layout layout = {
            .header = 5000, .stride = 10, .label_off = cases[i].off, .label_len = 1};
        struct mr_catalog_record record;
        layout.kind.data_bytes = 10;
        mr_records_parts(&layout, &record);
        assert_int_equal(record.n_parts, cases[i].n_parts);
        assert_int_equal(record.part_len[0], cases[i].first_len);
    }
}

static void overlapping_records_never_cross_files(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    make_bytes(2);
    /* records of 10 bytes every 4 bytes: 23 + 0 + 0 + 1 + 1 + 12 */
    static const int sizes[] = {100, 0, 9, 10, 11, 57};
    char spec[6 * 4096] = "records:";
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d,%%.bin", i);
        tree_write(&tree, name, bytes_of_file + 1000 * i, (size_t)sizes[i]);
        if (i > 0)
            strcat(spec, ",");
        strcat(spec, tree_spec(&tree, "", name));
    }
    mr_dataset *dataset = open_dataset(strcat(spec, "?bytes=10&stride=4"));
    assert_int_equal(mr_dataset_n_samples(dataset), 37);
    assert_false(mr_catalog_loose_files(mr_dataset_catalog(dataset)));
    assert_int_equal(mr_catalog_n_files(mr_dataset_catalog(dataset)), 6);
    int64_t index = 0;
    for (int i = 0; i < 6; i++)
        for (int at = 0; at + 10 <= sizes[i]; at += 4, index++)
            expect_sample(dataset, index, bytes_of_file + 1000 * i + at, 10, 0);
    assert_int_equal(index, 37);
    char name[4096];
    assert_true(mr_dataset_name(dataset, 36, name, sizeof name) > 0);
    assert_string_equal(strrchr(name, '/'), "/5,%.bin#11");
    mr_dataset_destroy(dataset);
}

static void files_beyond_four_gigabytes_are_addressed(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_write(&tree, "sparse.bin", "", 0);
    const int64_t size = (INT64_C(5) << 32) + 17;
    if (truncate(tree_at(&tree, "sparse.bin"), size) != 0)
        skip();
    mr_dataset *dataset =
        open_dataset(with_query(tree_spec(&tree, "records", "sparse.bin"), "bytes=4096&stride=2"));
    assert_int_equal(mr_dataset_n_samples(dataset), 1 + (size - 4096) / 2);
    struct mr_extent last =
        mr_catalog_image(mr_dataset_catalog(dataset), mr_dataset_n_samples(dataset) - 1);
    assert_int_equal(last.offset, (size - 4096) / 2 * 2);
    mr_dataset_destroy(dataset);
}

static void labels_may_be_arrays(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    float values[40];
    for (int i = 0; i < 40; i++)
        values[i] = (float)i * 0.5f;
    tree_write(&tree, "f.bin", values, sizeof values);
    mr_dataset *dataset = open_dataset(
        with_query(tree_spec(&tree, "records", "f.bin"),
                   "shape=2x2&dtype=F32&label_dtype=f32&label_shape=2x3&label_off=16"));
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    assert_int_equal(kind->data_bytes, 16);
    assert_int_equal(kind->dtype, MR_F32);
    assert_int_equal(kind->ndim, 2);
    assert_int_equal(kind->picture, 0);
    assert_int_equal(kind->label_dtype, MR_F32);
    assert_int_equal(kind->label_ndim, 2);
    assert_int_equal(kind->label_shape[1], 3);
    assert_int_equal(kind->label_bytes, 24);
    assert_int_equal(mr_dataset_n_samples(dataset), 4); /* 160 bytes, 40 each */
    float label[6];
    const uint8_t *data;
    size_t len;
    uint8_t *bytes = read_sample(dataset, 2, label, &data, &len);
    assert_memory_equal(data, values + 20, 16);
    assert_memory_equal(label, values + 24, 24);
    free(bytes);
    mr_error error;
    int64_t integer;
    assert_int_equal(mr_dataset_label(dataset, 0, &integer, &error), MR_ERR_UNSUPPORTED);
    mr_dataset_destroy(dataset);
    dataset = open_dataset(
        with_query(tree_spec(&tree, "records", "f.bin"), "bytes=8&label_dtype=i16&label_bytes=6"));
    assert_int_equal(mr_dataset_kind(dataset)->label_ndim, 1);
    assert_int_equal(mr_dataset_kind(dataset)->label_shape[0], 3);
    mr_dataset_destroy(dataset);
}

static void pictures_are_bytes_with_one_or_three_channels(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_write(&tree, "a.bin", bytes_of_file, 1000);
    static const struct {
        const char *query;
        uint32_t picture;
    } cases[] = {
        {"shape=3x4x5", 1},
        {"shape=1,4,5&bytes=20", 1},
        {"shape=4x5x3", 0},
        {"shape=4x5x3&layout=hwc", 1},
        {"shape=3x4x5&layout=HWC", 0},
        {"shape=2x4x5", 0},
        {"shape=3x4x5&dtype=i8", 0},
        {"bytes=60", 0},
        {"shape=3x4", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_dataset *dataset =
            open_dataset(with_query(tree_spec(&tree, "records", "a.bin"), cases[i].query));
        if (mr_dataset_kind(dataset)->picture != cases[i].picture)
            fail_msg("%s", cases[i].query);
        assert_int_equal(mr_dataset_kind(dataset)->encoded, 0);
        mr_dataset_destroy(dataset);
    }
}

static void wrong_keys_are_named(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_write(&tree, "a.bin", bytes_of_file, 100);
    static const char *const cases[][2] = {
        {"header=1", "need bytes= or shape="},
        {"bites=3", "records has no key 'bites' (did you mean 'bytes'?); its keys: bytes, header"},
        {"bytes=0", "bytes 0 of the dataset is not between 1"},
        {"bytes=ten", "bytes 'ten' of the dataset is not a whole number"},
        {"bytes=99999999999999999999", "is not between"},
        {"bytes=10&header=-1", "header -1"},
        {"bytes=10&stride=0", "stride 0"},
        {"bytes=10&strid=3", "no key 'strid' (did you mean 'stride'?); its keys: bytes"},
        {"bytes=10&dtype=f32", "bytes 10 is not a multiple of 4, the size of f32"},
        {"bytes=10&dtype=f31", "dtype 'f31'"},
        {"bytes=10&shape=3x3", "has 9 bytes, but bytes is 10"},
        {"shape=3x", "shape '3x'"},
        {"shape=", "shape ''"},
        {"shape=0x4", "shape '0x4'"},
        {"shape=-3", "shape '-3'"},
        {"shape=1x1x1x1x1x1x1x1", "shape"},
        {"shape=4294967296x4294967296", "too large"},
        {"bytes=10&layout=nchw", "layout 'nchw' is neither chw nor hwc"},
        {"bytes=10&label_bytes=3", "label_bytes 3 is not 1, 2, 4 or 8"},
        {"bytes=10&label_off=3", "label_off needs label_bytes"},
        {"bytes=10&label_off=-1&label_bytes=1",
         "label_off -1 is before the start of the file: header is 0"},
        {"bytes=10&label_shape=3", "label_shape needs label_dtype"},
        {"bytes=10&label_dtype=f32&label_shape=3&label_bytes=13",
         "have 12 bytes, but label_bytes is 13"},
    };
    static const char *const contents[][2] = {
        {"bytes=101", "holds no record: it has 100 bytes, header and one record need 101"},
        {"bytes=100&header=1", "header and one record need 101"},
        {"bytes=1&header=2305843009213693951", "holds no record"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_open_error(with_query(tree_spec(&tree, "records", "a.bin"), cases[i][0]),
                          MR_ERR_INVALID, cases[i][1]);
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++)
        expect_open_error(with_query(tree_spec(&tree, "records", "a.bin"), contents[i][0]),
                          MR_ERR_DAMAGED, contents[i][1]);
    expect_open_error(with_query(tree_spec(&tree, "records", "b.bin"), "bytes=1"), MR_ERR_IO,
                      "b.bin: No such file");
    tree_folder(&tree, "dir");
    expect_open_error(with_query(tree_spec(&tree, "records", "dir"), "bytes=1"), MR_ERR_IO,
                      "not a regular file");
}

enum { CIFAR = 3073 };

static void write_cifar(const struct tree *tree, const char *name, int n, uint8_t first_label)
{
    uint8_t *bytes = calloc((size_t)n, CIFAR);
    for (int i = 0; i < n; i++) {
        bytes[i * CIFAR] = (uint8_t)(first_label + i);
        memset(bytes + i * CIFAR + 1, first_label + i + 100, CIFAR - 1);
    }
    tree_write(tree, name, bytes, (size_t)n * CIFAR);
    free(bytes);
}

static void cifar10_reads_the_batches_that_exist(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    write_cifar(&tree, "data_batch_1.bin", 4, 0);
    write_cifar(&tree, "data_batch_3.bin", 2, 4);
    write_cifar(&tree, "test_batch.bin", 3, 7);
    tree_write(&tree, "batches.meta.txt", "airplane\r\nautomobile\n\n", 22);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "cifar10", ""));
    assert_int_equal(mr_dataset_n_samples(dataset), 6);
    assert_int_equal(mr_dataset_kind(dataset)->picture, 1);
    assert_int_equal(mr_dataset_kind(dataset)->data_bytes, 3072);
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    assert_string_equal(mr_dataset_class_name(dataset, 0), "airplane");
    uint8_t pixels[CIFAR - 1];
    for (int i = 0; i < 6; i++) {
        memset(pixels, i + 100, sizeof pixels);
        expect_sample(dataset, i, pixels, sizeof pixels, i);
        assert_int_equal(label_of(dataset, i), i);
    }
    char name[4096];
    mr_dataset_name(dataset, 5, name, sizeof name);
    assert_string_equal(strrchr(name, '/'), "/data_batch_3.bin#1");
    mr_dataset_destroy(dataset);
    dataset = open_dataset(with_query(tree_spec(&tree, "cifar10", ""), "split=test"));
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    assert_int_equal(label_of(dataset, 0), 7);
    mr_dataset_destroy(dataset);
    dataset = open_dataset(with_query(tree_spec(&tree, "CIFAR10", ""), "SPLIT=TEST"));
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    mr_dataset_destroy(dataset);
}

static void cifar10_refuses_other_layouts(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    expect_open_error(tree_spec(&tree, "cifar10", ""), MR_ERR_IO, "holds no data_batch_1.bin");
    expect_open_error(with_query(tree_spec(&tree, "cifar10", ""), "split=test"), MR_ERR_IO,
                      "test_batch.bin: No such");
    expect_open_error(with_query(tree_spec(&tree, "cifar10", ""), "split=val"), MR_ERR_INVALID,
                      "split 'val'");
    expect_open_error(with_query(tree_spec(&tree, "cifar10", ""), "bytes=3"), MR_ERR_INVALID,
                      "no key 'bytes'");
    write_cifar(&tree, "data_batch_1.bin", 2, 0);
    tree_write(&tree, "data_batch_2.bin", bytes_of_file, CIFAR + 1);
    expect_open_error(tree_spec(&tree, "cifar10", ""), MR_ERR_DAMAGED,
                      "data_batch_2.bin has 3074 bytes, which is not a multiple");
}

static void a_file_that_shrank_gives_an_error_for_its_label(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    write_cifar(&tree, "test_batch.bin", 3, 0);
    mr_dataset *dataset = open_dataset(with_query(tree_spec(&tree, "cifar10", ""), "split=test"));
    assert_int_equal(truncate(tree_at(&tree, "test_batch.bin"), CIFAR), 0);
    int64_t label;
    mr_error error;
    assert_int_equal(label_of(dataset, 0), 0);
    assert_error(mr_dataset_label(dataset, 1, &label, &error), MR_ERR_IO, &error,
                 "test_batch.bin#1: the file ends before the label");
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_where_arithmetic_says),
        cmocka_unit_test(a_near_label_is_read_with_the_data_and_a_far_one_separately),
        cmocka_unit_test(overlapping_records_never_cross_files),
        cmocka_unit_test(files_beyond_four_gigabytes_are_addressed),
        cmocka_unit_test(labels_may_be_arrays),
        cmocka_unit_test(pictures_are_bytes_with_one_or_three_channels),
        cmocka_unit_test(wrong_keys_are_named),
        cmocka_unit_test(cifar10_reads_the_batches_that_exist),
        cmocka_unit_test(cifar10_refuses_other_layouts),
        cmocka_unit_test(a_file_that_shrank_gives_an_error_for_its_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
