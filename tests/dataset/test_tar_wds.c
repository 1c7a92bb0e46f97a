/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of wds2idx: used if they agree with the shard, otherwise the headers are read. */
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
#include "tests/dataset/tree.h"
#include "tests/support/shards.h"

/* Three samples, and members that an index does not list: folders, and extended headers. */
static const struct {
    char type;
    const char *name;
    const char *text;
} parts[] = {
    {'5', "d/", ""},     {'0', "a.jpg", "x"}, {'0', "a.cls", "1"}, {'x', "pax", "13 mtime=1.5\n"},
    {'0', "b.jpg", "x"}, {'0', "b.cls", "1"}, {'5', "e/", ""},     {'5', "f/", ""},
    {'0', "c.jpg", "x"}, {'0', "c.cls", "1"}};
enum {
    N_PARTS = sizeof parts / sizeof *parts,
    N_FILES = 6,
    N_SAMPLES = 3,
    ALL = (1 << N_FILES) - 1
};

struct rig {
    struct tree tree;
    struct mr_test_shard shard;
    size_t headers[N_FILES]; /* start of the header of each file */
    size_t ends[N_FILES];    /* end of the data of the file before it */
};

static void set_time(const struct tree *tree, const char *name, int seconds)
{
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000 + seconds}};
    assert_int_equal(utimensat(AT_FDCWD, tree_at(tree, name), times, 0), 0);
}

static void rig_write(const struct rig *rig)
{
    tree_write(&rig->tree, "s.tar", rig->shard.bytes, rig->shard.len);
    set_time(&rig->tree, "s.tar", 0);
}

static void rig_create(struct rig *rig)
{
    size_t n = 0, end = 0;
    *rig = (struct rig){0};
    for (size_t i = 0; i < N_PARTS; i++) {
        size_t at = mr_test_shard_add_type(&rig->shard, parts[i].type, parts[i].name, parts[i].text,
                                           strlen(parts[i].text));
        if (parts[i].type == '0') {
            rig->ends[n] = end;
            rig->headers[n++] = at;
            end = rig->shard.len;
        }
    }
    assert_int_equal(n, N_FILES);
    tree_create(&rig->tree);
    rig_write(rig);
}

static void rig_destroy(struct rig *rig)
{
    mr_test_shard_free(&rig->shard);
    tree_destroy(&rig->tree);
}

/*
 * Write the index of some of the files, one bit for each. Its names differ from those in the shard,
 * so they show that it was used.
 */
static void write_index(const struct rig *rig, const char *version, unsigned files)
{
    char text[1024];
    int len = snprintf(text, sizeof text, "%s %d\n", version, __builtin_popcount(files));
    for (int i = 0; i < N_FILES; i++)
        if (files >> i & 1)
            len += snprintf(text + len, sizeof text - (size_t)len, "%s %zu 1 index-%c.%s\n",
                            i % 2 ? "cls" : "jpg", rig->headers[i] + 512, "abc"[i / 2],
                            i % 2 ? "cls" : "jpg");
    tree_write(&rig->tree, "s.idx", text, (size_t)len);
    set_time(&rig->tree, "s.idx", 0);
}

static void expect_first(const struct tree *tree, const char *keys, int64_t n, const char *name)
{
    char spec[4096], found[256];
    snprintf(spec, sizeof spec, "tar:%s/s.tar%s", tree->path, keys);
    mr_dataset *dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), n);
    assert_true(mr_dataset_relative_name(dataset, 0, found, sizeof found) > 0);
    assert_string_equal(found, name);
    mr_dataset_destroy(dataset);
}

/* With this, no index file is written: it cannot be placed below /dev/null. */
#define NO_INDEX_FILE "?index=cache"

static void expect_used(const struct rig *rig)
{
    expect_first(&rig->tree, NO_INDEX_FILE, N_SAMPLES, "s.tar/index-a.jpg");
}

static void expect_headers(const struct rig *rig)
{
    expect_first(&rig->tree, NO_INDEX_FILE, N_SAMPLES, "s.tar/a.jpg");
}

static void an_index_is_used_where_the_shard_agrees(void **state)
{
    (void)state;
    struct rig rig;
    rig_create(&rig);
    expect_headers(&rig);
    write_index(&rig, "v1.2", ALL);
    expect_used(&rig); /* the file ends after the last member */
    mr_test_shard_end(&rig.shard);
    rig_write(&rig);
    expect_used(&rig);
    write_index(&rig, "v1.1", ALL);
    expect_headers(&rig);
    write_index(&rig, "v1.2", ALL);
    set_time(&rig.tree, "s.idx", -1); /* the shard is newer */
    expect_headers(&rig);
    rig_destroy(&rig);
}

/* All samples are found, whichever members the index lacks. */
static void an_index_that_leaves_members_out_is_not_used(void **state)
{
    (void)state;
    struct rig rig;
    rig_create(&rig);
    mr_test_shard_end(&rig.shard);
    rig_write(&rig);
    for (unsigned files = 1; files < ALL; files++) {
        write_index(&rig, "v1.2", files);
        expect_headers(&rig);
    }
    rig_destroy(&rig);
}

/* 25 images, of which the index lists only the first and the last. */
static void the_first_and_the_last_member_are_not_the_whole_shard(void **state)
{
    (void)state;
    enum { N = 25 };
    struct tree tree;
    struct mr_test_shard shard = {0};
    char name[16], text[128];
    tree_create(&tree);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%02d.jpg", i);
        mr_test_shard_add_text(&shard, name, "x");
    }
    mr_test_shard_end(&shard);
    tree_write(&tree, "s.tar", shard.bytes, shard.len);
    mr_test_shard_free(&shard);
    int len = snprintf(text, sizeof text, "v1.2 2\njpg 512 1 00.jpg\njpg %d 1 24.jpg\n",
                       (N - 1) * 1024 + 512);
    tree_write(&tree, "s.idx", text, (size_t)len);
    expect_first(&tree, NO_INDEX_FILE, N, "s.tar/00.jpg");
}

/*
 * Only a scan of the headers can report where a shard is broken. A block of zeros ends the shard.
 */
static void an_index_of_a_broken_shard_is_not_used(void **state)
{
    (void)state;
    static const char fills[] = {'x', '\0'};
    for (size_t i = 0; i < sizeof fills; i++) {
        struct rig rig;
        rig_create(&rig);
        write_index(&rig, "v1.2", ALL);
        /* the folders before the last sample */
        memset(rig.shard.bytes + rig.ends[4], fills[i], 512);
        rig_write(&rig);
        /* a damaged sample stands for the broken place */
        expect_first(&rig.tree, NO_INDEX_FILE, fills[i] ? 4 : 2, "s.tar/a.jpg");
        rig_destroy(&rig);
    }
}

static void index_none_reads_the_headers(void **state)
{
    (void)state;
    struct rig rig;
    rig_create(&rig);
    write_index(&rig, "v1.2", ALL);
    expect_used(&rig);
    expect_first(&rig.tree, "?index=none", N_SAMPLES, "s.tar/a.jpg");
    rig_destroy(&rig);
}

/*
 * An index file is of the shard and of its index of wds2idx. A wrong index of wds2idx has no effect
 * after it was removed.
 */
static void an_index_file_is_used_until_the_index_of_wds2idx_changes(void **state)
{
    (void)state;
    struct rig rig;
    rig_create(&rig);
    expect_first(&rig.tree, "", N_SAMPLES, "s.tar/a.jpg");
    write_index(&rig, "v1.2", ALL);
    expect_first(&rig.tree, "", N_SAMPLES, "s.tar/index-a.jpg");
    expect_first(&rig.tree, "", N_SAMPLES, "s.tar/index-a.jpg"); /* from the index file */
    assert_int_equal(unlink(tree_at(&rig.tree, "s.idx")), 0);
    expect_first(&rig.tree, "", N_SAMPLES, "s.tar/a.jpg");
    rig_destroy(&rig);
}

/*
 * wds2idx takes the header of a long name for that of the member, so it states the offset of the
 * name.
 */
static void an_index_that_is_wrong_about_a_long_name_is_not_used(void **state)
{
    (void)state;
    struct rig rig = {0};
    static const char wrong[] =
        "v1.2 3\njpg 512 1 index-0.jpg\njpg 1536 5 1.jpg\njpg 3584 1 2.jpg\n";
    static const char right[] =
        "v1.2 3\njpg 512 1 index-0.jpg\njpg 2560 1 1.jpg\njpg 3584 1 2.jpg\n";
    tree_create(&rig.tree);
    mr_test_shard_add_text(&rig.shard, "0.jpg", "x");
    mr_test_shard_add_type(&rig.shard, 'L', "long", "1.jpg", 5);
    mr_test_shard_add_text(&rig.shard, "short", "x");
    mr_test_shard_add_text(&rig.shard, "2.jpg", "x");
    rig_write(&rig);
    tree_write(&rig.tree, "s.idx", wrong, sizeof wrong - 1);
    expect_first(&rig.tree, NO_INDEX_FILE, 3, "s.tar/0.jpg");
    tree_write(&rig.tree, "s.idx", right, sizeof right - 1);
    expect_first(&rig.tree, NO_INDEX_FILE, 3, "s.tar/index-0.jpg");
    rig_destroy(&rig);
}

/* Each text contradicts the shard or itself in one way. */
static void an_index_that_contradicts_itself_is_not_used(void **state)
{
    (void)state;
    /* twice */
    static const char *const texts[] = {
        "v1.2 1\njpg 512 1 index.jpg jpg 512 1 index.jpg\n",
        /* another suffix */
        "v1.2 1\nPNG 512 1 index.jpg\n",
        /* too few lines */
        "v1.2 2\njpg 512 1 index.jpg\n", "v1.2 0\njpg 512 1 index.jpg\n",
        "v1.2 1\njpg 512 2 index.jpg\n", /* another size */
        "v1.2 1\njpg 512 99999999 index.jpg\n", "v1.2 1\njpg 0 1 index.jpg\n",
        "v1.2 1\njpg 513 1 index.jpg\n", "v1.2 1\njpg 1024 1 index.jpg\n", "v1.2 1\njpg 512 1\n",
        "v1.2 1\n\n", "v1.2 1", "v1.2 0\n", ""};
    static const char good[] = "v1.2 1\njpg 512 1 index.jpg\n";
    struct rig rig = {0};
    tree_create(&rig.tree);
    mr_test_shard_add_text(&rig.shard, "a.jpg", "x");
    mr_test_shard_end(&rig.shard);
    rig_write(&rig);
    tree_write(&rig.tree, "s.idx", good, sizeof good - 1);
    expect_first(&rig.tree, NO_INDEX_FILE, 1, "s.tar/index.jpg");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tree_write(&rig.tree, "s.idx", texts[i], strlen(texts[i]));
        expect_first(&rig.tree, NO_INDEX_FILE, 1, "s.tar/a.jpg");
    }
    rig_destroy(&rig);
}

/* A FIFO with this name is not an index, and opening it does not block. */
static void an_index_that_is_not_a_file_is_not_used(void **state)
{
    (void)state;
    struct rig rig;
    rig_create(&rig);
    assert_int_equal(mkfifo(tree_at(&rig.tree, "s.idx"), 0600), 0);
    expect_headers(&rig);
    rig_destroy(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_is_used_where_the_shard_agrees),
        cmocka_unit_test(an_index_that_leaves_members_out_is_not_used),
        cmocka_unit_test(the_first_and_the_last_member_are_not_the_whole_shard),
        cmocka_unit_test(an_index_of_a_broken_shard_is_not_used),
        cmocka_unit_test(index_none_reads_the_headers),
        cmocka_unit_test(an_index_file_is_used_until_the_index_of_wds2idx_changes),
        cmocka_unit_test(an_index_that_is_wrong_about_a_long_name_is_not_used),
        cmocka_unit_test(an_index_that_contradicts_itself_is_not_used),
        cmocka_unit_test(an_index_that_is_not_a_file_is_not_used),
    };
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
