/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Image folders: choice and order of files are those of torchvision. The oracle is a second, slow
 * version of os.walk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/imagefolder.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

static void expect_paths(const mr_dataset *dataset, const char *const *paths, size_t n)
{
    assert_int_equal(mr_dataset_n_samples(dataset), n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(path_of(dataset, (int64_t)i), paths[i]);
}

static void classes_and_files_are_sorted(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "dog/b.jpg");
    tree_file(&tree, "dog/a.JPEG");
    tree_file(&tree, "dog/B.png");
    tree_file(&tree, "Cat/x.webp");
    tree_file(&tree, ".hidden/z.pgm");
    tree_file(&tree, "stray.jpg");
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", ""));
    static const char *const paths[] = {".hidden/z.pgm", "Cat/x.webp", "dog/B.png", "dog/a.JPEG",
                                        "dog/b.jpg"};
    expect_paths(dataset, paths, 5);
    static const int64_t labels[] = {0, 1, 2, 2, 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(label_of(dataset, i), labels[i]);
    assert_int_equal(mr_dataset_n_classes(dataset), 3);
    assert_string_equal(mr_dataset_class_name(dataset, 0), ".hidden");
    assert_string_equal(mr_dataset_class_name(dataset, 2), "dog");
    assert_null(mr_dataset_class_name(dataset, 3));
    mr_dataset_destroy(dataset);
}

static void folders_within_a_class_are_ordered_by_their_whole_path(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "c/z.jpg");
    tree_file(&tree, "c/a/2.jpg");
    tree_file(&tree, "c/a/b/1.jpg");
    tree_file(&tree, "c/a-b/3.jpg");
    tree_file(&tree, "c/a.jpg/4.jpg"); /* a folder with the name of an image */
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", ""));
    /* sorted(os.walk()): "c" < "c/a" < "c/a-b" < "c/a.jpg" < "c/a/b", since '-' < '.' < '/' */
    static const char *const paths[] = {"c/z.jpg", "c/a/2.jpg", "c/a-b/3.jpg", "c/a.jpg/4.jpg",
                                        "c/a/b/1.jpg"};
    expect_paths(dataset, paths, 5);
    mr_dataset_destroy(dataset);
}

static void only_the_nine_extensions_count_in_any_case(void **state)
{
    (void)state;
    static const char *const yes[] = {"a.jpg", "a.jpeg",     "a.png",   "a.ppm",  "a.bmp",
                                      "a.pgm", "a.tif",      "a.tiff",  "a.webp", "A.JpEg",
                                      ".jpg",  "x.txt.TIFF", "\xff.png"};
    static const char *const no[] = {"jpg", "a.jpg~", "a.gif",  "a.jp",  "a.jpg.txt",
                                     "",    "a.",     "a.jpgg", "a.jpg "};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(mr_imagefolder_is_image(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(mr_imagefolder_is_image(no[i]));
}

static void names_of_any_bytes_are_listed_in_the_order_of_python(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    char longest[NAME_MAX + 3] = "c/";
    memset(longest + 2, 'y', NAME_MAX);
    memcpy(longest + 2 + NAME_MAX - 4, ".jpg", 5);
    /*
     * sorted(os.listdir()): a byte that is not UTF-8 is U+DC80 and up, which is after Chinese and
     * before emoji.
     */
    const char *const paths[] = {"c/\x01.jpg", "c/\t\n'\"\\ .jpg", "c/%41?x=1&y,z.jpg", "c/-rf.jpg",
                                 "c/x\xc3\xa9.jpg",     /* U+00E9 */
                                 "c/x\xe4\xb8\xad.jpg", /* U+4E2D */
                                 "c/x\x80.jpg",         /* U+DC80 */
                                 "c/x\xc3.jpg",         /* U+DCC3: a lead byte alone */
                                 /* U+DCED: a surrogate is not valid UTF-8 */
                                 "c/x\xed\xa0\x80.jpg", "c/x\xff.jpg", /* U+DCFF */
                                 "c/x\xef\xbf\xbd.jpg",                /* U+FFFD */
                                 "c/x\xf0\x9f\x98\x80.jpg",            /* U+1F600 */
                                 longest};
    size_t n = sizeof paths / sizeof *paths;
    for (size_t i = n; i-- > 0;)
        tree_file(&tree, paths[i]);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", ""));
    for (size_t i = 1; i < n; i++) {
        assert_true(mr_imagefolder_compare(paths[i - 1], paths[i]) < 0);
        assert_true(mr_imagefolder_compare(paths[i], paths[i - 1]) > 0);
    }
    expect_paths(dataset, paths, n);
    mr_dataset_destroy(dataset);
}

/* The oracle: every file as class, folder and name, sorted by these three. */
struct found {
    char folder[128];
    char name[64];
};

static int compare_found(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    char class_x[128], class_y[128];
    sscanf(x->folder, "%127[^/]", class_x);
    sscanf(y->folder, "%127[^/]", class_y);
    int order = strcmp(class_x, class_y);
    order = order ? order : strcmp(x->folder, y->folder);
    return order ? order : strcmp(x->name, y->name);
}

static void random_name(char *out, unsigned max_len)
{
    static const char letters[] = "ab-./_A";
    unsigned len = 1 + (unsigned)rand() % max_len;
    for (unsigned i = 0; i < len; i++)
        out[i] = letters[(unsigned)rand() % 7];
    for (unsigned i = 0; i < len; i++) /* without a slash, and not beginning with a dot */
        if (out[i] == '/' || (i == 0 && out[i] == '.'))
            out[i] = 'c';
    out[len] = '\0';
}

static void random_trees_equal_the_slow_oracle(void **state)
{
    (void)state;
    static struct found found[120];
    for (unsigned seed = 1; seed <= 4; seed++) {
        srand(seed);
        struct tree tree;
        tree_create(&tree);
        size_t n = 0;
        for (int i = 0; i < 120; i++) {
            char part[16], path[256];
            struct found *f = &found[n];
            random_name(f->folder, 2);
            for (int depth = rand() % 4; depth > 0; depth--) {
                random_name(part, 3);
                strcat(strcat(f->folder, "/"), part);
            }
            random_name(f->name, 4);
            strcat(f->name, ".jpg");
            snprintf(path, sizeof path, "%.127s/%.63s", f->folder, f->name);
            if (access(tree_at(&tree, path), F_OK) == 0)
                continue;
            tree_file(&tree, path);
            n++;
        }
        qsort(found, n, sizeof *found, compare_found);
        mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", ""));
        if (mr_dataset_n_samples(dataset) != (int64_t)n)
            fail_msg("seed %u: %lld samples instead of %zu", seed,
                     (long long)mr_dataset_n_samples(dataset), n);
        for (size_t i = 0; i < n; i++) {
            char path[256];
            snprintf(path, sizeof path, "%.127s/%.63s", found[i].folder, found[i].name);
            if (strcmp(path_of(dataset, (int64_t)i), path) != 0)
                fail_msg("seed %u: sample %zu is %s instead of %s", seed, i,
                         path_of(dataset, (int64_t)i), path);
            const char *class_ =
                mr_dataset_class_name(dataset, (uint32_t)label_of(dataset, (int64_t)i));
            assert_memory_equal(class_, found[i].folder, strlen(class_));
            assert_int_equal(found[i].folder[strlen(class_)] == '/' ||
                                 found[i].folder[strlen(class_)] == '\0',
                             1);
        }
        mr_dataset_destroy(dataset);
        tree_destroy(&tree);
    }
}

static void links_to_folders_are_folders_and_everything_else_is_a_file(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "elsewhere/real.jpg");
    tree_folder(&tree, "data/cat");
    tree_link(&tree, "../elsewhere", "data/dog");         /* a class */
    tree_link(&tree, "../../elsewhere", "data/cat/deep"); /* a folder in a class */
    /* a file for os.walk; reading it fails */
    tree_link(&tree, "nowhere", "data/cat/dangling.jpg");
    tree_link(&tree, "loop.jpg", "data/cat/loop.jpg");
    tree_link(&tree, "missing", "data/not-a-class");
    assert_int_equal(mkfifo(tree_at(&tree, "data/cat/pipe.jpg"), 0600), 0);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", "data"));
    static const char *const paths[] = {"cat/dangling.jpg", "cat/loop.jpg", "cat/pipe.jpg",
                                        "cat/deep/real.jpg", "dog/real.jpg"};
    expect_paths(dataset, paths, 5);
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;
    for (int64_t i = 0; i < 3; i++) { /* the errors are clear, and the FIFO does not block */
        assert_error(mr_dataset_inspect(dataset, i, &info, &error), MR_ERR_IO, &error, paths[i]);
        assert_int_equal(error.index, i);
    }
    mr_dataset_destroy(dataset);
}

static void ignore_line(void *user, mr_log_level level, const char *line)
{
    (void)level, (void)line;
    ++*(int *)user;
}

static void a_link_back_is_skipped_with_a_warning(void **state)
{
    (void)state;
    struct tree tree;
    int n_lines = 0;
    tree_create(&tree);
    tree_file(&tree, "c/a/1.jpg");
    tree_link(&tree, "..", "c/a/up");
    tree_link(&tree, ".", "c/here");
    tree_link(&tree, "../..", "c/a/root");
    mr_log_set(ignore_line, &n_lines);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", ""));
    mr_log_set(NULL, NULL);
    /*
     * c/a/root leads to the tree's root, which is above the class, so it is entered. Its folder c
     * is already open, so c/a/root/c is skipped.
     */
    static const char *const paths[] = {"c/a/1.jpg"};
    expect_paths(dataset, paths, 1);
    assert_int_equal(n_lines, 3);
    mr_dataset_destroy(dataset);
}

static void an_empty_class_is_named_unless_allowed(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "full/a.jpg");
    tree_file(&tree, "no images/a.txt");
    tree_folder(&tree, "void");
    expect_open_error(tree_spec(&tree, "imagefolder", ""), MR_ERR_DAMAGED,
                      "2 of 3 class folders hold no image: 'no images', 'void'");
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    options.allow_empty_classes = true;
    mr_dataset *dataset;
    assert_int_equal(mr_dataset_open(tree_spec(&tree, "imagefolder", ""), &options, &dataset, NULL),
                     MR_OK);
    assert_int_equal(mr_dataset_n_classes(dataset), 3);
    assert_int_equal(mr_dataset_n_samples(dataset), 1);
    assert_int_equal(label_of(dataset, 0), 0);
    mr_dataset_destroy(dataset);
}

static void without_labels_all_images_below_the_folder_count(void **state)
{
    (void)state;
    struct tree tree;
    char spec[PATH_MAX], name[PATH_MAX];
    tree_create(&tree);
    tree_file(&tree, "flat/z.jpg");
    tree_file(&tree, "flat/a.png");
    tree_file(&tree, "flat/b/c/1.jpg");
    tree_file(&tree, "flat/b/2.jpg");
    tree_file(&tree, "flat/notes.txt");
    snprintf(spec, sizeof spec, "%s?label=NONE", tree_spec(&tree, "imagefolder", "flat"));
    mr_dataset *dataset = open_dataset(spec);
    static const char *const paths[] = {"a.png", "z.jpg", "b/2.jpg", "b/c/1.jpg"};
    expect_paths(dataset, paths, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(label_of(dataset, i), 0);
    assert_int_equal(mr_dataset_n_classes(dataset), 0);
    assert_true(mr_dataset_name(dataset, 2, name, sizeof name) > 0);
    assert_string_equal(name, tree_at(&tree, "flat/b/2.jpg"));
    assert_true(mr_dataset_relative_name(dataset, 2, name, sizeof name) > 0);
    assert_string_equal(name, "b/2.jpg");
    assert_true(mr_dataset_relative_name(dataset, 2, name, 4) > 0);
    assert_string_equal(name, "b/2");
    assert_int_equal(mr_dataset_relative_name(dataset, 4, name, sizeof name), 0);
    mr_dataset_destroy(dataset);
    tree_folder(&tree, "hollow");
    snprintf(spec, sizeof spec, "%s?label=none", tree_spec(&tree, "imagefolder", "hollow"));
    expect_open_error(spec, MR_ERR_DAMAGED, "hollow holds no image");
    snprintf(spec, sizeof spec, "%s?label=some", tree_spec(&tree, "imagefolder", "flat"));
    expect_open_error(spec, MR_ERR_INVALID,
                      "label 'some' of imagefolder is neither folder nor none");
    expect_open_error(tree_spec(&tree, "imagefolder", "hollow"), MR_ERR_DAMAGED,
                      "?label=none reads its images");
}

static void a_root_that_is_missing_a_file_or_without_folders_is_an_error(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "flat/a.jpg");
    expect_open_error(tree_spec(&tree, "imagefolder", "absent"), MR_ERR_IO, "absent: No such file");
    expect_open_error(tree_spec(&tree, "imagefolder", "flat/a.jpg"), MR_ERR_IO,
                      "a.jpg: Not a directory");
    expect_open_error(tree_spec(&tree, "", "flat/a.jpg"), MR_ERR_IO,
                      "open a file as list:FILE or records:FILE?bytes=N; ");
    expect_open_error(tree_spec(&tree, "imagefolder", "flat"), MR_ERR_DAMAGED,
                      "flat has no class folder");
}

static void an_unreadable_folder_is_an_error_that_names_it(void **state)
{
    (void)state;
    struct tree tree;
    uid_t user = geteuid();
    tree_create(&tree);
    tree_file(&tree, "c/sub/a.jpg");
    assert_int_equal(chmod(tree.path, 0755), 0);
    assert_int_equal(chmod(tree_at(&tree, "c/sub"), 0), 0);
    if (user == 0 && seteuid(65534) != 0) /* root reads everything */
        skip();
    expect_open_error(tree_spec(&tree, "imagefolder", ""), MR_ERR_IO, "c/sub: Permission denied");
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(chmod(tree_at(&tree, "c/sub"), 0700), 0);
}

static void touch(const char *name)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fclose(file);
}

static void paths_up_to_the_limit_work_and_longer_ones_are_an_error(void **state)
{
    (void)state;
    enum { FOLDER = 3850 };
    struct tree tree;
    tree_create(&tree);
    char path[PATH_MAX] = "c", part[251], name[NAME_MAX + 1];
    memset(part, 'd', 250);
    part[250] = '\0';
    while (strlen(path) + 251 < FOLDER)
        strcat(strcat(path, "/"), part);
    strcat(path, "/");
    strncat(path, part, FOLDER - strlen(path));
    tree_folder(&tree, path);
    /* The path from the root, with its NUL, is PATH_MAX; the absolute one is longer. */
    memset(name, 'n', sizeof name);
    memcpy(name + (PATH_MAX - 2 - strlen(path) - 4), ".jpg", 5);
    assert_int_equal(chdir(tree_at(&tree, path)), 0);
    touch(name);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", ""));
    assert_int_equal(mr_dataset_n_samples(dataset), 1);
    assert_int_equal(strlen(path_of(dataset, 0)), PATH_MAX - 1);
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_OK);
    assert_string_equal(info.format, "empty");
    mr_dataset_destroy(dataset);
    name[strlen(name) - 4] = '\0';
    strcat(strcat(name, "x"), ".jpg");
    touch(name);
    expect_open_error(tree_spec(&tree, "imagefolder", ""), MR_ERR_IO, "File name too long");
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkdir(part, 0777), 0); /* too long once a name is appended */
    assert_int_equal(chdir(part), 0);
    touch("1234.jpg");
    expect_open_error(tree_spec(&tree, "imagefolder", ""), MR_ERR_IO, "File name too long");
    assert_int_equal(unlink("1234.jpg"), 0);
    assert_int_equal(chdir("/"), 0);
}

static void count_progress(void *user, uint64_t n_files)
{
    uint64_t *seen = user;
    seen[0]++;
    seen[1] = n_files;
}

static void progress_is_reported_up_to_the_number_of_files(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    for (int i = 0; i < 37; i++) {
        char name[32];
        snprintf(name, sizeof name, "c%d/%d.jpg", i % 2, i);
        tree_file(&tree, name);
    }
    uint64_t seen[2] = {0};
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    options.progress = count_progress;
    options.user = seen;
    mr_dataset *dataset;
    assert_int_equal(mr_dataset_open(tree_spec(&tree, "imagefolder", ""), &options, &dataset, NULL),
                     MR_OK);
    assert_true(seen[0] >= 1);
    assert_int_equal(seen[1], 37);
    mr_dataset_destroy(dataset);
}

static void a_chdir_of_the_program_has_no_effect(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "data/c/a.jpg");
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = open_dataset("data");
    assert_int_equal(chdir("/"), 0);
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_OK);
    assert_int_equal(info.len_bytes, 6);
    char name[64];
    assert_true(mr_dataset_name(dataset, 0, name, sizeof name) > 0);
    assert_string_equal(name, "data/c/a.jpg");
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_and_files_are_sorted),
        cmocka_unit_test(folders_within_a_class_are_ordered_by_their_whole_path),
        cmocka_unit_test(only_the_nine_extensions_count_in_any_case),
        cmocka_unit_test(names_of_any_bytes_are_listed_in_the_order_of_python),
        cmocka_unit_test(random_trees_equal_the_slow_oracle),
        cmocka_unit_test(links_to_folders_are_folders_and_everything_else_is_a_file),
        cmocka_unit_test(a_link_back_is_skipped_with_a_warning),
        cmocka_unit_test(an_empty_class_is_named_unless_allowed),
        cmocka_unit_test(without_labels_all_images_below_the_folder_count),
        cmocka_unit_test(a_root_that_is_missing_a_file_or_without_folders_is_an_error),
        cmocka_unit_test(an_unreadable_folder_is_an_error_that_names_it),
        cmocka_unit_test(paths_up_to_the_limit_work_and_longer_ones_are_an_error),
        cmocka_unit_test(progress_is_reported_up_to_the_number_of_files),
        cmocka_unit_test(a_chdir_of_the_program_has_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
