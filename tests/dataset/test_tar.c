/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar shards as a dataset: which members are samples, their order, names and labels, and what is
 * lost in broken shards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/file.h"
#include "tests/dataset/tree.h"
#include "tests/support/shards.h"
#include "tests/support/assert_words.h"

static void write_shard(const struct tree *tree, const char *name, struct mr_test_shard *shard)
{
    mr_test_shard_end(shard);
    tree_write(tree, name, shard->bytes, shard->len);
    mr_test_shard_free(shard);
}

/* Write n samples NAME/000.jpg with a label each, counting from first. */
static void write_plain(const struct tree *tree, const char *name, int first, int n)
{
    struct mr_test_shard shard = {0};
    for (int i = first; i < first + n; i++) {
        char member[64], text[16];
        snprintf(member, sizeof member, "%03d.jpg", i);
        snprintf(text, sizeof text, "image %d", i);
        mr_test_shard_add_text(&shard, member, text);
        snprintf(member, sizeof member, "%03d.cls", i);
        snprintf(text, sizeof text, "%d\n", i);
        mr_test_shard_add_text(&shard, member, text);
    }
    write_shard(tree, name, &shard);
}

static const char *with_keys(const char *spec, const char *keys)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s%s", spec, keys);
    return text;
}

/* The name of a sample, relative to the folder of the dataset. */
static const char *get_name(const mr_dataset *dataset, int64_t i)
{
    static char name[512];
    assert_true(mr_dataset_relative_name(dataset, i, name, sizeof name) > 0);
    return name;
}

static void expect_bytes(const mr_dataset *dataset, int64_t i, const char *text)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_extent extent = mr_catalog_image(catalog, i);
    char bytes[64] = "";
    assert_int_equal(extent.len, strlen(text));
    int fd;
    size_t n;
    assert_int_equal(mr_file_open_sample(catalog, i, extent.file, &fd, NULL), MR_OK);
    assert_int_equal(mr_file_read_at(fd, extent.offset, bytes, extent.len, &n), 0);
    close(fd);
    assert_string_equal(bytes, text);
}

static void expect_damaged(mr_dataset *dataset, int64_t i, const char *words)
{
    mr_error error = {0};
    int64_t label = 77;
    assert_int_equal(mr_dataset_label(dataset, i, &label, &error), MR_ERR_IO);
    assert_int_equal(error.status, MR_ERR_IO);
    assert_int_equal(label, 77);
    assert_words(error.text, words);
}

static void members_are_samples_in_their_order(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    write_plain(&tree, "b.tar", 3, 2);
    write_plain(&tree, "a.tar", 0, 3);
    char spec[4096];
    snprintf(spec, sizeof spec, "%s,%s", tree_spec(&tree, "tar", "b.tar"), tree_at(&tree, "a.tar"));
    mr_dataset *dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), 5);
    assert_string_equal(get_name(dataset, 0), "b.tar/003.jpg");
    assert_string_equal(get_name(dataset, 1), "b.tar/004.jpg");
    assert_string_equal(get_name(dataset, 2), "a.tar/000.jpg");
    assert_string_equal(get_name(dataset, 4), "a.tar/002.jpg");
    expect_bytes(dataset, 1, "image 4");
    expect_bytes(dataset, 4, "image 2");
    assert_int_equal(label_of(dataset, 0), 3);
    assert_int_equal(label_of(dataset, 4), 2);
    mr_dataset_destroy(dataset);
}

static void braces_and_globs_name_shards(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    write_plain(&tree, "t-08.tar", 8, 1);
    write_plain(&tree, "t-09.tar", 9, 1);
    write_plain(&tree, "t-10.tar", 10, 1);
    write_plain(&tree, "a*b.tar", 50, 1);
    write_plain(&tree, "axb.tar", 60, 1);
    static const struct {
        const char *pattern;
        int n, first, last;
    } cases[] = {{"t-{08..10}.tar", 3, 8, 10},   {"t-0{8..9}.tar", 2, 8, 9}, {"t-*.tar", 3, 8, 10},
                 {"t-0[89].tar", 2, 8, 9},       {"a%2Ab.tar", 1, 50, 50},   {"a*b.tar", 2, 50, 60},
                 {"t-{0..1}{0..0}.tar", 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spec[4096];
        snprintf(spec, sizeof spec, "tar:%s/%s", tree.path, cases[i].pattern);
        if (cases[i].n == 0) {
            expect_open_error(spec, MR_ERR_IO, "t-00.tar");
            continue;
        }
        mr_dataset *dataset = open_dataset(spec);
        assert_int_equal(mr_dataset_n_samples(dataset), cases[i].n);
        assert_int_equal(label_of(dataset, 0), cases[i].first);
        assert_int_equal(label_of(dataset, cases[i].n - 1), cases[i].last);
        mr_dataset_destroy(dataset);
    }
    expect_open_error(with_keys("tar:", tree_at(&tree, "x*.tar")), MR_ERR_IO, "no shard matches");
    expect_open_error(with_keys("tar:", tree_at(&tree, "{a,b}.tar")), MR_ERR_INVALID,
                      "is not a range of numbers");
    expect_open_error(with_keys("tar:", tree_at(&tree, "{3..1}.tar")), MR_ERR_INVALID,
                      "is not a range of numbers");
    char many[17 * 6 + 1] = "";
    for (int i = 0; i < 17; i++)
        strcat(many, "{0..0}");
    expect_open_error(with_keys("tar:", many), MR_ERR_INVALID,
                      "has 17 braces, above the limit of 16");
    expect_open_error(with_keys("tar:", many + 6), MR_ERR_IO, "the shard 0000000000000000:");
}

/*
 * A suffix begins after the first dot of the base name. A member with another stem ends a sample.
 */
static void consecutive_members_with_one_stem_are_a_sample(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct mr_test_shard shard = {0};
    mr_test_shard_add_text(&shard, "__meta__", "skipped");
    mr_test_shard_add_text(&shard, "__meta__/x.jpg", "skipped");
    mr_test_shard_add_type(&shard, '5', "d.x/", NULL, 0);
    mr_test_shard_add_text(&shard, "d.x/a.seg.png", "mask");
    mr_test_shard_add_text(&shard, "d.x/a.JPG", "upper");
    mr_test_shard_add_text(&shard, ".hidden", "skipped");
    mr_test_shard_add_text(&shard, "d.x/.cls", "9");
    mr_test_shard_add_text(&shard, "README", "skipped");
    mr_test_shard_add_text(&shard, "d.x/a.cls", " 41 ");
    mr_test_shard_add_text(&shard, "b.png", "second choice");
    mr_test_shard_add_text(&shard, "b.jpeg", "first choice");
    mr_test_shard_add_text(&shard, "b.cls", "-2");
    mr_test_shard_add_text(&shard, "d.x/a.jpg", "parted");
    write_shard(&tree, "s.tar", &shard);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "tar", "s.tar"));
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    assert_string_equal(get_name(dataset, 0), "s.tar/d.x/a.JPG");
    expect_bytes(dataset, 0, "upper");
    assert_int_equal(label_of(dataset, 0), 41);
    expect_bytes(dataset, 1, "first choice");
    assert_int_equal(label_of(dataset, 1), -2);
    expect_damaged(dataset, 2, "s.tar/d.x/a.jpg (index 2): the sample has no label member");
    mr_dataset_destroy(dataset);
    dataset =
        open_dataset(with_keys(tree_spec(&tree, "tar", "s.tar"), "?image=seg.png,PNG&label=none"));
    expect_bytes(dataset, 0, "mask");
    expect_bytes(dataset, 1, "second choice");
    assert_int_equal(label_of(dataset, 1), 0);
    expect_damaged(dataset, 2, "the sample has no image member");
    mr_dataset_destroy(dataset);
}

static void labels_come_from_json_and_names_from_a_file(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t label; /* -1: an invalid label */
    } cases[] = {{"{\"key\":\"0\",\"y\": 12 }", 12},
                 {"{\"a\":{\"y\":1,\"b\":[\"]\",{}]},\"y\":9223372036854775807}", INT64_MAX},
                 {"{\"y\":1,\"y\":2}", 2},
                 {"{\"y\":1.5}", -1},
                 {"{\"y\":\"3\"}", -1},
                 {"{\"x\":{\"y\":3}}", -1},
                 {"{\"y\":3", -1},
                 {"{\"y\":9223372036854775808}", -1},
                 {"[1]", -1},
                 {"{}", -1},
                 {"", -1},
                 {"{\"\\\"\\\\\":null,\"y\":-0}", 0}};
    struct tree tree;
    tree_create(&tree);
    struct mr_test_shard shard = {0};
    size_t n = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu.json", i);
        mr_test_shard_add_text(&shard, name, cases[i].text);
        snprintf(name, sizeof name, "%zu.png", i);
        mr_test_shard_add_text(&shard, name, "x");
    }
    write_shard(&tree, "s.tar", &shard);
    tree_write(&tree, "names.txt", "cat\r\ndog\n", 9);
    char keys[4096];
    snprintf(keys, sizeof keys, "?label=json:y&classes=%s", tree_at(&tree, "names.txt"));
    mr_dataset *dataset = open_dataset(with_keys(tree_spec(&tree, "tar", "s.tar"), keys));
    assert_int_equal(mr_dataset_n_samples(dataset), n);
    for (size_t i = 0; i < n; i++) {
        if (cases[i].label == -1)
            expect_damaged(dataset, (int64_t)i, "label is not an integer");
        else
            assert_int_equal(label_of(dataset, (int64_t)i), cases[i].label);
    }
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    assert_string_equal(mr_dataset_class_name(dataset, 0), "cat");
    assert_string_equal(mr_dataset_class_name(dataset, 1), "dog");
    mr_dataset_destroy(dataset);
}

/* Opening a FIFO would wait for a writer, and the alarm would end the test. */
static void class_names_and_shards_come_from_regular_files(void **state)
{
    (void)state;
    struct tree tree;
    char keys[4096];
    tree_create(&tree);
    struct mr_test_shard shard = {0};
    mr_test_shard_add_text(&shard, "a.jpg", "x");
    write_shard(&tree, "s.tar", &shard);
    assert_int_equal(mkfifo(tree_at(&tree, "fifo"), 0600), 0);
    alarm(30);
    snprintf(keys, sizeof keys, "?label=none&classes=%s", tree_at(&tree, "fifo"));
    expect_open_error(with_keys(tree_spec(&tree, "tar", "s.tar"), keys), MR_ERR_IO,
                      "fifo: not a regular file");
    expect_open_error(tree_spec(&tree, "tar", "fifo"), MR_ERR_IO, "fifo: not a regular file");
    alarm(0);
    snprintf(keys, sizeof keys, "?label=none&classes=%s", tree_at(&tree, "absent"));
    expect_open_error(with_keys(tree_spec(&tree, "tar", "s.tar"), keys), MR_ERR_IO,
                      "absent: No such file");
}

static char lines[2048];

static void store_line(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    size_t len = strlen(lines);
    snprintf(lines + len, sizeof lines - len, "%s\n", line);
}

/* Open a shard of 6 samples, with some bytes changed or cut off. */
static mr_dataset *open_broken(const struct tree *tree, size_t from, size_t to, size_t cut)
{
    struct mr_test_shard shard = {0};
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.jpg", i);
        mr_test_shard_add_text(&shard, name, name); /* blocks 4 i and 4 i + 1 */
        snprintf(name, sizeof name, "%d.cls", i);
        mr_test_shard_add_text(&shard, name, "5"); /* blocks 4 i + 2 and 4 i + 3 */
    }
    mr_test_shard_end(&shard);
    if (to > from)
        memset(shard.bytes + from, 0x55, to - from);
    tree_write(tree, "s.tar", shard.bytes, cut ? cut : shard.len);
    mr_test_shard_free(&shard);
    lines[0] = '\0';
    mr_log_set(store_line, NULL);
    mr_dataset *dataset = open_dataset(tree_spec(tree, "tar", "s.tar"));
    mr_log_set(NULL, NULL);
    return dataset;
}

static void expect_line(const char *words)
{
    assert_words(lines, words);
}

/*
 * Whichever headers of a sample are lost, the number of samples stays the same, and only that
 * sample is damaged.
 */
static void a_broken_place_damages_the_samples_in_it(void **state)
{
    (void)state;
    static const struct {
        size_t from, to; /* blocks */
        const char *words;
    } cases[] = {{8, 9, "no image member"},
                 {10, 11, "no label member"},
                 {8, 11, "there is no tar header here"}};
    struct tree tree;
    tree_create(&tree);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_dataset *dataset = open_broken(&tree, cases[i].from * 512, cases[i].to * 512, 0);
        assert_int_equal(mr_dataset_n_samples(dataset), 6);
        for (int k = 0; k < 6; k++) {
            if (k == 2)
                expect_damaged(dataset, k, cases[i].words);
            else
                assert_int_equal(label_of(dataset, k), 5);
        }
        char place[64];
        snprintf(place, sizeof place, "s.tar bytes %zu to %zu are not members (wrong checksum)",
                 cases[i].from * 512,
                 cases[i].from == 10                      ? (size_t)12 * 512
                 : cases[i].from == 8 && cases[i].to == 9 ? 10 * 512
                                                          : 12 * 512);
        expect_line(place);
        mr_dataset_destroy(dataset);
    }
}

static void a_cut_shard_keeps_the_samples_before_the_cut(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    mr_dataset *dataset = open_broken(&tree, 0, 0, 8 * 512 + 512 + 2);
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    assert_int_equal(label_of(dataset, 1), 5);
    expect_damaged(dataset, 2, "s.tar/2.jpg (index 2): the shard ends within the sample");
    expect_line("s.tar ends at byte 4610, within 2.jpg, whose 5 bytes begin at 4608");
    mr_dataset_destroy(dataset);
    dataset = open_broken(&tree, 0, 0, 8 * 512 + 100);
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    expect_damaged(dataset, 2, "there is no tar header here");
    expect_line("the file ends within a header");
    mr_dataset_destroy(dataset);
}

/* If a sample lacks a member, that member may have been in the broken place inside the sample. */
static void a_lost_extra_member_damages_its_sample(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_test_shard shard = {0};
    tree_create(&tree);
    mr_test_shard_add_text(&shard, "a.jpg", "x");
    size_t at = mr_test_shard_add_text(&shard, "a.txt", "lost");
    mr_test_shard_add_text(&shard, "a.cls", "1");
    mr_test_shard_add_text(&shard, "b.jpg", "y");
    mr_test_shard_add_text(&shard, "b.cls", "2");
    memset(shard.bytes + at, 'x', 512);
    write_shard(&tree, "s.tar", &shard);
    mr_dataset *dataset = open_dataset(with_keys(tree_spec(&tree, "tar", "s.tar"), "?keep=txt:9"));
    assert_int_equal(mr_dataset_n_samples(dataset), 2);
    expect_damaged(dataset, 0, "there is no tar header here");
    assert_int_equal(label_of(dataset, 1), 2);
    mr_dataset_destroy(dataset);
    dataset = open_dataset(tree_spec(&tree, "tar", "s.tar"));
    assert_int_equal(label_of(dataset, 0), 1);
    mr_dataset_destroy(dataset);
}

static void files_that_are_not_plain_shards_are_refused_by_name(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct mr_test_shard shard = {0};
    tree_write(&tree, "s.tgz", "\x1f\x8b\x08 and so on", 14);
    tree_write(&tree, "empty.tar", "", 0);
    uint8_t garbage[2000];
    memset(garbage, 'x', sizeof garbage);
    tree_write(&tree, "garbage.tar", garbage, sizeof garbage);
    garbage[0] = 0x1f, garbage[1] = 0x8b;
    tree_write(&tree, "s.tar.gz", garbage, sizeof garbage);
    mr_test_shard_add_type(&shard, 'S', "a.jpg", "x", 1);
    write_shard(&tree, "sparse.tar", &shard);
    static const char records[] = "22 GNU.sparse.major=1\n27 GNU.sparse.name=d/b.jpg\n";
    mr_test_shard_add_type(&shard, 'x', "p", records, sizeof records - 1);
    mr_test_shard_add_text(&shard, "a.jpg", "x");
    write_shard(&tree, "pax.tar", &shard);
    mr_test_shard_add_text(&shard, "README", "x");
    write_shard(&tree, "none.tar", &shard);
    expect_open_error(tree_spec(&tree, "tar", "s.tar.gz"), MR_ERR_UNSUPPORTED,
                      "s.tar.gz is compressed (gzip)");
    expect_open_error(tree_spec(&tree, "tar", "sparse.tar"), MR_ERR_UNSUPPORTED,
                      "sparse.tar/a.jpg is stored with holes");
    expect_open_error(tree_spec(&tree, "tar", "pax.tar"), MR_ERR_UNSUPPORTED,
                      "pax.tar/d/b.jpg is stored with holes");
    expect_open_error(tree_spec(&tree, "tar", "garbage.tar"), MR_ERR_DAMAGED,
                      "garbage.tar is not a tar file");
    expect_open_error(tree_spec(&tree, "tar", "empty.tar"), MR_ERR_DAMAGED, "empty.tar is empty");
    expect_open_error(tree_spec(&tree, "tar", "none.tar"), MR_ERR_DAMAGED,
                      "none.tar holds no sample");
    expect_open_error(tree_spec(&tree, "tar", "absent.tar"), MR_ERR_IO, "absent.tar");
    expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), "?label=txt"), MR_ERR_INVALID,
                      "json:FIELD");
    expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), "?image=a,,b"), MR_ERR_INVALID,
                      "suffixes");
    static const char *const keeps[] = {"",        "txt",
                                        ":5",      "txt:0",
                                        "txt:-1",  "txt:16777217",
                                        "txt:9x",  "a%3A1",
                                        "a%2Fb:1", "aaaaaaaabbbbbbbbccccccccdddddddd:1"};
    for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
        char keys[256];
        snprintf(keys, sizeof keys, "?keep=%s", keeps[i]);
        expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), keys), MR_ERR_INVALID,
                          "SUFFIX:BYTES");
    }
    expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), "?keep=a:4,A:5"),
                      MR_ERR_INVALID, "'a' is named twice");
    expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), "?keep=a:1,b:1,c:1,d:1"),
                      MR_ERR_INVALID, "keep 'd:1' of tar is above the limit of 3 members");
    expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), "?keep=a.offsets:4"),
                      MR_ERR_INVALID, "'a.offsets' is named twice or ends with .offsets");
    expect_open_error(with_keys(tree_spec(&tree, "tar", "none.tar"), "?imge=a"), MR_ERR_INVALID,
                      "'image'");
}

/*
 * More shards than are indexed in parallel: samples are in the order of the shards, and the error
 * of the first failing shard is reported.
 */
static void many_shards_keep_their_order(void **state)
{
    (void)state;
    enum { N = 200 };
    struct tree tree;
    tree_create(&tree);
    char name[64], spec[4096];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "%03d.tar", i);
        write_plain(&tree, name, i * 2, 2);
    }
    snprintf(spec, sizeof spec, "tar:%s/{000..199}.tar", tree.path);
    mr_dataset *dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), 2 * N);
    for (int i = 0; i < 2 * N; i++)
        assert_int_equal(label_of(dataset, i), i);
    mr_dataset_destroy(dataset);
    tree_write(&tree, "130.tar", "", 0);
    tree_write(&tree, "150.tar", "", 0);
    expect_open_error(spec, MR_ERR_DAMAGED, "130.tar is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_samples_in_their_order),
        cmocka_unit_test(braces_and_globs_name_shards),
        cmocka_unit_test(consecutive_members_with_one_stem_are_a_sample),
        cmocka_unit_test(labels_come_from_json_and_names_from_a_file),
        cmocka_unit_test(a_broken_place_damages_the_samples_in_it),
        cmocka_unit_test(a_lost_extra_member_damages_its_sample),
        cmocka_unit_test(a_cut_shard_keeps_the_samples_before_the_cut),
        cmocka_unit_test(files_that_are_not_plain_shards_are_refused_by_name),
        cmocka_unit_test(many_shards_keep_their_order),
        cmocka_unit_test(class_names_and_shards_come_from_regular_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
