/* SPDX-License-Identifier: Apache-2.0 */
/* A saved list gives the same dataset, in whichever folder it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

static void make_tree(struct tree *tree)
{
    tree_create(tree);
    tree_write(tree, "data/b/1.jpg", "1", 1);
    tree_write(tree, "data/#classes:/a\tb\n\\.jpg", "22", 2);
    tree_write(tree, "data/\xff/x/y.png", "333", 3);
}

/* Assert that both have the same files (by size), labels and classes. */
static void expect_same(mr_dataset *a, mr_dataset *b)
{
    assert_int_equal(mr_dataset_n_samples(a), mr_dataset_n_samples(b));
    assert_int_equal(mr_dataset_n_classes(a), mr_dataset_n_classes(b));
    for (uint32_t i = 0; i < mr_dataset_n_classes(a); i++)
        assert_string_equal(mr_dataset_class_name(a, i), mr_dataset_class_name(b, i));
    for (int64_t i = 0; i < mr_dataset_n_samples(a); i++) {
        mr_sample_info x = MR_SAMPLE_INFO_INIT, y = MR_SAMPLE_INFO_INIT;
        mr_error error = {0};
        assert_int_equal(label_of(a, i), label_of(b, i));
        assert_int_equal(mr_dataset_inspect(a, i, &x, &error), MR_OK);
        assert_ok(mr_dataset_inspect(b, i, &y, &error), &error);
        assert_int_equal(x.len_bytes, y.len_bytes);
    }
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = -2;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void a_saved_list_is_the_dataset_again(void **state)
{
    (void)state;
    static const char *const places[] = {"l.txt", "data/l.txt", "other/l.txt", "data/b/l.txt"};
    struct tree tree;
    make_tree(&tree);
    tree_folder(&tree, "other");
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", "data"));
    for (int i = 0; i < 4; i++) {
        mr_error error = {0};
        assert_ok(mr_dataset_save_list(dataset, tree_at(&tree, places[i]), &error), &error);
        mr_dataset *list = open_dataset(tree_spec(&tree, "list", places[i]));
        expect_same(dataset, list);
        /* and once more, from the list, to each other place */
        for (int k = 0; k < 4; k++) {
            char again[64];
            snprintf(again, sizeof again, "%s.again", places[k]);
            assert_int_equal(mr_dataset_save_list(list, tree_at(&tree, again), NULL), MR_OK);
            mr_dataset *second = open_dataset(tree_spec(&tree, "list", again));
            expect_same(dataset, second);
            mr_dataset_destroy(second);
        }
        mr_dataset_destroy(list);
    }
    assert_int_equal(count_entries(tree_at(&tree, "other")), 2); /* no temporary file is left */
    mr_dataset_destroy(dataset);
}

static void paths_below_the_list_are_relative_to_it(void **state)
{
    (void)state;
    struct tree tree;
    char text[4096], expected[16384];
    make_tree(&tree);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", "data"));
    assert_int_equal(mr_dataset_save_list(dataset, tree_at(&tree, "data/l"), NULL), MR_OK);
    read_text(tree_at(&tree, "data/l"), text, sizeof text);
    assert_string_equal(text, "# classes:\t#classes:\tb\t\xff\n"
                              "./#classes:/a\\tb\\n\\\\.jpg\t0\nb/1.jpg\t1\n\xff/x/y.png\t2\n");
    assert_int_equal(chdir(tree.path), 0);
    assert_int_equal(mr_dataset_save_list(dataset, "l", NULL), MR_OK);
    assert_int_equal(chdir("/"), 0);
    read_text(tree_at(&tree, "l"), text, sizeof text);
    assert_words(text, "\ndata/b/1.jpg\t1\n");
    tree_folder(&tree, "da"); /* a name that "data" begins with is not above it */
    assert_int_equal(mr_dataset_save_list(dataset, tree_at(&tree, "da/l"), NULL), MR_OK);
    read_text(tree_at(&tree, "da/l"), text, sizeof text);
    snprintf(expected, sizeof expected, "\n%s\t1\n", tree_at(&tree, "data/b/1.jpg"));
    assert_words(text, expected);
    mr_dataset_destroy(dataset);
}

static void labels_that_are_records_are_saved(void **state)
{
    (void)state;
    struct tree tree;
    char text[256];
    tree_create(&tree);
    tree_write(&tree, "l", "a\t1.5, -2\r\nb\t3 4\n", 17);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "list", "l"));
    assert_int_equal(mr_dataset_save_list(dataset, tree_at(&tree, "l"), NULL),
                     MR_OK); /* saved over the file that it was opened from */
    read_text(tree_at(&tree, "l"), text, sizeof text);
    assert_string_equal(text, "a\t1.5, -2\nb\t3 4\n");
    assert_string_equal(path_of(dataset, 1), "b");
    mr_dataset_destroy(dataset);
}

static void versions_of_images_are_saved(void **state)
{
    (void)state;
    static const char list[] = "http://h/a\t1\t\tsize=7 etag=\"x\"\nb\t2\tm\n";
    struct tree tree;
    char spec[8300], text[256];
    mr_error error = {0};
    tree_create(&tree);
    tree_write(&tree, "l", list, strlen(list));
    snprintf(spec, sizeof spec, "%s?extra=mask:9", tree_spec(&tree, "list", "l"));
    mr_dataset *dataset = open_dataset(spec);
    assert_ok(mr_dataset_save_list(dataset, tree_at(&tree, "l2"), &error), &error);
    read_text(tree_at(&tree, "l2"), text, sizeof text);
    assert_string_equal(text, list);
    mr_dataset_destroy(dataset);
}

static void a_last_class_that_ends_in_a_carriage_return_is_saved(void **state)
{
    (void)state;
    struct tree tree;
    mr_error error = {0};
    tree_create(&tree);
    tree_write(&tree, "data/a/1.jpg", "1", 1);
    tree_write(&tree, "data/z\r/2.jpg", "22", 2);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", "data"));
    assert_ok(mr_dataset_save_list(dataset, tree_at(&tree, "l.txt"), &error), &error);
    mr_dataset *list = open_dataset(tree_spec(&tree, "list", "l.txt"));
    expect_same(dataset, list);
    mr_dataset_destroy(list);
    mr_dataset_destroy(dataset);
}

static void failures_name_the_file_and_leave_the_old_list(void **state)
{
    (void)state;
    struct tree tree;
    mr_error error;
    char text[64];
    make_tree(&tree);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", "data"));
    assert_error(mr_dataset_save_list(dataset, tree_at(&tree, "no/such/l"), &error), MR_ERR_IO,
                 &error, "no/such/l");
    tree_write(&tree, "dir/l", "old", 3);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = 20, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    mr_status status = mr_dataset_save_list(dataset, tree_at(&tree, "dir/l"), &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, MR_ERR_IO);
    assert_int_equal(error.os_error, 27); /* EFBIG */
    read_text(tree_at(&tree, "dir/l"), text, sizeof text);
    assert_string_equal(text, "old");
    assert_int_equal(count_entries(tree_at(&tree, "dir")), 1);
    mr_dataset_destroy(dataset);
    tree_write(&tree, "r", "abc", 3);
    char spec[8192];
    snprintf(spec, sizeof spec, "%s?bytes=1", tree_spec(&tree, "records", "r"));
    dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_save_list(dataset, tree_at(&tree, "x"), &error),
                     MR_ERR_UNSUPPORTED);
    mr_dataset_destroy(dataset);
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    options.allow_empty_classes = true;
    tree_folder(&tree, "bare/class");
    assert_int_equal(
        mr_dataset_open(tree_spec(&tree, "imagefolder", "bare"), &options, &dataset, &error),
        MR_OK);
    assert_error(mr_dataset_save_list(dataset, tree_at(&tree, "x"), &error), MR_ERR_UNSUPPORTED,
                 &error, "no sample");
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_list_is_the_dataset_again),
        cmocka_unit_test(paths_below_the_list_are_relative_to_it),
        cmocka_unit_test(labels_that_are_records_are_saved),
        cmocka_unit_test(versions_of_images_are_saved),
        cmocka_unit_test(a_last_class_that_ends_in_a_carriage_return_is_saved),
        cmocka_unit_test(failures_name_the_file_and_leave_the_old_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
