/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of an interrupted pack after a machine lost power or somebody altered it: valid samples count, the rest
 * is written again, and the pack has the same bytes in the end. Processes that die are in test_pack_writer.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "packs/pack_journal.h"
#include "tests/packs/pack_parts.h"

static void a_journal_that_was_cut_off_loses_only_its_end(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 5);
    size_t len;
    uint8_t *journal = read_whole(tree_at(&tree, "p/journal"), &len);
    uint64_t last = 0;
    for (size_t cut = 400; cut <= len; cut += 61) {
        /* Each time from a part that holds five samples again. */
        write_part(&tree, &options, 5);
        write_whole(tree_at(&tree, "p/journal"), journal, cut);
        uint64_t n = n_there(&tree, &options);
        assert_in_range(n, last, 5);
        last = n;
    }
    assert_in_range(last, 4, 5);
    free(journal);
    expect_goes_on(&tree, &options);
    tree_destroy(&tree);
}

static void an_altered_record_ends_what_counts(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 6);
    size_t len;
    uint8_t *journal = read_whole(tree_at(&tree, "p/journal"), &len);
    for (size_t at = 400; at < len; at += 97) {
        write_part(&tree, &options, 6);
        journal[at] ^= 1;
        write_whole(tree_at(&tree, "p/journal"), journal, len);
        journal[at] ^= 1;
        assert_in_range(n_there(&tree, &options), 0, 5);
    }
    free(journal);
    expect_goes_on(&tree, &options);
    tree_destroy(&tree);
}

static void bytes_that_a_power_cut_lost_are_written_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 9);
    /* The last shard has the journal's length and zeros at its end. */
    uint8_t zeros[64] = {0};
    char last[32];
    int n_shards = n_entries(tree_at(&tree, "p")) - 1;
    snprintf(last, sizeof last, "p/shard-%05d", n_shards - 1);
    assert_true(n_shards > 1);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, last), &len);
    memcpy(bytes + len - sizeof zeros, zeros, sizeof zeros);
    write_whole(tree_at(&tree, last), bytes, len);
    free(bytes);
    assert_int_equal(n_there(&tree, &options), 8);
    expect_goes_on(&tree, &options);
    tree_destroy(&tree);
}

static void a_shard_that_is_too_short_or_missing_is_written_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 9);
    assert_int_equal(truncate(tree_at(&tree, "p/shard-00000"), 150), 0);
    assert_int_equal(n_there(&tree, &options), 1);
    write_part(&tree, &options, 9);
    assert_int_equal(remove(tree_at(&tree, "p/shard-00001")), 0);
    assert_in_range(n_there(&tree, &options), 1, 8);
    assert_int_not_equal(access(tree_at(&tree, "p/shard-00002"), F_OK), 0);
    expect_goes_on(&tree, &options);
    tree_destroy(&tree);
}

static void what_has_been_synced_is_not_read_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 9);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, "p/shard-00000"), &len);
    bytes[10] ^= 1;
    write_whole(tree_at(&tree, "p/shard-00000"), bytes, len);
    free(bytes);
    assert_int_equal(n_there(&tree, &options), 9);
    tree_destroy(&tree);
}

/* Records of a part with the i-th sample's altered, all checksums right: it ends what counts. */
static void expect_ends_at(uint64_t i, size_t at, uint64_t value, size_t size)
{
    struct tree tree;
    struct mr_pack_writer_options options;
    struct mr_pack_record record;
    begin_tree(&tree, &options, 9);
    size_t len, place = sizeof(struct mr_pack_journal_head);
    uint8_t *journal = read_whole(tree_at(&tree, "p/journal"), &len);
    for (uint64_t n = 0;; place += sizeof record + record.len + -record.len % 8) {
        memcpy(&record, journal + place, sizeof record);
        if (record.kind == MR_PACK_RECORD_SAMPLE && n++ == i)
            break;
    }
    memcpy(journal + place + at, &value, size);
    mend_journal(journal, len);
    write_whole(tree_at(&tree, "p/journal"), journal, len);
    free(journal);
    assert_int_equal(n_there(&tree, &options), i);
    expect_goes_on(&tree, &options);
    tree_destroy(&tree);
}

#define OF(field) (sizeof(struct mr_pack_record) + offsetof(struct mr_pack_sample, field))

static void a_record_that_does_not_follow_ends_what_counts(void **state)
{
    (void)state;
    expect_ends_at(2, OF(name), 0, 8);
    expect_ends_at(2, OF(rows), 1000, 8);
    expect_ends_at(1, OF(rows), 1, 8); /* of a sample without coefficients */
    expect_ends_at(4, OF(template), 99, 4);
    expect_ends_at(3, OF(shard), 2, 4);
    expect_ends_at(6, OF(shard), 0, 4);
    expect_ends_at(3, OF(offset), 0, 8);
    expect_ends_at(3, OF(offset), UINT64_MAX, 8);
    expect_ends_at(3, OF(len), UINT64_MAX, 8);
    expect_ends_at(3, OF(beside_len), UINT64_MAX - 2000, 8);
    expect_ends_at(8, OF(len), 5000, 8);
    expect_ends_at(4, OF(n_rows), UINT32_MAX, 4);
    expect_ends_at(4, offsetof(struct mr_pack_record, kind), 9, 4);
    expect_ends_at(4, offsetof(struct mr_pack_record, kind), MR_PACK_RECORD_BEGIN, 4);
    expect_ends_at(4, offsetof(struct mr_pack_record, len), UINT64_MAX, 8);
}

/* As it would be left behind where the file was cut and grew again. */
static void a_record_in_another_place_is_none(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    struct mr_pack_record record;
    begin_tree(&tree, &options, 4);
    size_t len, place = sizeof(struct mr_pack_journal_head);
    uint8_t *journal = read_whole(tree_at(&tree, "p/journal"), &len), *longer = malloc(2 * len);
    assert_non_null(longer);
    memcpy(&record, journal + place, sizeof record);
    place += sizeof record + record.len + -record.len % 8; /* the first template */
    memcpy(&record, journal + place, sizeof record);
    assert_int_equal(record.kind, MR_PACK_RECORD_TEMPLATE);
    memcpy(longer, journal, len);
    memcpy(longer + len, journal + place, sizeof record + record.len);
    write_whole(tree_at(&tree, "p/journal"), longer, len + sizeof record + record.len);
    free(longer);
    free(journal);
    expect_goes_on(&tree, &options);
    tree_destroy(&tree);
}

static void a_record_of_a_sample_ends_with_its_name(void **state)
{
    (void)state;
    struct mr_pack_sample sample = {.encoding = MR_PACKED_DCT, .n_rows = 2};
    struct mr_pack_noted noted;
    size_t len = sizeof sample + 3 * sizeof(uint32_t) + 8 + 5;
    for (size_t cut = 0; cut <= len; cut++) {
        uint8_t *bytes = calloc(1, cut ? cut : 1); /* where a sanitizer sees its end */
        assert_non_null(bytes);
        memcpy(bytes, &sample, cut < sizeof sample ? cut : sizeof sample);
        if (cut == len)
            memcpy(bytes + len - 5, "name", 5);
        bool good = mr_pack_journal_split(bytes, cut, 8, &noted);
        if (good != (cut == len || cut == len - 4)) /* an empty name is one */
            fail_msg("%zu bytes of %zu", cut, len);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_that_was_cut_off_loses_only_its_end),
        cmocka_unit_test(an_altered_record_ends_what_counts),
        cmocka_unit_test(bytes_that_a_power_cut_lost_are_written_again),
        cmocka_unit_test(a_shard_that_is_too_short_or_missing_is_written_again),
        cmocka_unit_test(what_has_been_synced_is_not_read_again),
        cmocka_unit_test(a_record_that_does_not_follow_ends_what_counts),
        cmocka_unit_test(a_record_in_another_place_is_none),
        cmocka_unit_test(a_record_of_a_sample_ends_with_its_name),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
