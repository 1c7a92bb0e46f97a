/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack with marks as a dataset: what the catalog says about marks, and the errors if their file
 * is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/pack_index.h"
#include "tests/dataset/invented_marks.h"
#include "tests/dataset/invented_pack.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

enum { N = 12, SHARD = 3000 };

static void make_pack(struct tree *tree)
{
    struct mr_pack_writer_options options = invented_options(N, SHARD);
    tree_create(tree);
    invented_write(tree_at(tree, "p"), &options);
    mark_pack(tree_at(tree, "p"));
}

static mr_dataset *open_pack(const struct tree *tree)
{
    return open_dataset(tree_spec(tree, "pack", "p"));
}

static void expect_error(const struct tree *tree, mr_status status, const char *words)
{
    expect_open_error(tree_spec(tree, "pack", "p"), status, words);
}

/* Check description, bytes and marks of all samples, as a worker reads them. */
static bool samples_are_right(const struct mr_catalog *catalog)
{
    bool good = mr_catalog_count(catalog) == N;
    for (int64_t i = 0; good && i < N; i++) {
        struct invented want;
        struct mr_extent bytes = mr_catalog_image(catalog, i), extent;
        struct mr_packed_image image;
        char path[MR_CATALOG_PATH] = "";
        uint8_t marks[INVENTED_MAX_MARKS];
        bool marked = is_marked((uint64_t)i);
        invent((uint64_t)i, &want);
        good = bytes.len == want.entry.image.len &&
               mr_catalog_packed(catalog, i, &image, NULL) == MR_OK && !image.marks &&
               (image.encoding == MR_PACKED_MARKED) == marked &&
               mr_catalog_path(catalog, bytes.file, path) == 0 && strncmp(path, "shard-", 6) == 0 &&
               mr_catalog_marks(catalog, i, &extent) == marked;
        if (good && marked)
            good = mr_catalog_path(catalog, extent.file, path) == 0 && strcmp(path, "marks") == 0 &&
                   extent.file == mr_catalog_n_files(catalog) - 1 &&
                   extent.len == image.marks_len &&
                   extent.len == invented_marks((uint64_t)i, marks) && extent.offset % 8 == 0;
        good = good && (marked || image.marks_len == 0);
    }
    return good;
}

static void the_file_of_marks_has_the_number_after_the_shards(void **state)
{
    (void)state;
    struct tree tree;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    assert_true(samples_are_right(mr_dataset_catalog(dataset)));
    mr_dataset_destroy(dataset);
}

static void another_process_sees_the_same_catalog(void **state)
{
    (void)state;
    struct tree tree;
    int status;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    pid_t pid = fork();
    if (pid == 0) {
        struct mr_catalog *catalog;
        _exit(mr_catalog_attach(mr_dataset_fds(dataset), &catalog, NULL) == MR_OK &&
                      samples_are_right(catalog)
                  ? 0
                  : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    mr_dataset_destroy(dataset);
}

static void marks_are_not_part_of_the_checksum_of_a_sample(void **state)
{
    (void)state;
    struct tree tree;
    struct invented want;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    for (int64_t i = 0; i < N; i++) {
        invent((uint64_t)i, &want);
        size_t len = (size_t)want.entry.image.len;
        assert_int_equal(mr_catalog_image(mr_dataset_catalog(dataset), i).len, len);
        assert_int_equal(mr_catalog_verify(mr_dataset_catalog(dataset), i, want.bytes, len, NULL),
                         MR_OK);
    }
    mr_dataset_destroy(dataset);
}

static void a_marked_sample_is_listed_as_a_file(void **state)
{
    (void)state;
    struct tree tree;
    struct invented want;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    invent(1, &want);
    assert_int_equal(mr_dataset_inspect(dataset, 1, &info, NULL), MR_OK);
    assert_string_equal(info.format, "jpeg");
    assert_int_equal(info.width, want.entry.image.width);
    assert_int_equal(info.height, want.entry.image.height);
    assert_int_equal(info.orientation, want.entry.image.orientation);
    assert_int_equal(info.len_bytes, want.entry.image.len);
    assert_int_equal(info.channels, 3);
    mr_dataset_destroy(dataset);
}

static void a_file_of_marks_that_differs_from_the_index_is_named(void **state)
{
    (void)state;
    struct tree tree;
    struct stat st;
    char words[64];
    make_pack(&tree);
    const char *marks = tree_at(&tree, "p/marks");
    assert_int_equal(stat(marks, &st), 0);
    assert_int_equal(truncate(marks, st.st_size - 1), 0);
    snprintf(words, sizeof words, "/p/marks has %jd bytes, the index says %jd",
             (intmax_t)st.st_size - 1, (intmax_t)st.st_size);
    expect_error(&tree, MR_ERR_DAMAGED, words);
    assert_int_equal(truncate(marks, st.st_size + 8), 0);
    expect_error(&tree, MR_ERR_DAMAGED, "/p/marks has ");
    assert_int_equal(remove(marks), 0);
    expect_error(&tree, MR_ERR_IO, "/p/marks: No such file or directory");
    assert_int_equal(mkdir(marks, 0777), 0);
    expect_error(&tree, MR_ERR_IO, "/p/marks is not a regular file");
}

static void a_pack_without_marks_needs_no_file_of_marks(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_extent extent;
    struct mr_pack_writer_options options = invented_options(N, SHARD);
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    tree_folder(&tree, "p/marks"); /* not a file of the pack */
    mr_dataset *dataset = open_pack(&tree);
    for (int64_t i = 0; i < N; i++)
        assert_false(mr_catalog_marks(mr_dataset_catalog(dataset), i, &extent));
    mr_dataset_destroy(dataset);
}

static void a_sample_whose_marks_are_outside_the_file_is_damaged_and_named(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_extent extent;
    struct mr_packed_image image;
    struct mr_pack_header header;
    mr_error error = {0};
    size_t len;
    make_pack(&tree);
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), &len);
    memcpy(&header, bytes, sizeof header);
    memset(bytes + header.sections[MR_PACK_MARKS].off + sizeof(struct mr_pack_marks), 0xff, 8);
    mend_index(bytes, len);
    write_whole(tree_at(&tree, "p/index"), bytes, len);
    free(bytes);
    mr_dataset *dataset = open_pack(&tree);
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    assert_error(mr_catalog_packed(catalog, 1, &image, &error), MR_ERR_DAMAGED, &error,
                 "/p/index (n01/file 1.JPEG, index 1): its entry in the index points outside");
    assert_false(mr_catalog_marks(catalog, 1, &extent));
    assert_true(mr_catalog_marks(catalog, 6, &extent));
    mr_dataset_destroy(dataset);
}

static void an_error_may_name_the_file_of_marks(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_extent extent;
    char which[MR_CATALOG_DESCRIPTION];
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    assert_true(mr_catalog_marks(catalog, 1, &extent));
    mr_catalog_describe_file(catalog, 1, extent.file, which);
    assert_words(which, "/p/marks (n01/file 1.JPEG, index 1)");
    mr_catalog_describe_file(catalog, 1, 0, which);
    assert_words(which, "/p/shard-00000 (n01/file 1.JPEG, index 1)");
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_of_marks_has_the_number_after_the_shards),
        cmocka_unit_test(another_process_sees_the_same_catalog),
        cmocka_unit_test(marks_are_not_part_of_the_checksum_of_a_sample),
        cmocka_unit_test(a_marked_sample_is_listed_as_a_file),
        cmocka_unit_test(a_file_of_marks_that_differs_from_the_index_is_named),
        cmocka_unit_test(a_pack_without_marks_needs_no_file_of_marks),
        cmocka_unit_test(a_sample_whose_marks_are_outside_the_file_is_damaged_and_named),
        cmocka_unit_test(an_error_may_name_the_file_of_marks),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
