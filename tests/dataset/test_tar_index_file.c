/* SPDX-License-Identifier: Apache-2.0 */
/* Index files of shards: used while the shard does not change, and never trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "dataset/catalog_format.h"
#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/shards.h"

enum { N = 5 };

/*
 * Write a shard of N samples, all with one label; all shards have the same size. time: seconds
 * after a fixed time.
 */
static void write_shard(const struct tree *tree, const char *name, const char *label, int seconds)
{
    struct mr_test_shard shard = {0};
    for (int i = 0; i < N; i++) {
        char member[32];
        snprintf(member, sizeof member, "%d.jpg", i);
        mr_test_shard_add_text(&shard, member, "x");
        snprintf(member, sizeof member, "%d.cls", i);
        mr_test_shard_add_text(&shard, member, label);
        snprintf(member, sizeof member, "%d.json", i);
        mr_test_shard_add_text(&shard, member, "{\"y\":8}");
    }
    mr_test_shard_end(&shard);
    tree_write(tree, name, shard.bytes, shard.len);
    mr_test_shard_free(&shard);
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000 + seconds}};
    assert_int_equal(utimensat(AT_FDCWD, tree_at(tree, name), times, 0), 0);
}

static void expect_labels(const struct tree *tree, const char *name, const char *keys,
                          int64_t label)
{
    char spec[4096];
    snprintf(spec, sizeof spec, "tar:%s/%s%s", tree->path, name, keys);
    mr_dataset *dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), N);
    for (int i = 0; i < N; i++)
        assert_int_equal(label_of(dataset, i), label);
    mr_dataset_destroy(dataset);
}

/* Count the index files in a folder of the tree, and write the name of one of them, or "". */
static int count_index_files(const struct tree *tree, const char *folder, char name_out[256])
{
    int n = 0;
    name_out[0] = '\0';
    DIR *dir = opendir(tree_at(tree, folder));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && strcmp(dot, ".millrace") == 0) {
            snprintf(name_out, 256, "%s", entry->d_name);
            n++;
        }
        assert_null(strstr(entry->d_name, ".tmp"));
    }
    if (dir)
        closedir(dir);
    return n;
}

static void an_index_file_is_used_until_size_or_time_change(void **state)
{
    (void)state;
    struct tree tree;
    char name[256];
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 1);
    /* size and time are the same, so the old index is used */
    write_shard(&tree, "s.tar", "2", 0);
    expect_labels(&tree, "s.tar", "", 1);
    expect_labels(&tree, "s.tar", "?index=none", 2);
    write_shard(&tree, "s.tar", "2", 1);
    expect_labels(&tree, "s.tar", "", 2);
    expect_labels(&tree, "s.tar", "?label=json:y",
                  8); /* the index of another recipe is a second file */
    assert_int_equal(count_index_files(&tree, ".", name), 2);
    expect_labels(&tree, "*.tar", "", 2); /* a glob does not match the index files */
}

static void no_index_file_is_written_where_it_must_not_be(void **state)
{
    (void)state;
    struct tree tree;
    char name[256];
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    expect_labels(&tree, "s.tar", "?index=none", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 0);
    const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    /* changed just now: it may change again */
    assert_int_equal(utimensat(AT_FDCWD, tree_at(&tree, "s.tar"), now, 0), 0);
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 0);
}

static void if_the_folder_cannot_be_written_the_cache_folder_is_used(void **state)
{
    (void)state;
    struct tree tree;
    char name[256], shard[256];
    tree_create(&tree);
    setenv("XDG_CACHE_HOME", tree_at(&tree, "cache"), 1);
    memset(shard, 'a', 240); /* no longer name is possible */
    snprintf(shard + 240, sizeof shard - 240, ".tar");
    write_shard(&tree, shard, "1", 0);
    expect_labels(&tree, shard, "?index=beside", 1);
    assert_int_equal(count_index_files(&tree, "cache/millrace", name), 0);
    expect_labels(&tree, shard, "", 1);
    assert_int_equal(count_index_files(&tree, "cache/millrace", name), 1);
    write_shard(&tree, shard, "2", 0);
    expect_labels(&tree, shard, "", 1);
    expect_labels(&tree, shard, "?index=beside", 2);
    unsetenv("XDG_CACHE_HOME");
}

static void set_age(const struct tree *tree, const char *name, int days)
{
    const struct timespec time_ = {.tv_sec = time(NULL) - days * 86400};
    const struct timespec times[2] = {time_, time_};
    assert_int_equal(utimensat(AT_FDCWD, tree_at(tree, name), times, 0), 0);
}

static void files_of_the_cache_folder_that_are_not_used_are_removed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int days;
        bool stays;
    } files[] = {
        {"cache/millrace/0123456789abcdef.millrace", 61, false},
        {"cache/millrace/0123456789abcdef.millrace.tmp", 61, false},
        {"cache/millrace/1123456789abcdef.millrace", 59, true},
        {"cache/millrace/123456789abcdef.millrace", 61, true}, /* not ours */
        {"cache/millrace/0123456789abcdef.json", 61, true},
        {"cache/0123456789abcdef.millrace", 61, true},
    };
    struct tree tree;
    struct stat st;
    char name[256], path[300];
    tree_create(&tree);
    setenv("XDG_CACHE_HOME", tree_at(&tree, "cache"), 1);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            tree_write(&tree, files[i].name, "x", 1);
            set_age(&tree, files[i].name, files[i].days);
        }
        write_shard(&tree, "s.tar", "1", round);
        expect_labels(&tree, "s.tar", "?index=cache", 1);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            assert_int_equal(access(tree_at(&tree, files[i].name), F_OK) == 0,
                             files[i].stays || round > 0); /* once in a process */
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        remove(tree_at(&tree, files[i].name));
    assert_int_equal(count_index_files(&tree, "cache/millrace", name), 1);
    snprintf(path, sizeof path, "cache/millrace/%s", name);
    set_age(&tree, path, 61);
    expect_labels(&tree, "s.tar", "?index=cache", 1);
    assert_int_equal(stat(tree_at(&tree, path), &st), 0);
    assert_true(st.st_mtim.tv_sec > time(NULL) - 3600); /* it was used */
    unsetenv("XDG_CACHE_HOME");
}

/* Whatever is in the index file, the samples are those of the shard. */
static void a_damaged_index_file_is_ignored(void **state)
{
    (void)state;
    struct tree tree;
    char name[256], bytes[4096];
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 1);
    FILE *file = fopen(tree_at(&tree, name), "rb");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(len > 100 && len < sizeof bytes);
    for (size_t i = 0; i < len; i += 3) {
        bytes[i] ^= 0x21;
        tree_write(&tree, name, bytes, len);
        expect_labels(&tree, "s.tar", "", 1);
        bytes[i] ^= 0x21;
        tree_write(&tree, name, bytes, i);
        expect_labels(&tree, "s.tar", "", 1);
    }
}

static void set_time(const struct tree *tree, const char *name)
{
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    assert_int_equal(utimensat(AT_FDCWD, tree_at(tree, name), times, 0), 0);
}

/* Another maximum gives another recipe. */
static void an_index_file_is_of_one_maximum_of_an_extra_member(void **state)
{
    (void)state;
    struct tree tree;
    int64_t label;
    char spec[4096];
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    for (int i = 0; i < 2; i++) {
        snprintf(spec, sizeof spec, "tar:%s/s.tar?keep=json:6", tree.path);
        mr_dataset *dataset = open_dataset(spec);
        assert_int_equal(mr_dataset_label(dataset, 0, &label, NULL), MR_ERR_IO);
        mr_dataset_destroy(dataset);
        expect_labels(&tree, "s.tar", "?keep=json:7", 1);
    }
}

/* The name of a field may look like the suffixes that follow it. */
static void no_two_recipes_share_an_index_file(void **state)
{
    (void)state;
    struct tree tree;
    int64_t label;
    char spec[4096];
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    snprintf(spec, sizeof spec, "tar:%s/s.tar?label=json:y%%20image,png&image=jpg", tree.path);
    mr_dataset *dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_label(dataset, 0, &label, NULL), MR_ERR_IO);
    mr_dataset_destroy(dataset);
    expect_labels(&tree, "s.tar", "?label=json:y&image=png%20image,jpg", 8);
}

/* Its warnings are logged at every opening. */
static void a_broken_shard_has_no_index_file(void **state)
{
    (void)state;
    struct tree tree;
    char name[256];
    struct mr_test_shard shard = {0};
    tree_create(&tree);
    mr_test_shard_add_text(&shard, "a.jpg", "x");
    size_t at = mr_test_shard_add_text(&shard, "b.jpg", "x");
    memset(shard.bytes + at, 'x', 512);
    mr_test_shard_add_text(&shard, "c.jpg", "x");
    tree_write(&tree, "s.tar", shard.bytes, shard.len);
    mr_test_shard_free(&shard);
    set_time(&tree, "s.tar");
    mr_dataset_destroy(open_dataset(tree_spec(&tree, "tar", "s.tar")));
    assert_int_equal(count_index_files(&tree, ".", name), 0);
}

/*
 * The lengths of the header and of its part before the checksum; the offset of the length of the
 * recipe.
 */
enum { HEADER = 88, SUMMED = 80, RECIPE_LEN_AT = 12, MAX_FILE = 4096 };

struct forgery {
    struct tree tree;
    char name[256];
    uint8_t bytes[MAX_FILE];
    size_t len;
    size_t members_at; /* offset of N struct mr_catalog_member, N struct mr_catalog_extra, names */
};

static void begin_forgery(struct forgery *forgery)
{
    uint32_t recipe_len;
    tree_create(&forgery->tree);
    write_shard(&forgery->tree, "s.tar", "1", 0);
    expect_labels(&forgery->tree, "s.tar", "?keep=json:7", 1);
    assert_int_equal(count_index_files(&forgery->tree, ".", forgery->name), 1);
    FILE *file = fopen(tree_at(&forgery->tree, forgery->name), "rb");
    assert_non_null(file);
    forgery->len = fread(forgery->bytes, 1, MAX_FILE, file);
    fclose(file);
    memcpy(&recipe_len, forgery->bytes + RECIPE_LEN_AT, sizeof recipe_len);
    forgery->members_at = HEADER + recipe_len;
}

/* Write it with the right checksum, so the checksum does not refuse it. */
static void write_forgery(struct forgery *forgery)
{
    uint64_t sum =
        mr_xxh3_pair(forgery->bytes, SUMMED, forgery->bytes + HEADER, forgery->len - HEADER);
    memcpy(forgery->bytes + SUMMED, &sum, sizeof sum);
    tree_write(&forgery->tree, forgery->name, forgery->bytes, forgery->len);
}

static void put_u64(struct forgery *forgery, size_t at, uint64_t value)
{
    memcpy(forgery->bytes + at, &value, sizeof value);
}

/* An index file may be forged. A label of 9 shows that it was used. */
static void a_forged_index_is_used_only_if_it_fits_the_shard(void **state)
{
    (void)state;
    enum { MEMBER = sizeof(struct mr_catalog_member), FURTHER = sizeof(struct mr_catalog_extra) };
    struct forgery truth, forgery;
    begin_forgery(&truth);
    for (int i = 0; i < N; i++) /* the label is the last 8 bytes of a member */
        put_u64(&truth, truth.members_at + (size_t)i * MEMBER + MEMBER - 8, 9);
    write_forgery(&truth);
    expect_labels(&truth.tree, "s.tar", "?keep=json:7", 9);
    size_t extra_at = truth.members_at + N * MEMBER, names_at = extra_at + N * FURTHER;
    const struct {
        size_t at;
        uint64_t value;
    } wrong[] = {{truth.members_at, UINT64_MAX},              /* offset of an image */
                 {truth.members_at, 1 << 20},                 /* after the end of the shard */
                 {truth.members_at + 8, UINT64_C(200) << 56}, /* an unknown problem */
                 {extra_at + FURTHER, UINT64_MAX - 3},        /* offset of an extra member */
                 {extra_at + FURTHER + 8, 8},                 /* above its maximum */
                 {names_at, 0},                               /* empty names */
                 /* an empty name, then the next name */
                 {names_at, UINT64_C(0x2e316167706a2e00)},
                 {truth.len - 8, UINT64_C(0x6161616161616161)}, /* no NUL at the end */
                 {8, 99},                                       /* another version */
                 {64, N - 1},                                   /* fewer samples than names */
                 {64, UINT64_MAX / 16}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        forgery = truth;
        put_u64(&forgery, wrong[i].at, wrong[i].value);
        write_forgery(&forgery);
        expect_labels(&truth.tree, "s.tar", "?keep=json:7", 1);
    }
    forgery = truth; /* one name more */
    put_u64(&forgery, 72, truth.len - names_at + 2);
    memcpy(forgery.bytes + forgery.len, "x", 2);
    forgery.len += 2;
    write_forgery(&forgery);
    expect_labels(&truth.tree, "s.tar", "?keep=json:7", 1);
    tree_destroy(&truth.tree);
}

/*
 * A temporary file of another process is left alone for a minute. After that its writer must have
 * been killed, and the file is replaced.
 */
static void a_file_that_a_killed_process_left_is_replaced(void **state)
{
    (void)state;
    struct tree tree;
    char name[256], left[320];
    const struct timespec old[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 1);
    assert_int_equal(unlink(tree_at(&tree, name)), 0);
    snprintf(left, sizeof left, "%s.tmp", name);
    tree_file(&tree, left);
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(access(tree_at(&tree, left), F_OK), 0);
    assert_int_not_equal(access(tree_at(&tree, name), F_OK), 0);
    assert_int_equal(utimensat(AT_FDCWD, tree_at(&tree, left), old, 0), 0);
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 1); /* and no other file */
}

/* The index of wds2idx may change again without a new modification time. */
static void a_new_index_of_wds2idx_prevents_an_index_file(void **state)
{
    (void)state;
    struct tree tree;
    char name[256];
    tree_create(&tree);
    write_shard(&tree, "s.tar", "1", 0);
    tree_file(&tree, "s.idx");
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 0);
    set_time(&tree, "s.idx");
    expect_labels(&tree, "s.tar", "", 1);
    assert_int_equal(count_index_files(&tree, ".", name), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_file_is_used_until_size_or_time_change),
        cmocka_unit_test(no_index_file_is_written_where_it_must_not_be),
        cmocka_unit_test(if_the_folder_cannot_be_written_the_cache_folder_is_used),
        cmocka_unit_test(files_of_the_cache_folder_that_are_not_used_are_removed),
        cmocka_unit_test(a_damaged_index_file_is_ignored),
        cmocka_unit_test(a_file_that_a_killed_process_left_is_replaced),
        cmocka_unit_test(a_new_index_of_wds2idx_prevents_an_index_file),
        cmocka_unit_test(an_index_file_is_of_one_maximum_of_an_extra_member),
        cmocka_unit_test(no_two_recipes_share_an_index_file),
        cmocka_unit_test(a_broken_shard_has_no_index_file),
        cmocka_unit_test(a_forged_index_is_used_only_if_it_fits_the_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
