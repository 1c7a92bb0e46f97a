/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset object: arguments, references, and errors of the public calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

static int count_open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* ".", "..", and this one */
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void no_file_stays_open(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "data/c/a.jpg");
    tree_write(&tree, "bad", "abc", 3);
    tree_write(&tree, "good", "abc\t1", 5);
    int before = count_open_files();
    mr_dataset_destroy(open_dataset(tree_spec(&tree, "", "data")));
    mr_dataset_destroy(open_dataset(tree_spec(&tree, "list", "good")));
    expect_open_error(tree_spec(&tree, "list", "bad"), MR_ERR_DAMAGED, "no tab");
    expect_open_error(tree_spec(&tree, "", "data/c"), MR_ERR_DAMAGED, "no class folder");
    expect_open_error(tree_spec(&tree, "cifar10", "data"), MR_ERR_IO, "holds no data_batch");
    expect_open_error(tree_spec(&tree, "records", "bad"), MR_ERR_INVALID, "need bytes=");
    assert_int_equal(count_open_files(), before);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    mr_dataset *dataset = NULL;
    mr_error error;
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    assert_int_equal(mr_dataset_open(NULL, NULL, &dataset, &error), MR_ERR_INVALID);
    assert_int_equal(mr_dataset_open("", NULL, &dataset, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_dataset_open("x", NULL, NULL, &error), MR_ERR_INVALID);
    options.struct_size = 0;
    assert_error(mr_dataset_open("x", &options, &dataset, &error), MR_ERR_INVALID, &error,
                 "struct_size");
    assert_int_equal(mr_dataset_open("/nonexistent/folder", NULL, &dataset, &error), MR_ERR_IO);
    assert_string_equal(error.text,
                        "cannot open the folder /nonexistent/folder: No such file or directory");
    mr_dataset_destroy(NULL);
    assert_int_equal(mr_dataset_n_samples(NULL), 0);
    assert_int_equal(mr_dataset_n_classes(NULL), 0);
    assert_null(mr_dataset_class_name(NULL, 0));
}

static void indices_are_checked_and_names_are_cut(void **state)
{
    (void)state;
    struct tree tree;
    char name[8] = "???????";
    int64_t label = 77;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;
    tree_create(&tree);
    tree_file(&tree, "c/a.jpg");
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", ""));
    static const int64_t wrong[] = {-1, 1, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(mr_dataset_name(dataset, wrong[i], name, sizeof name), 0);
        assert_int_equal(mr_dataset_label(dataset, wrong[i], &label, &error), MR_ERR_INVALID);
        assert_int_equal(mr_dataset_inspect(dataset, wrong[i], &info, &error), MR_ERR_INVALID);
    }
    assert_int_equal(label, 77);
    assert_true(mr_dataset_name(dataset, 0, name, 4) > 0);
    assert_memory_equal(name, tree.path, 3);
    assert_int_equal(name[3], '\0');
    assert_int_equal(name[4], '?');
    assert_true(mr_dataset_name(dataset, 0, NULL, 0) > 0);
    mr_dataset_destroy(dataset);
}

static void a_retained_dataset_outlives_its_creator(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "c/a.jpg");
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", ""));
    mr_dataset_retain(dataset);
    mr_dataset_destroy(dataset);
    assert_int_equal(mr_dataset_n_samples(dataset), 1);
    assert_string_equal(path_of(dataset, 0), "c/a.jpg");
    mr_dataset_destroy(dataset);
}

static void a_slash_at_the_end_is_not_doubled(void **state)
{
    (void)state;
    struct tree tree;
    char spec[8192], name[4096];
    tree_create(&tree);
    tree_file(&tree, "c/a.jpg");
    snprintf(spec, sizeof spec, "%s/", tree_spec(&tree, "", ""));
    mr_dataset *dataset = open_dataset(spec);
    mr_dataset_name(dataset, 0, name, sizeof name);
    assert_string_equal(name, tree_at(&tree, "c/a.jpg"));
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_file_stays_open),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(indices_are_checked_and_names_are_cut),
        cmocka_unit_test(a_retained_dataset_outlives_its_creator),
        cmocka_unit_test(a_slash_at_the_end_is_not_doubled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
