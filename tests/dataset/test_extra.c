/* SPDX-License-Identifier: Apache-2.0 */
/* Further members of samples in folders and lists: where their files are, and what is refused. */
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

enum { SPEC_BYTES = 4 * PATH_MAX };

static struct tree tree;

static int set_up(void **state)
{
    (void)state;
    tree_create(&tree);
    tree_file(&tree, "photos/cat/a.b.jpg");
    tree_file(&tree, "photos/cat/deep/c.PNG");
    tree_file(&tree, "photos/dog/.jpg");
    tree_file(&tree, "photos/dog/d.jpg");
    tree_file(&tree, "photos/dog/d.png");
    tree_folder(&tree, "masks");
    tree_folder(&tree, "odd:,%&?/x");
    return 0;
}

/* The absolute path of member k of a sample, "" if the sample does not have it. */
static const char *member_path(const mr_dataset *dataset, int64_t i, uint32_t k)
{
    static char path[MR_CATALOG_PATH];
    struct mr_extent members[MR_MAX_MEMBERS];
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    mr_catalog_members(catalog, i, members);
    path[0] = '\0';
    if (members[k].len == 0)
        return path;
    assert_int_equal(members[k].offset, 0);
    assert_true(members[k].len == MR_LEN_UNKNOWN);
    assert_int_equal(mr_catalog_path(catalog, members[k].file, path), 0);
    return path;
}

static void expect_member(const mr_dataset *dataset, int64_t i, uint32_t k, const char *name)
{
    assert_string_equal(member_path(dataset, i, k), *name ? tree_at(&tree, name) : "");
}

static mr_dataset *open_folder(const char *keys)
{
    static char spec[SPEC_BYTES];
    snprintf(spec, sizeof spec, "%s?%s", tree_spec(&tree, "imagefolder", "photos"), keys);
    return open_dataset(spec);
}

static const char *write_list(const char *text, const char *keys)
{
    static char spec[SPEC_BYTES];
    tree_write(&tree, "list.txt", text, strlen(text));
    snprintf(spec, sizeof spec, "%s%s", tree_spec(&tree, "list", "list.txt"), keys);
    return spec;
}

static void a_member_has_the_name_of_its_image_in_its_folder(void **state)
{
    (void)state;
    static const char *const stems[] = {"cat/a.b", "cat/deep/c", "dog/", "dog/d", "dog/d"};
    char name[PATH_MAX], which[MR_CATALOG_DESCRIPTION];
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = open_folder(
        "extra=Seg:9:.png:masks,note:16777216:_n%2C%3A:odd:%2C%25%26?/x,bare:1::masks/");
    assert_int_equal(chdir("/"), 0);
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    assert_int_equal(kind->n_extra, 3);
    assert_string_equal(kind->extra[0].name, "seg");
    assert_string_equal(kind->extra[0].offsets, "seg.offsets");
    assert_int_equal(kind->extra[1].max_bytes, 16777216);
    assert_int_equal(mr_dataset_n_samples(dataset), 5);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "masks/%s.png", stems[i]);
        expect_member(dataset, i, 0, name);
        snprintf(name, sizeof name, "odd:,%%&?/x/%s_n,:", stems[i]);
        expect_member(dataset, i, 1, name);
        snprintf(name, sizeof name, "masks/%s", stems[i]);
        expect_member(dataset, i, 2, name);
    }
    assert_string_equal(path_of(dataset, 1), "cat/deep/c.PNG");
    mr_catalog_describe_file(mr_dataset_catalog(dataset), 1, 5 + 1, which);
    snprintf(name, sizeof name, "%s/masks/cat/deep/c.png (index 1)", tree.path);
    assert_string_equal(which, name);
    mr_dataset_destroy(dataset);
}

static void a_folder_without_labels_has_members_too(void **state)
{
    (void)state;
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = open_folder("label=none&extra=seg:9:.png:masks");
    expect_member(dataset, 4, 0, "masks/dog/d.png");
    mr_dataset_destroy(dataset);
}

static void expect_refusal(const char *keys, mr_status status, const char *words)
{
    char spec[SPEC_BYTES];
    snprintf(spec, sizeof spec, "%s?extra=%s", tree_spec(&tree, "imagefolder", "photos"), keys);
    expect_open_error(spec, status, words);
}

static void a_wrong_item_is_refused_with_its_form(void **state)
{
    (void)state;
    static const char *const items[] = {"",
                                        "a",
                                        "a:1",
                                        "a:1:.png",
                                        ":1:.png:masks",
                                        "a:0:.png:masks",
                                        "a:16777217:.png:masks",
                                        "a:1x:.png:masks",
                                        "a%2Fb:1:.png:masks",
                                        "aaaaaaaabbbbbbbbccccccccdddddddd:1:.png:masks"};
    assert_int_equal(chdir(tree.path), 0);
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        char list[128];
        snprintf(list, sizeof list, "m:1:.png:masks,%s", items[i]);
        expect_refusal(list, MR_ERR_INVALID, "of imagefolder is not NAME:BYTES:SUFFIX:DIR; NAME ");
    }
    expect_refusal("a:1:.png:masks,A:2:.gif:masks", MR_ERR_INVALID,
                   "extra 'A:2:.gif:masks' of imagefolder: 'a' is named twice");
    expect_refusal("a.offsets:1:.png:masks", MR_ERR_INVALID, "ends with .offsets");
    expect_refusal("a:1::masks,b:1::masks,c:1::masks,d:1::masks", MR_ERR_INVALID,
                   "extra 'd:1::masks' of imagefolder is above the limit of 3 members");
    expect_refusal("a:1:.png:absent", MR_ERR_IO, "cannot open the folder absent");
    expect_refusal("a:1:.png:", MR_ERR_IO, "cannot open the folder ");
    expect_refusal("a:1:.png:photos/dog/d.jpg", MR_ERR_IO, "photos/dog/d.jpg: Not a directory");
    expect_open_error(write_list("a\t1\tb\n", "?extra=a:1:.png"), MR_ERR_INVALID,
                      "extra 'a:1:.png' of list is not NAME:BYTES; NAME has 1 to 31 bytes");
}

static void lines_of_a_list_name_the_members(void **state)
{
    (void)state;
    mr_dataset *dataset = open_dataset(write_list("# classes:\tx\n"
                                                  "a.jpg\t7\tm/a,.png\t/abs/t\\t.txt\r\n"
                                                  "b.jpg\t8\t\t\\\\b\n"
                                                  "c.jpg\t9\tc c\t\r\n"
                                                  "d.jpg\t10\t\t",
                                                  "?extra=seg:9,Text%3A:4"));
    static const char *const paths[4][2] = {
        {"m/a,.png", "/abs/t\t.txt"}, {"", "\\b"}, {"c c", ""}, {"", ""}};
    char which[MR_CATALOG_DESCRIPTION], name[PATH_MAX];
    assert_string_equal(mr_dataset_kind(dataset)->extra[1].name, "text:");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(label_of(dataset, i), 7 + i);
        for (uint32_t k = 0; k < 2; k++)
            assert_string_equal(member_path(dataset, i, k), paths[i][k]);
    }
    mr_catalog_describe_file(mr_dataset_catalog(dataset), 2, 4 + 2, which);
    snprintf(name, sizeof name, "%s/c c (index 2)", tree.path);
    assert_string_equal(which, name);
    mr_dataset_destroy(dataset);
}

static void a_line_with_more_or_fewer_paths_is_refused_by_its_number(void **state)
{
    (void)state;
    expect_open_error(write_list("a\t1\tm\nb\t2\n", "?extra=seg:9"), MR_ERR_DAMAGED,
                      "list.txt:2: the line has 0 further paths, the key extra names 1");
    expect_open_error(write_list("a\t1\tm\t\n", "?extra=seg:9"), MR_ERR_DAMAGED,
                      "list.txt:1: the line has 2 further paths, the key extra names 1");
    expect_open_error(write_list("# classes:\tx\na\t1\tm\n", ""), MR_ERR_DAMAGED,
                      "list.txt:2: the line has 1 further paths, the key extra names 0");
    expect_open_error(write_list("a\t1\tm\\x\n", "?extra=seg:9"), MR_ERR_DAMAGED,
                      "list.txt:1: the path is empty, or has a zero byte, or a backslash");
}

/* The saved list names the same files, wherever it is. */
/* Make an empty file and the folders above it. */
static void make_file(const char *path)
{
    char command[2 * MR_CATALOG_PATH + 64];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\" && : >'%s'", path, path);
    assert_int_equal(system(command), 0);
}

/* The field of a file that does not exist is empty. */
static void a_saved_list_has_the_members(void **state)
{
    (void)state;
    static const char *const keys = "extra=seg:9:.png:masks,n:4:%0D:odd:%2C%25%26?/x";
    static const char *const places[] = {"saved.txt", "photos/saved.txt", "masks/cat/saved.txt"};
    char spec[SPEC_BYTES], paths[2][MR_CATALOG_PATH];
    tree_folder(&tree, "masks/cat");
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = open_folder(keys);
    for (int64_t i = 0; i < 10; i++)
        if (i != 1)
            make_file(member_path(dataset, i / 2, i % 2));
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        mr_error error = {0};
        assert_ok(mr_dataset_save_list(dataset, tree_at(&tree, places[p]), &error), &error);
        snprintf(spec, sizeof spec, "%s?extra=seg:9,n:4", tree_spec(&tree, "list", places[p]));
        mr_dataset *list = open_dataset(spec);
        for (int64_t i = 0; i < 5; i++) {
            for (uint32_t k = 0; k < 2; k++) {
                const char *name = member_path(list, i, k);
                const char *folder =
                    *name == '/' ? "" : mr_catalog_absolute_root(mr_dataset_catalog(list));
                snprintf(paths[0], sizeof paths[0], "%s%s%s", folder, *folder ? "/" : "", name);
                snprintf(paths[1], sizeof paths[1], "%s",
                         i * 2 + k == 1 ? "" : member_path(dataset, i, k));
                if (!*name)
                    paths[0][0] = '\0';
                assert_string_equal(paths[0], paths[1]);
            }
            assert_int_equal(label_of(list, i), label_of(dataset, i));
        }
        mr_dataset_destroy(list);
    }
    mr_dataset_destroy(dataset);
}

/* A field without a path stays empty. */
static void a_list_that_is_saved_again_is_the_same(void **state)
{
    (void)state;
    static const char text[] = "a\t1,2\tm\t\nb\t3,4\t\tn\\t\r\r\n";
    char again[sizeof text];
    mr_error error = {0};
    mr_dataset *dataset = open_dataset(write_list(text, "?extra=seg:9,n:1"));
    assert_ok(mr_dataset_save_list(dataset, tree_at(&tree, "again.txt"), &error), &error);
    FILE *file = fopen(tree_at(&tree, "again.txt"), "r");
    assert_non_null(file);
    assert_int_equal(fread(again, 1, sizeof again, file), sizeof text - 1);
    assert_memory_equal(again, text, sizeof text - 1);
    fclose(file);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_has_the_name_of_its_image_in_its_folder),
        cmocka_unit_test(a_folder_without_labels_has_members_too),
        cmocka_unit_test(a_wrong_item_is_refused_with_its_form),
        cmocka_unit_test(lines_of_a_list_name_the_members),
        cmocka_unit_test(a_line_with_more_or_fewer_paths_is_refused_by_its_number),
        cmocka_unit_test(a_saved_list_has_the_members),
        cmocka_unit_test(a_list_that_is_saved_again_is_the_same),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
