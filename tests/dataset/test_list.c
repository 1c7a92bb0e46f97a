/* SPDX-License-Identifier: Apache-2.0 */
/* List files: their samples and labels, and every error that a line can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/list_line.h"
#include "tests/dataset/tree.h"

static const char *open_list(struct tree *tree, const char *text, size_t len)
{
    static char query[8192];
    tree_write(tree, "list.txt", text, len);
    snprintf(query, sizeof query, "%s", tree_spec(tree, "list", "list.txt"));
    return query;
}

static void get_label(const mr_dataset *dataset, int64_t index, void *label)
{
    const uint8_t *data;
    size_t len;
    assert_int_equal(mr_catalog_split(mr_dataset_catalog(dataset), index, (const uint8_t *)"xyz", 3,
                                      NULL, &data, &len, label, NULL),
                     MR_OK);
    assert_int_equal(len, 3);
}

static void lines_give_paths_and_labels(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    const char text[] = "a "
                        "b.jpg\t3\n/abs/x.png\t-9223372036854775808\r\nsub/"
                        "\\t\\n\\\\.jpg\t+7\n\xff\t9223372036854775807";
    mr_dataset *dataset = open_dataset(open_list(&tree, text, sizeof text - 1));
    static const char *const paths[] = {"a b.jpg", "/abs/x.png", "sub/\t\n\\.jpg", "\xff"};
    static const int64_t labels[] = {3, INT64_MIN, 7, INT64_MAX};
    assert_int_equal(mr_dataset_n_samples(dataset), 4);
    for (int i = 0; i < 4; i++) {
        int64_t label = 0;
        assert_string_equal(path_of(dataset, i), paths[i]);
        assert_int_equal(label_of(dataset, i), labels[i]);
        get_label(dataset, i, &label);
        assert_int_equal(label, labels[i]);
    }
    assert_int_equal(mr_dataset_kind(dataset)->encoded, 1);
    assert_int_equal(mr_dataset_kind(dataset)->label_bytes, 8);
    assert_int_equal(mr_dataset_n_classes(dataset), 0);
    char name[4096];
    mr_dataset_name(dataset, 0, name, sizeof name);
    assert_string_equal(name, tree_at(&tree, "a b.jpg"));
    assert_true(mr_dataset_relative_name(dataset, 0, name, sizeof name) > 0);
    assert_string_equal(name, "a b.jpg");
    mr_dataset_name(dataset, 1, name, sizeof name);
    assert_string_equal(name, "/abs/x.png");
    assert_true(mr_dataset_relative_name(dataset, 1, name, sizeof name) > 0);
    assert_string_equal(name, "/abs/x.png");
    mr_dataset_destroy(dataset);
}

static void several_numbers_are_a_record(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    const char integers[] = "a\t1,2 3\nb\t 4, 5 ,6 \n";
    mr_dataset *dataset = open_dataset(open_list(&tree, integers, sizeof integers - 1));
    assert_int_equal(mr_dataset_kind(dataset)->label_dtype, MR_I64);
    assert_int_equal(mr_dataset_kind(dataset)->label_ndim, 1);
    assert_int_equal(mr_dataset_kind(dataset)->label_shape[0], 3);
    assert_int_equal(mr_dataset_kind(dataset)->label_bytes, 24);
    int64_t three[3] = {0};
    get_label(dataset, 1, three);
    assert_int_equal(three[0], 4);
    assert_int_equal(three[2], 6);
    mr_error error;
    assert_int_equal(mr_dataset_label(dataset, 0, three, &error), MR_ERR_UNSUPPORTED);
    mr_dataset_destroy(dataset);
    /* One decimal point, in the last line, makes all labels floats. */
    const char reals[] = "a\t1 2\nb\t-3 1e-3\nc\t0.1 nan\n";
    dataset = open_dataset(open_list(&tree, reals, sizeof reals - 1));
    assert_int_equal(mr_dataset_kind(dataset)->label_dtype, MR_F32);
    assert_int_equal(mr_dataset_kind(dataset)->label_bytes, 8);
    float two[2];
    get_label(dataset, 0, two);
    assert_true(two[0] == 1.0f && two[1] == 2.0f);
    get_label(dataset, 1, two);
    assert_true(two[0] == -3.0f && two[1] == 1e-3f);
    get_label(dataset, 2, two);
    assert_true(two[0] == 0.1f && isnan(two[1]));
    mr_dataset_destroy(dataset);
    const char one[] = "a\t0.25\n";
    dataset = open_dataset(open_list(&tree, one, sizeof one - 1));
    assert_int_equal(mr_dataset_kind(dataset)->label_ndim, 0);
    assert_int_equal(mr_dataset_kind(dataset)->label_bytes, 4);
    mr_dataset_destroy(dataset);
}

static void the_spec_may_state_the_labels_dtype(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    char spec[9000];
    snprintf(spec, sizeof spec, "%s?label=F64", open_list(&tree, "a\t3\nb\t4\n", 8));
    mr_dataset *dataset = open_dataset(spec);
    double value;
    get_label(dataset, 1, &value);
    assert_true(value == 4.0);
    mr_dataset_destroy(dataset);
    snprintf(spec, sizeof spec, "%s?label=u8", open_list(&tree, "a\t0 255\nb\t4 5\n", 14));
    dataset = open_dataset(spec);
    uint8_t bytes[2];
    get_label(dataset, 0, bytes);
    assert_int_equal(bytes[1], 255);
    mr_dataset_destroy(dataset);
    open_list(&tree, "a\t0\nb\t256\n", 10);
    expect_open_error(spec, MR_ERR_DAMAGED, "list.txt:2: the label is not 1 number of u8");
    snprintf(spec, sizeof spec, "%s?label=i64", open_list(&tree, "a\t0\nb\t2.5\n", 10));
    expect_open_error(spec, MR_ERR_DAMAGED, "list.txt:2: the label is not 1 number of i64");
    snprintf(spec, sizeof spec, "%s?label=bf16", open_list(&tree, "a\t0\n", 4));
    expect_open_error(spec, MR_ERR_INVALID, "label 'bf16' is none of");
    snprintf(spec, sizeof spec, "%s?labels=u8", open_list(&tree, "a\t0\n", 4));
    expect_open_error(spec, MR_ERR_INVALID, "list has no key 'labels'");
}

static void a_field_after_the_paths_is_the_version_of_an_image(void **state)
{
    (void)state;
    static const char text[] = "a\t1\tsize=7 etag=\"x-1\"\r\nb\t2\nc\t3\tsize=0\n";
    static const char extra[] = "a\t1\tm\tsize=9\nb\t2\tsize=1\nc\t3\t\tsize=2 etag=\"\"\n";
    struct mr_object_version version;
    struct tree tree;
    char spec[8300], path[MR_CATALOG_PATH];
    tree_create(&tree);
    mr_dataset *dataset = open_dataset(open_list(&tree, text, sizeof text - 1));
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    assert_true(mr_catalog_version(catalog, 0, &version));
    assert_int_equal(version.size, 7);
    assert_string_equal(version.etag, "\"x-1\"");
    assert_string_equal(version.modified, "");
    assert_false(mr_catalog_version(catalog, 1, &version));
    assert_true(mr_catalog_version(catalog, 2, &version));
    assert_int_equal(version.size, 0);
    assert_string_equal(version.etag, "");
    mr_dataset_destroy(dataset);

    snprintf(spec, sizeof spec, "%s?extra=mask:9", open_list(&tree, extra, sizeof extra - 1));
    dataset = open_dataset(spec);
    catalog = mr_dataset_catalog(dataset);
    assert_true(mr_catalog_version(catalog, 0, &version));
    assert_int_equal(version.size, 9);
    assert_false(mr_catalog_version(catalog, 1, &version)); /* it is the path of the mask */
    assert_int_equal(mr_catalog_path(catalog, 4, path), 0);
    assert_string_equal(path, "size=1");
    assert_false(mr_catalog_version(catalog, 4, &version));
    assert_true(mr_catalog_version(catalog, 2, &version));
    assert_string_equal(version.etag, "\"\"");
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
}

static void each_wrong_line_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t len;
        const char *words;
    } cases[] = {
#define CASE(text, words) {text, sizeof text - 1, words}
        CASE("", "list.txt holds no sample"),
        CASE("a\t1\nb 2\n", "list.txt:2: no tab"),
        CASE("a\t1\n\nb\t2\n", "list.txt:2: the line is empty"),
        CASE("a\t1\n\n", "list.txt:2: the line is empty"),
        CASE("\n", "list.txt:1: the line is empty"),
        CASE("\t1\n", "list.txt:1: the path is empty"),
        CASE("a\\x\t1\n", "list.txt:1: the path is empty, or has a zero byte, or a backslash"),
        CASE("a\\\t1\n", "backslash"),
        CASE("a\0b\t1\n", "zero byte"),
        CASE("a\t\n", "list.txt:1: the label is neither"),
        CASE("a\t1\nb\tcat\n", "list.txt:2: the label is neither"),
        CASE("a\t1\nb\t0x10\n", "list.txt:2: the label is neither"),
        CASE("a\t1\t2\n", "list.txt:1: the line has 1 further paths, the key extra names 0"),
        CASE("a\t1\tsize=\n", "list.txt:1: the line has 1 further paths"),
        CASE("a\t1\tsize=1 etag=\n", "list.txt:1: the line has 1 further paths"),
        CASE("a\t1\tsize=1 etag=\"\n", "list.txt:1: the line has 1 further paths"),
        CASE("a\t1\tsize=1 etag=W/\"x\"\n", "list.txt:1: the line has 1 further paths"),
        CASE("a\t1\tsize=1 etag=\"x\"y\"\n", "list.txt:1: the line has 1 further paths"),
        CASE("a\t1\tsize=1 etag=\"x\"\t\n", "list.txt:1: the line has 2 further paths"),
        CASE("a\t1\tsize=99999999999999999999\n", "list.txt:1: the line has 1 further paths"),
        CASE("a\t1,,2\n", "the label is neither"),
        CASE("a\t1,\n", "the label is neither"),
        CASE("a\t,1\n", "the label is neither"),
        CASE("a\t1.5.2\n", "the label is neither"),
        CASE("s3://b/a\t1\nb\tx\n", "list.txt:2: the label is neither"),
        CASE("a\t1e400\n", "the label is neither"),
        CASE("a\t--1\n", "the label is neither"),
        CASE("a\t1\0\n", "the label is neither"),
        CASE("a\t1111111111111111111111111111111111111111111111111111111111111111111111\n",
             "the label is neither"),
        CASE("a\t1 2\nb\t1\n", "list.txt:2: the label has 1 numbers, the first has 2"),
        CASE("a\t1\nb\t9223372036854775808\n", "list.txt:2: the label does not fit into 64 bits"),
        CASE("a\t1.5\nb\t1e39\n", "list.txt:2: the label does not fit into f32"),
        CASE("a\t1.5\nb\t1000000000000000000000000000000000000000\n",
             "list.txt:2: the label does not fit into f32"),
        CASE("# classes:\tx\na\t1\nb\n", "list.txt:3: no tab"),
        CASE("# classes:\tx\n", "holds no sample"),
        CASE("# classes:\tx\t\ty\na\t1\n", "list.txt:1: a class name is empty"),
        CASE("# classes:\t", "list.txt:1: a class name is empty"),
        CASE("# a comment\na\t1\n", "list.txt:1: no tab"),
    };
    struct tree tree;
    tree_create(&tree);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_open_error(open_list(&tree, cases[i].text, cases[i].len), MR_ERR_DAMAGED,
                          cases[i].words);
    char *text = malloc(5000);
    memset(text, 'p', 5000);
    memcpy(text + 4096, "\t1\n", 3);
    expect_open_error(open_list(&tree, text, 4099), MR_ERR_DAMAGED,
                      "list.txt:1: the path has more than 4095 bytes");
    memcpy(text + 4095, "\t1\n", 3);
    mr_dataset *dataset = open_dataset(open_list(&tree, text, 4098));
    assert_int_equal(strlen(path_of(dataset, 0)), 4095);
    mr_dataset_destroy(dataset);
    free(text);
    expect_open_error(tree_spec(&tree, "list", "absent"), MR_ERR_IO, "cannot open the list");
    tree_folder(&tree, "dir");
    expect_open_error(tree_spec(&tree, "list", "dir"), MR_ERR_IO, "Is a directory");
    assert_int_equal(mkfifo(tree_at(&tree, "pipe"), 0600), 0);
    expect_open_error(tree_spec(&tree, "list", "pipe"), MR_ERR_IO, "not a regular file");
}

static void a_list_may_begin_with_class_names(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    const char text[] = "# classes:\tcat\ta\\tb\r\n# classes\t1\n#\t0\n";
    mr_dataset *dataset = open_dataset(open_list(&tree, text, sizeof text - 1));
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    assert_string_equal(mr_dataset_class_name(dataset, 1), "a\tb");
    assert_int_equal(mr_dataset_n_samples(dataset), 2);
    assert_string_equal(path_of(dataset, 0), "# classes");
    assert_string_equal(path_of(dataset, 1), "#");
    mr_dataset_destroy(dataset);
}

static void a_long_list_gives_every_line_at_its_index(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct tree tree;
    tree_create(&tree);
    char *text = malloc(N * 40), *end = text;
    for (int i = 0; i < N; i++)
        end += sprintf(end, "%.*s%d.jpg\t%d\n", i % 11, "ppppppppppp", i, i * 7 % 1000);
    mr_dataset *dataset = open_dataset(open_list(&tree, text, (size_t)(end - text)));
    free(text);
    assert_int_equal(mr_dataset_n_samples(dataset), N);
    for (int i = 0; i < N; i++) {
        char expected[40];
        sprintf(expected, "%.*s%d.jpg", i % 11, "ppppppppppp", i);
        assert_string_equal(path_of(dataset, i), expected);
        assert_int_equal(label_of(dataset, i), i * 7 % 1000);
    }
    mr_dataset_destroy(dataset);
}

/* Lines of 10 bytes. */
static char *make_lines(int n)
{
    char *text = malloc((size_t)n * 10);
    assert_non_null(text);
    for (int i = 0; i < n; i++)
        memcpy(text + (size_t)10 * (unsigned)i, "abcdef\t12\n", 10);
    return text;
}

static void a_small_list_does_not_change_with_its_file(void **state)
{
    (void)state;
    enum { N = 800000 };
    struct tree tree;
    tree_create(&tree);
    char *text = make_lines(N);
    mr_dataset *dataset = open_dataset(open_list(&tree, text, (size_t)N * 10));
    assert_int_equal(truncate(tree_at(&tree, "list.txt"), 0), 0);
    for (int i = 0; i < N; i += 7999) {
        assert_string_equal(path_of(dataset, i), "abcdef");
        assert_int_equal(label_of(dataset, i), 12);
    }
    mr_dataset_destroy(dataset);
    free(text);
}

static void an_overwritten_large_list_gives_errors_and_no_crash(void **state)
{
    (void)state;
    enum { N = 900000 };
    struct tree tree;
    tree_create(&tree);
    char *text = make_lines(N);
    mr_dataset *dataset = open_dataset(open_list(&tree, text, (size_t)N * 10));
    FILE *file = fopen(tree_at(&tree, "list.txt"), "r+");
    memset(text, 'z', (size_t)N * 10);
    assert_int_equal(fwrite(text, 10, N, file), N);
    fclose(file);
    free(text);
    char path[MR_CATALOG_PATH], name[64];
    for (int i = 0; i < 100; i++) {
        int64_t label;
        mr_error error;
        assert_true(mr_catalog_path(mr_dataset_catalog(dataset), (uint64_t)i, path) < 0);
        assert_int_equal(mr_dataset_label(dataset, i, &label, NULL), MR_ERR_IO);
        assert_int_equal(mr_dataset_label(dataset, i, &label, &error), MR_ERR_IO);
        assert_int_equal(error.status, MR_ERR_IO);
        assert_true(mr_dataset_name(dataset, i, name, sizeof name) > 0);
    }
    mr_dataset_destroy(dataset);
}

static void labels_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
    for (int i = 0; i < 4 && !setlocale(LC_ALL, locales[i]); i++)
        ;
    struct tree tree;
    tree_create(&tree);
    mr_dataset *dataset = open_dataset(open_list(&tree, "a\t1.5,2.5\n", 10));
    float two[2];
    get_label(dataset, 0, two);
    assert_true(two[0] == 1.5f && two[1] == 2.5f);
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
    setlocale(LC_ALL, "C");
}

static void a_chdir_does_not_change_the_root_of_a_list(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "x.jpg");
    tree_write(&tree, "l", "x.jpg\t1\n", 8);
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = open_dataset("list:l");
    assert_int_equal(chdir("/"), 0);
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_OK);
    char name[64];
    mr_dataset_name(dataset, 0, name, sizeof name);
    assert_string_equal(name, "x.jpg");
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_give_paths_and_labels),
        cmocka_unit_test(several_numbers_are_a_record),
        cmocka_unit_test(the_spec_may_state_the_labels_dtype),
        cmocka_unit_test(a_field_after_the_paths_is_the_version_of_an_image),
        cmocka_unit_test(each_wrong_line_is_named),
        cmocka_unit_test(a_list_may_begin_with_class_names),
        cmocka_unit_test(a_long_list_gives_every_line_at_its_index),
        cmocka_unit_test(a_small_list_does_not_change_with_its_file),
        cmocka_unit_test(an_overwritten_large_list_gives_errors_and_no_crash),
        cmocka_unit_test(labels_do_not_depend_on_the_locale),
        cmocka_unit_test(a_chdir_does_not_change_the_root_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
