/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edge cases of samples in tar shards: members named twice, cut, too long, or almost named like
 * those that are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/shards.h"
#include "tests/support/assert_words.h"

static struct tree tree;

static int set_up(void **state)
{
    (void)state;
    tree_create(&tree);
    return 0;
}

static void write_shard(const char *name, struct mr_test_shard *shard)
{
    tree_write(&tree, name, shard->bytes, shard->len);
    mr_test_shard_free(shard);
}

static mr_dataset *open_shard(const char *keys)
{
    char spec[4096];
    snprintf(spec, sizeof spec, "tar:%s/s.tar?index=none%s", tree.path, keys);
    return open_dataset(spec);
}

static void expect_damaged(mr_dataset *dataset, int64_t i, const char *words)
{
    mr_error error = {0};
    int64_t label;
    assert_int_equal(mr_dataset_label(dataset, i, &label, &error), MR_ERR_IO);
    assert_int_equal(error.status, MR_ERR_IO);
    assert_words(error.text, words);
}

static void two_members_with_a_suffix_that_is_used_are_damage(void **state)
{
    (void)state;
    static const char *const twice[] = {"jpg", "cls", "txt", "json"};
    struct mr_test_shard shard = {0};
    for (int i = 0; i < 4; i++) {
        static const char *const suffixes[] = {"jpg", "cls", "txt", "json"};
        char name[32];
        for (int k = 0; k < 5; k++) {
            snprintf(name, sizeof name, "%d.%s", i, k < 4 ? suffixes[k] : twice[i]);
            mr_test_shard_add_text(&shard, name, "7");
        }
    }
    write_shard("s.tar", &shard);
    mr_dataset *dataset = open_shard("&keep=txt:9");
    assert_int_equal(mr_dataset_n_samples(dataset), 4);
    for (int i = 0; i < 3; i++)
        expect_damaged(dataset, i, "two members of the sample have the same suffix");
    assert_int_equal(label_of(dataset, 3), 7);
    mr_dataset_destroy(dataset);
}

/* "__x__" has two underscores on each side, so the shortest such name has four. */
static void a_name_almost_like_a_meta_member_is_a_sample(void **state)
{
    (void)state;
    static const char *const stems[] = {"____/a", "__x__/a", "____.x/a", "__/b",
                                        "___/c",  "x__/d",   "e/__x__",  "__f"};
    struct mr_test_shard shard = {0};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.jpg", stems[i]);
        mr_test_shard_add_text(&shard, name, "x");
    }
    write_shard("s.tar", &shard);
    mr_dataset *dataset = open_shard("&label=none");
    assert_int_equal(mr_dataset_n_samples(dataset), 6); /* all except the first two */
    mr_dataset_destroy(dataset);
}

static void a_cut_extra_member_is_damage(void **state)
{
    (void)state;
    struct mr_test_shard shard = {0};
    mr_test_shard_add_text(&shard, "a.jpg", "x");
    mr_test_shard_add_text(&shard, "a.cls", "1");
    mr_test_shard_add_text(&shard, "a.txt", "caption");
    shard.len -= 509;
    write_shard("s.tar", &shard);
    mr_dataset *dataset = open_shard("&keep=txt:9");
    expect_damaged(dataset, 0, "the shard ends within the sample");
    mr_dataset_destroy(dataset);
    dataset = open_shard("");
    assert_int_equal(label_of(dataset, 0), 1);
    mr_dataset_destroy(dataset);
}

/* A list of suffixes is split before its escapes are undone. */
static void a_kept_suffix_may_contain_separators(void **state)
{
    (void)state;
    struct mr_test_shard shard = {0};
    struct mr_extent members[MR_MAX_MEMBERS];
    mr_test_shard_add_text(&shard, "a.jpg", "x");
    mr_test_shard_add_text(&shard, "a.B,c:4%,d", "1234567");
    write_shard("s.tar", &shard);
    mr_dataset *dataset = open_shard("&label=none&keep=d:2,b%2Cc%3a4%25%2CD:9");
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    assert_int_equal(kind->n_extra, 2);
    assert_string_equal(kind->extra[0].name, "d");
    assert_string_equal(kind->extra[1].name, "b,c:4%,d");
    assert_string_equal(kind->extra[1].offsets, "b,c:4%,d.offsets");
    mr_catalog_members(mr_dataset_catalog(dataset), 0, members);
    assert_int_equal(members[0].len, 0);
    assert_int_equal(members[1].len, 7);
    mr_dataset_destroy(dataset);
}

/* JSON longer than the window of the scan, nested deeply, or malformed. */
static void json_may_be_long_and_nested(void **state)
{
    (void)state;
    enum { LONG = 70000 };
    static char text[LONG + 100];
    struct mr_test_shard shard = {0};
    memset(text, ' ', LONG);
    memcpy(text, "{\"a\":\"", 6);
    strcpy(text + LONG, "\",\"y\":5}");
    static const char *const texts[] = {text,
                                        "{\"a\":[[[[[[[[{\"b\":[]}]]]]]]]],\"y\":5}",
                                        "{\"a\":[}],\"y\":5}",
                                        "{\"a\":[[}],\"y\":5}",
                                        "{\"y\":+5}",
                                        "{\"y\":5,}",
                                        "{\"y\":5}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu.jpg", i);
        mr_test_shard_add_text(&shard, name, "x");
        snprintf(name, sizeof name, "%zu.json", i);
        mr_test_shard_add_text(&shard, name, texts[i]);
    }
    write_shard("s.tar", &shard);
    mr_dataset *dataset = open_shard("&label=json:y");
    for (int i = 0; i < 2; i++)
        assert_int_equal(label_of(dataset, i), 5);
    for (int i = 2; i < 6; i++)
        expect_damaged(dataset, i, "label is not an integer");
    assert_int_equal(label_of(dataset, 6), 5); /* text after the object is ignored */
    mr_dataset_destroy(dataset);
}

static int n_lines;
static char last_line[512];

static void count_line(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    n_lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

/* The first broken places are reported, the rest is counted. */
static void a_shard_that_is_broken_everywhere_logs_few_lines(void **state)
{
    (void)state;
    struct mr_test_shard shard = {0};
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "%02d.jpg", i);
        mr_test_shard_add_text(&shard, name, "x");
        size_t at = mr_test_shard_add_text(&shard, "lost", "x");
        memset(shard.bytes + at, 'x', 512);
    }
    write_shard("s.tar", &shard);
    mr_log_set(count_line, NULL);
    mr_dataset *dataset = open_shard("&label=none");
    mr_log_set(NULL, NULL);
    assert_int_equal(n_lines, 17);
    assert_words(last_line, "s.tar has 24 more broken places");
    mr_dataset_destroy(dataset);
}

/* A sample that stands for lost members has an empty image. */
static void a_sample_for_lost_members_has_no_image(void **state)
{
    (void)state;
    struct mr_test_shard shard = {0};
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_test_shard_add_text(&shard, "a.jpg", "\xff\xd8\xff");
    size_t at = mr_test_shard_add_text(&shard, "b.jpg", "\xff\xd8\xff");
    mr_test_shard_add_text(&shard, "c.jpg", "\xff\xd8\xff");
    memset(shard.bytes + at, 'x', 512);
    write_shard("s.tar", &shard);
    mr_dataset *dataset = open_shard("&label=none");
    assert_int_equal(mr_dataset_n_samples(dataset), 3);
    assert_int_equal(mr_dataset_inspect(dataset, 1, &info, NULL), MR_OK);
    assert_int_equal(info.len_bytes, 0);
    assert_int_equal(mr_dataset_inspect(dataset, 2, &info, NULL), MR_OK);
    assert_int_equal(info.len_bytes, 3);
    mr_dataset_destroy(dataset);
}

static void count_progress(void *user, uint64_t n)
{
    uint64_t *last = user;
    assert_true(n > *last);
    *last = n;
}

static void shards_without_samples_are_skipped(void **state)
{
    (void)state;
    char spec[4096], name[512];
    uint64_t last = 0;
    mr_dataset *dataset;
    mr_dataset_options options = MR_DATASET_OPTIONS_INIT;
    for (int s = 0; s < 6; s++) {
        struct mr_test_shard shard = {0};
        mr_test_shard_add_text(&shard, s % 3 == 1 ? "a.jpg" : "README", "x");
        snprintf(name, sizeof name, "e%d.tar", s);
        write_shard(name, &shard);
    }
    options.progress = count_progress;
    options.user = &last;
    snprintf(spec, sizeof spec, "tar:%s/e{0..5}.tar?label=none", tree.path);
    assert_int_equal(mr_dataset_open(spec, &options, &dataset, NULL), MR_OK);
    assert_int_equal(last, 2);
    for (int i = 0; i < 2; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "e%d.tar/a.jpg", 3 * i + 1);
        assert_true(mr_dataset_relative_name(dataset, i, name, sizeof name) > 0);
        assert_string_equal(name, expected);
    }
    mr_dataset_destroy(dataset);
}

/* In a pattern, too, an escaped byte is an ordinary byte; so is a backslash. */
static void escapes_work_in_patterns(void **state)
{
    (void)state;
    static const char *const names[] = {"g/a?b1.tar", "g/axb1.tar", "g/a\\b1.tar",
                                        "g/[b]1.tar", "g/b1.tar",   "g/a*1.tar"};
    static const char *const patterns[] = {"g/a%3Fb*.tar", "g/a\\b*.tar", "g/%5Bb%5D*.tar",
                                           "g/a%2A*.tar"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct mr_test_shard shard = {0};
        mr_test_shard_add_text(&shard, "a.jpg", "x");
        write_shard(names[i], &shard);
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char spec[4096];
        snprintf(spec, sizeof spec, "tar:%s/%s?label=none", tree.path, patterns[i]);
        mr_dataset *dataset = open_dataset(spec);
        assert_int_equal(mr_dataset_n_samples(dataset), 1);
        mr_dataset_destroy(dataset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_members_with_a_suffix_that_is_used_are_damage),
        cmocka_unit_test(a_name_almost_like_a_meta_member_is_a_sample),
        cmocka_unit_test(a_kept_suffix_may_contain_separators),
        cmocka_unit_test(a_cut_extra_member_is_damage),
        cmocka_unit_test(json_may_be_long_and_nested),
        cmocka_unit_test(a_shard_that_is_broken_everywhere_logs_few_lines),
        cmocka_unit_test(a_sample_for_lost_members_has_no_image),
        cmocka_unit_test(shards_without_samples_are_skipped),
        cmocka_unit_test(escapes_work_in_patterns),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
