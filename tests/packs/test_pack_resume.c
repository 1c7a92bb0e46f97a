/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interrupted pack that was damaged by a loss of power or altered by a user. Finished shards are
 * kept, the rest is written again, and the complete pack has the same bytes as ever. Processes that
 * die are in test_pack_writer.c.
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
#include <unistd.h>

#include "tests/packs/pack_parts.h"

enum { STOP = 13 }; /* samples, which finish three shards */

static void flip_byte(const struct tree *tree, const char *name, size_t at)
{
    size_t len;
    uint8_t *bytes = read_whole(tree_at(tree, name), &len);
    assert_true(at < len);
    bytes[at] ^= 1;
    write_whole(tree_at(tree, name), bytes, len);
    free(bytes);
}

/* Number of samples before this shard in a pack of STOP samples. */
static uint64_t n_before_shard(const struct tree *tree, uint32_t shard)
{
    uint64_t first = 0, i = 0;
    for (uint32_t n = 0; n < shard; n++) {
        while (i < STOP && first_in_shard(tree, i) == first)
            i++;
        first = i;
    }
    return first;
}

static void finished_shards_count(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 0);
    for (uint64_t n = 1; n < PARTS_N; n++) {
        write_part(&tree, &options, n);
        assert_int_equal(n_there(&tree, &options), first_in_shard(&tree, n - 1));
        remove_pack(&tree, "p");
    }
}

static void finished_shards_are_not_made_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    struct stat before, after;
    begin_tree(&tree, &options, STOP);
    assert_int_equal(stat(tree_at(&tree, "p/shard-00000"), &before), 0);
    expect_goes_on(&tree, &options);
    assert_int_equal(stat(tree_at(&tree, "p/shard-00000"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
}

/* The shards were synced before their parts were made. */
static void finished_shards_are_not_read_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, STOP);
    flip_byte(&tree, "p/shard-00000", 10);
    assert_int_equal(n_there(&tree, &options), first_in_shard(&tree, STOP - 1));
}

static void a_part_that_was_altered_ends_what_counts(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, STOP);
    size_t len;
    uint64_t before = n_before_shard(&tree, 1);
    assert_true(before > 0);
    free(read_whole(tree_at(&tree, "p/shard-00001.part"), &len));
    for (size_t at = 0; at < len; at += at < sizeof(struct mr_pack_part_head) ? 1 : 37) {
        flip_byte(&tree, "p/shard-00001.part", at);
        if (n_there(&tree, &options) != before)
            fail_msg("a part with byte %zu altered is accepted", at);
        write_part(&tree, &options, STOP);
    }
    expect_goes_on(&tree, &options);
}

static void a_part_that_was_cut_off_ends_what_counts(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, STOP);
    size_t len;
    free(read_whole(tree_at(&tree, "p/shard-00001.part"), &len));
    for (size_t cut = 0; cut < len; cut += 61) {
        assert_int_equal(truncate(tree_at(&tree, "p/shard-00001.part"), (off_t)cut), 0);
        assert_int_equal(n_there(&tree, &options), n_before_shard(&tree, 1));
        write_part(&tree, &options, STOP);
    }
    assert_int_equal(truncate(tree_at(&tree, "p/shard-00001.part"), (off_t)len + 1), 0);
    assert_int_equal(n_there(&tree, &options), n_before_shard(&tree, 1));
    expect_goes_on(&tree, &options);
}

static void a_part_in_another_place_is_none(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, STOP);
    size_t len;
    uint8_t *first = read_whole(tree_at(&tree, "p/shard-00000.part"), &len);
    write_whole(tree_at(&tree, "p/shard-00001.part"), first, len);
    free(first);
    assert_int_equal(n_there(&tree, &options), n_before_shard(&tree, 1));
    expect_goes_on(&tree, &options);
}

static void a_shard_of_another_length_or_missing_is_written_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, STOP);
    assert_int_equal(truncate(tree_at(&tree, "p/shard-00000"), 150), 0);
    assert_int_equal(n_there(&tree, &options), 0);
    write_part(&tree, &options, STOP);
    assert_int_equal(remove(tree_at(&tree, "p/shard-00001")), 0);
    assert_int_equal(n_there(&tree, &options), n_before_shard(&tree, 1));
    assert_int_not_equal(access(tree_at(&tree, "p/shard-00002"), F_OK), 0);
    assert_int_not_equal(access(tree_at(&tree, "p/shard-00002.part"), F_OK), 0);
    expect_goes_on(&tree, &options);
}

/* As a crash leaves `unfinished`: cut off anywhere, or zeros. At that time no other file exists. */
static void a_torn_beginning_is_begun_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 1);
    size_t len;
    uint8_t *begin = read_whole(tree_at(&tree, "p/unfinished"), &len);
    for (size_t cut = 0; cut <= len; cut++) {
        remove_pack(&tree, "p");
        tree_folder(&tree, "p");
        if (cut == len)
            memset(begin, 0, len);
        write_whole(tree_at(&tree, "p/unfinished"), begin, cut);
        assert_int_equal(n_there(&tree, &options), 0);
    }
    expect_goes_on(&tree, &options);
    free(begin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_shards_count),
        cmocka_unit_test(finished_shards_are_not_made_again),
        cmocka_unit_test(finished_shards_are_not_read_again),
        cmocka_unit_test(a_part_that_was_altered_ends_what_counts),
        cmocka_unit_test(a_part_that_was_cut_off_ends_what_counts),
        cmocka_unit_test(a_part_in_another_place_is_none),
        cmocka_unit_test(a_shard_of_another_length_or_missing_is_written_again),
        cmocka_unit_test(a_torn_beginning_is_begun_again),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
