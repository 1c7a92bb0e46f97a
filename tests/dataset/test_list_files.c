/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets of paths and labels from the program: their order, every byte of a path, and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

static mr_dataset *make_dataset(const char *const *paths, const int64_t *labels, int64_t n)
{
    mr_dataset *dataset;
    mr_error error;
    assert_ok(mr_dataset_from_files(paths, labels, n, &dataset, &error), &error);
    return dataset;
}

static void paths_and_labels_keep_their_order(void **state)
{
    (void)state;
    static const char *const paths[] = {"b10.jpg",         "b9.jpg",           "b10.jpg",
                                        "/abs/\xff\r.png", "a\tb\nc\\d e.jpg", " "};
    static const int64_t labels[] = {3, INT64_MIN, 7, INT64_MAX, -1, 0};
    mr_dataset *dataset = make_dataset(paths, labels, 6);
    char name[100];
    assert_int_equal(mr_dataset_n_samples(dataset), 6);
    assert_int_equal(mr_dataset_n_classes(dataset), 0);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(path_of(dataset, i), paths[i]);
        assert_int_equal(label_of(dataset, i), labels[i]);
        assert_true(mr_dataset_name(dataset, i, name, sizeof name) > 0);
        assert_string_equal(name, paths[i]);
    }
    mr_dataset_destroy(dataset);
}

static void without_labels_every_label_is_zero(void **state)
{
    (void)state;
    static const char *const paths[] = {"a", "b"};
    mr_dataset *dataset = make_dataset(paths, NULL, 2);
    assert_int_equal(label_of(dataset, 1), 0);
    assert_int_equal(mr_dataset_kind(dataset)->label_dtype, MR_I64);
    mr_dataset_destroy(dataset);
}

static void a_path_is_never_a_line_of_class_names(void **state)
{
    (void)state;
    static const char *const paths[] = {"# classes:", "#"};
    mr_dataset *dataset = make_dataset(paths, NULL, 2);
    assert_int_equal(mr_dataset_n_samples(dataset), 2);
    assert_int_equal(mr_dataset_n_classes(dataset), 0);
    assert_string_equal(path_of(dataset, 0), "./# classes:");
    mr_dataset_destroy(dataset);
}

/* The memory and the working directory of the caller may change afterwards. */
static void the_dataset_copies_what_it_is_given(void **state)
{
    (void)state;
    struct tree tree;
    char path[] = "x.png", before[4096];
    const char *paths[] = {path};
    int64_t label = 5;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    tree_create(&tree);
    tree_write(&tree, "x.png", "GIF89a", 6);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = make_dataset(paths, &label, 1);
    assert_int_equal(chdir(before), 0);
    memset(path, 'q', sizeof path - 1);
    paths[0] = NULL;
    label = 6;
    assert_int_equal(label_of(dataset, 0), 5);
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_OK);
    assert_string_equal(info.format, "gif");
    mr_dataset_destroy(dataset);
}

static void many_paths_are_found(void **state)
{
    (void)state;
    enum { N = 20000, LEN = 24 };
    char *text = malloc((size_t)N * LEN);
    const char **paths = malloc(N * sizeof *paths);
    int64_t *labels = malloc(N * sizeof *labels);
    assert_true(text && paths && labels);
    for (int i = 0; i < N; i++) {
        snprintf(text + (size_t)i * LEN, LEN, "%0*d.jpg", i % 17 + 1, i);
        paths[i] = text + (size_t)i * LEN;
        labels[i] = (int64_t)i * i;
    }
    mr_dataset *dataset = make_dataset(paths, labels, N);
    for (int i = 0; i < N; i += 7) {
        assert_string_equal(path_of(dataset, i), paths[i]);
        assert_int_equal(label_of(dataset, i), labels[i]);
    }
    mr_dataset_destroy(dataset);
    free(text);
    free(paths);
    free(labels);
}

static void expect_refusal(const char *const *paths, int64_t n, const char *words)
{
    mr_dataset *dataset = (mr_dataset *)1;
    mr_error error;
    assert_int_equal(mr_dataset_from_files(paths, NULL, n, &dataset, &error), MR_ERR_INVALID);
    assert_null(dataset);
    assert_string_equal(error.text, words);
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    char longest[4097];
    const char *paths[] = {"a", "", NULL, longest};
    mr_error error;
    memset(longest, 'x', 4096);
    longest[4096] = '\0';
    expect_refusal(NULL, 1, "paths is NULL");
    expect_refusal(paths, 0, "n 0 is not positive");
    expect_refusal(paths, -3, "n -3 is not positive");
    expect_refusal(paths, 2, "path 1 is empty");
    expect_refusal(paths + 2, 1, "path 0 is NULL");
    expect_refusal(paths + 3, 1, "path 0 has more than 4095 bytes");
    longest[4095] = '\0';
    mr_dataset_destroy(make_dataset(paths + 3, NULL, 1));
    longest[0] = '#'; /* it becomes ./# */
    expect_refusal(paths + 3, 1, "path 0 has more than 4093 bytes");
    longest[4093] = '\0';
    mr_dataset_destroy(make_dataset(paths + 3, NULL, 1));
    assert_int_equal(mr_dataset_from_files(paths, NULL, 1, NULL, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "dataset_out is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_labels_keep_their_order),
        cmocka_unit_test(without_labels_every_label_is_zero),
        cmocka_unit_test(a_path_is_never_a_line_of_class_names),
        cmocka_unit_test(the_dataset_copies_what_it_is_given),
        cmocka_unit_test(many_paths_are_found),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
