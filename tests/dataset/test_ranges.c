/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ranges: their samples, and every error that a line can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/file.h"
#include "dataset/reader/file_cache.h"
#include "tests/dataset/tree.h"

static struct tree tree;

static const char *write_ranges(const char *text)
{
    tree_write(&tree, "ranges.txt", text, strlen(text));
    return tree_spec(&tree, "ranges", "ranges.txt");
}

static void refuse(const char *text, mr_status status, const char *words)
{
    expect_open_error(write_ranges(text), status, words);
}

static void a_line_is_a_range_of_a_file(void **state)
{
    (void)state;
    char text[8192];
    tree_write(&tree, "a b", "0123456789", 10);
    tree_write(&tree, "sub/c", "abc", 3);
    snprintf(text, sizeof text,
             "a b\t3\t2\t4\na b\t-9223372036854775808\t0\t10\r\nsub/c\t5\t1\t2\na b\t7\t10\t0\n"
             "%s\t8\t2\t1",
             tree_at(&tree, "sub/c"));
    mr_dataset *dataset = open_dataset(write_ranges(text));
    static const struct {
        const char *path;
        int64_t label;
        uint64_t offset, len;
        const char *bytes;
    } lines[] = {{"a b", 3, 2, 4, "2345"},
                 {"a b", INT64_MIN, 0, 10, "0123456789"},
                 {"sub/c", 5, 1, 2, "bc"},
                 {"a b", 7, 10, 0, ""},
                 {"/sub/c", 8, 2, 1, "c"}};
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    assert_int_equal(mr_dataset_n_samples(dataset), 5);
    assert_int_equal(mr_catalog_n_files(catalog), 4); /* two successive lines share the first */
    for (int i = 0; i < 5; i++) {
        struct mr_extent extent = mr_catalog_image(catalog, i);
        char path[MR_CATALOG_PATH], bytes[16] = "";
        size_t n;
        int fd;
        assert_int_equal(mr_catalog_path(catalog, extent.file, path), 0);
        assert_non_null(strstr(path, lines[i].path));
        assert_int_equal(extent.offset, lines[i].offset);
        assert_int_equal(extent.len, lines[i].len);
        assert_int_equal(label_of(dataset, i), lines[i].label);
        assert_int_equal(mr_file_open_sample(catalog, i, extent.file, &fd, NULL), MR_OK);
        assert_int_equal(mr_file_read_at(fd, extent.offset, bytes, extent.len, &n), 0);
        assert_string_equal(bytes, lines[i].bytes);
        close(fd);
    }
    char name[MR_CATALOG_PATH];
    mr_dataset_name(dataset, 2, name, sizeof name);
    assert_string_equal(name, tree_at(&tree, "sub/c/1+2"));
    mr_dataset_destroy(dataset);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const char *const forms[] = {"\n", "a\t1\n", "a\t1\t2\n", "a\t1\t2\t3\t4\n", "a b\n"};
    static const char *const numbers[] = {
        "a\t1\t-1\t2", "a\t1\t1\t-2", "a\t1\t\t2", "a\t1\t1.5\t2", "a\t1\t1\t9223372036854775808",
        "a\t1\t0x1\t2"};
    tree_write(&tree, "a", "0123456789", 10);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        refuse(forms[i], MR_ERR_DAMAGED,
               "ranges.txt:1: the line is not path, label, offset and length");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        refuse(numbers[i], MR_ERR_DAMAGED,
               "ranges.txt:1: offset and length are not integers from 0 on");
    refuse("", MR_ERR_DAMAGED, "holds no sample");
    refuse("a\t1\t0\t1\na\tx\t0\t1\n", MR_ERR_DAMAGED, "ranges.txt:2: the label is not an integer");
    refuse("\t1\t0\t1\n", MR_ERR_DAMAGED, "ranges.txt:1: the path is empty");
    refuse("a\t1\t0\t1\nb\\x\t1\t0\t1\n", MR_ERR_DAMAGED, "ranges.txt:2: the path is");
    refuse("a\t1\t7\t4\n", MR_ERR_DAMAGED, "4 bytes from 7 on are not in a, which has 10");
    refuse("a\t1\t11\t0\n", MR_ERR_DAMAGED, "0 bytes from 11 on are not in a, which has 10");
    refuse("a\t1\t9223372036854775807\t9223372036854775807\n", MR_ERR_DAMAGED, "are not in a");
    refuse("none\t1\t0\t1\n", MR_ERR_IO,
           "ranges.txt:1: cannot open none: No such file or directory");
    expect_open_error(tree_spec(&tree, "ranges", "no list"), MR_ERR_IO, "cannot open the list");
    expect_open_error("ranges:x?label=i64", MR_ERR_INVALID, "ranges has no key 'label'");
}

static void a_file_that_changed_is_not_read(void **state)
{
    (void)state;
    tree_write(&tree, "a", "0123456789", 10);
    mr_dataset *dataset = open_dataset(write_ranges("a\t1\t2\t3\n"));
    tree_write(&tree, "a", "0123456789a", 11);
    uint64_t size;
    assert_true(mr_file_cache_open(mr_dataset_catalog(dataset), 0, &size) < 0);
    mr_dataset_destroy(dataset);
}

static int create(void **state)
{
    (void)state;
    tree_create(&tree);
    return 0;
}

static int destroy(void **state)
{
    (void)state;
    tree_destroy(&tree);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_a_range_of_a_file, create, destroy),
        cmocka_unit_test_setup_teardown(wrong_lines_are_named, create, destroy),
        cmocka_unit_test_setup_teardown(a_file_that_changed_is_not_read, create, destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
