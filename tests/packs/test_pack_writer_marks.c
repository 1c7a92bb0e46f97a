/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file `marks` of a pack that is being written: how much of it is kept after an interruption, a
 * full disk, or a loss of power. Processes that die at any call are in
 * test_pack_writer.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/packs/pack_parts.h"
#include "tests/support/assert_words.h"

enum { MARKED_FIRST = 1, MARKED_SECOND = 6, MARKED_THIRD = 11 }; /* of invent_marked() */

/* Make the folder with "whole", and with the first n_stop samples of "p". */
static void begin_marked(struct tree *tree, struct mr_pack_writer_options *options, uint64_t n_stop)
{
    tree_create(tree);
    *options = invented_options(PARTS_N, PARTS_SHARD);
    options->marks = true;
    invented_write(tree_at(tree, "whole"), options);
    if (n_stop > 0)
        write_part(tree, options, n_stop);
}

static void change_marks(const struct tree *tree, size_t at)
{
    size_t len;
    uint8_t *bytes = read_whole(tree_at(tree, "p/marks"), &len);
    assert_true(at < len);
    bytes[at] ^= 1;
    write_whole(tree_at(tree, "p/marks"), bytes, len);
    free(bytes);
}

static struct mr_pack_header read_header(const struct tree *tree, const char *name,
                                         uint8_t **bytes_out)
{
    struct mr_pack_header header = {0};
    size_t len;
    *bytes_out = read_whole(tree_at(tree, name), &len);
    memcpy(&header, *bytes_out, len < sizeof header ? len : sizeof header);
    return header;
}

static void marks_lie_where_the_index_says(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    struct mr_pack_marks place;
    struct invented invented;
    uint8_t *index;
    size_t len, end = 0, n_marked = 0;
    begin_marked(&tree, &options, 0);
    struct mr_pack_header header = read_header(&tree, "whole/index", &index);
    uint8_t *marks = read_whole(tree_at(&tree, "whole/marks"), &len);
    assert_int_equal(header.version, MR_PACK_VERSION);
    assert_int_equal(header.sections[MR_PACK_MARKS].len, PARTS_N * sizeof place);
    for (uint64_t i = 0; i < PARTS_N; i++) {
        memcpy(&place, index + header.sections[MR_PACK_MARKS].off + i * sizeof place, sizeof place);
        invent_marked(i, &invented);
        assert_int_equal(place.len, invented.entry.image.marks_len);
        if (place.len == 0) {
            assert_int_equal(place.offset, 0);
            continue;
        }
        assert_int_equal(place.offset, (end + 7) / 8 * 8);
        end = (size_t)(place.offset + place.len);
        assert_memory_equal(marks + place.offset, invented.marks, place.len);
        n_marked++;
    }
    assert_int_equal(n_marked, 3);
    assert_int_equal(header.marks_bytes, end);
    assert_int_equal(len, end);
    free(marks);
    free(index);
}

static void pack_without_a_marked_sample_has_no_file_of_marks(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(1, PARTS_SHARD);
    uint8_t *index;
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    options.marks = true;
    invented_write(tree_at(&tree, "q"), &options);
    expect_same(&tree, "p", "q", 0);
    struct mr_pack_header header = read_header(&tree, "q/index", &index);
    assert_int_equal(header.sections[MR_PACK_MARKS].len, 0);
    assert_int_equal(header.marks_bytes, 0);
    free(index);
}

static void marks_that_are_too_short_or_missing_are_written_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_marked(&tree, &options, PARTS_N - 1);
    assert_int_equal(truncate(tree_at(&tree, "p/marks"), INVENTED_MARKS + 100), 0);
    assert_int_equal(n_there(&tree, &options), first_in_shard(&tree, MARKED_SECOND));
    write_part(&tree, &options, PARTS_N - 1);
    assert_int_equal(remove(tree_at(&tree, "p/marks")), 0);
    assert_int_equal(n_there(&tree, &options), 0);
    assert_int_not_equal(access(tree_at(&tree, "p/marks"), F_OK), 0);
    expect_goes_on(&tree, &options);
}

static void marks_that_have_been_synced_are_not_read_again(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_marked(&tree, &options, PARTS_N - 1);
    change_marks(&tree, 10);
    assert_int_equal(n_there(&tree, &options), first_in_shard(&tree, PARTS_N - 2));
    change_marks(&tree, 10);
    expect_goes_on(&tree, &options);
}

/* Shards of one sample each, so that the marks are the largest file. */
static void a_disk_that_is_full_of_marks_is_named_and_survived(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    int status;
    begin_marked(&tree, &options, 0);
    remove_pack(&tree, "whole");
    options.shard_bytes = 1;
    invented_write(tree_at(&tree, "whole"), &options);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {INVENTED_MARKS - 100, INVENTED_MARKS - 100};
        mr_error error = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        mr_status failed = invented_write_some(tree_at(&tree, "p"), &options, UINT64_MAX, &error);
        _exit(failed == MR_ERR_IO && error.os_error == EFBIG &&
                      strstr(error.text, "cannot write ") && strstr(error.text, "/p/marks")
                  ? 0
                  : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    size_t len;
    free(read_whole(tree_at(&tree, "p/marks"), &len));
    assert_int_equal(len, 0); /* its bytes were removed, so the disk has room again */
    free(read_whole(tree_at(&tree, "p/shard-00001"), &len));
    assert_int_equal(len, 0);
    assert_int_equal(n_there(&tree, &options), MARKED_FIRST); /* shards of one sample */
    expect_goes_on(&tree, &options);
}

static void marks_of_others_stay_as_they_are(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(PARTS_N, PARTS_SHARD);
    struct mr_pack_writer *writer;
    uint64_t n;
    mr_error error = {0};
    tree_create(&tree);
    tree_write(&tree, "p/marks", "mine", 4);
    options.marks = true;
    assert_error(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, &error),
                 MR_ERR_INVALID, &error, "/p holds marks, but no index and no unfinished");
    assert_int_equal(n_entries(tree_at(&tree, "p")), 1);
    options.marks = false; /* a pack without marks has no such file */
    write_part(&tree, &options, 3);
    invented_write(tree_at(&tree, "p"), &options);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, "p/marks"), &len);
    assert_int_equal(len, 4);
    assert_memory_equal(bytes, "mine", 4);
    free(bytes);
}

static void marks_count_among_the_bytes_written(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(3, PARTS_SHARD);
    struct mr_pack_writer *writer;
    struct invented invented;
    uint64_t n, bytes = 0;
    tree_create(&tree);
    options.marks = true;
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    for (uint64_t i = 0; i < 2; i++) {
        invent_marked(i, &invented);
        assert_int_equal(mr_pack_writer_add(writer, &invented.entry, NULL), MR_OK);
        bytes += invented.entry.image.len + invented.entry.image.marks_len;
        assert_int_equal(mr_pack_writer_bytes(writer), bytes);
    }
    mr_pack_writer_close(writer);
    options.shard_bytes = 1; /* each sample begins a shard, which finishes the one before */
    remove_pack(&tree, "p");
    write_part(&tree, &options, 2);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    invent_marked(0, &invented);
    assert_int_equal(mr_pack_writer_bytes(writer),
                     invented.entry.image.len + invented.entry.image.marks_len);
    mr_pack_writer_close(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_lie_where_the_index_says),
        cmocka_unit_test(pack_without_a_marked_sample_has_no_file_of_marks),
        cmocka_unit_test(marks_that_are_too_short_or_missing_are_written_again),
        cmocka_unit_test(marks_that_have_been_synced_are_not_read_again),
        cmocka_unit_test(a_disk_that_is_full_of_marks_is_named_and_survived),
        cmocka_unit_test(marks_of_others_stay_as_they_are),
        cmocka_unit_test(marks_count_among_the_bytes_written),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
