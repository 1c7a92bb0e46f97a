/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of loose files, with every reader: exactly the requested bytes, exactly the same errors,
 * no descriptor left open. Errors are written out in full, so that two readers cannot agree on a
 * wrong one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/contract/reader_support.h"

static void expect_part(const struct outcome *outcome, const struct range *range, const char *way)
{
    if (outcome->status != MR_OK || outcome->len != range->len)
        fail_msg("%s: %s, %zu bytes of index %lld at %llu: %s", way,
                 mr_status_name(outcome->status), outcome->len, (long long)range->index,
                 (unsigned long long)range->offset, outcome->text);
    for (size_t i = 0; i < outcome->len; i++)
        if (outcome->bytes[i] != pattern((uint64_t)range->index, range->offset + i))
            fail_msg("%s: byte %zu of a part at %llu is another one", way, i,
                     (unsigned long long)range->offset);
}

/* Read with every reader at every depth. */
static void expect_parts(const mr_dataset *dataset, const struct range *ranges, size_t n)
{
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (size_t d = 0; d < N_DEPTHS && way_works(way); d++) {
            uint32_t fds = count_fds();
            struct mr_reader *reader = make_reader(dataset, way, depths[d], NO_LIMIT);
            struct outcome *outcomes = read_ranges(reader, depths[d], ranges, n);
            for (size_t i = 0; i < n; i++)
                expect_part(&outcomes[i], &ranges[i], way->name);
            free_outcomes(outcomes, n);
            mr_reader_destroy(reader);
            assert_int_equal(count_fds(), fds);
        }
    }
}

/*
 * Every reader reports this message for this range of index 0, and continues reading: index 1 has
 * at least 8 bytes.
 */
static void expect_error(const mr_dataset *dataset, uint64_t offset, uint64_t len,
                         uint64_t max_bytes, int os_error, const char *cause)
{
    char name[256];
    const struct range ranges[] = {{0, offset, len}, {1, 3, 5}};
    struct outcome expected = {.status = MR_ERR_DAMAGED, .os_error = os_error};
    mr_catalog_name(mr_dataset_catalog(dataset), 0, name, sizeof name);
    snprintf(expected.text, sizeof expected.text, "%s (index 0): %s", name, cause);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        uint32_t fds = count_fds();
        struct mr_reader *reader = make_reader(dataset, way, 2, max_bytes);
        struct outcome *outcomes = read_ranges(reader, 2, ranges, 2);
        assert_same(&outcomes[0], &expected, way->name);
        expect_part(&outcomes[1], &ranges[1], way->name);
        free_outcomes(outcomes, 2);
        mr_reader_destroy(reader);
        assert_int_equal(count_fds(), fds);
    }
}

/* Open a list of the file with this name and of a good file after it. */
static mr_dataset *open_beside(const char *name)
{
    write_pattern("good", 1, 100);
    return open_list((const char *[]){name, "good"}, 2);
}

static void ranges_of_files_give_their_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 63, 4096, 4097, 100000, MIB + 1, 3 * MIB + 7};
    enum { N_FILES = sizeof sizes / sizeof *sizes, N = 150 };
    char names[N_FILES][16];
    const char *list[N_FILES];
    struct range ranges[N];
    uint64_t random = fresh_seed();
    for (int i = 0; i < N_FILES; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        write_pattern(names[i], (uint64_t)i, sizes[i]);
        list[i] = names[i];
    }
    for (size_t i = 0; i < N; i++) {
        size_t file = draw(&random) % N_FILES;
        ranges[i] = (struct range){(int64_t)file, draw(&random) % sizes[file], 0};
        ranges[i].len = draw(&random) % (sizes[file] - ranges[i].offset + 1);
        if (i % 5 == 0) /* up to the last byte */
            ranges[i].len = sizes[file] - ranges[i].offset;
    }
    mr_dataset *dataset = open_list(list, N_FILES);
    expect_parts(dataset, ranges, N);
    mr_dataset_destroy(dataset);
}

static void one_reader_reads_ranges_and_whole_files(void **state)
{
    (void)state;
    write_pattern("0", 0, 5000);
    write_pattern("1", 1, 2 * MIB);
    mr_dataset *dataset = open_list((const char *[]){"0", "1"}, 2);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 4, NO_LIMIT);
        for (uint64_t round = 0; round < 20; round++) {
            for (uint64_t tag = 0; tag < 4; tag++) {
                int64_t index = (int64_t)(tag / 2);
                if (tag % 2)
                    submit_range(reader, tag, &(struct range){index, 100 * round, 1000}, false);
                else
                    submit(reader, tag, index);
            }
            for (int i = 0; i < 4; i++) {
                struct mr_read read;
                assert_true(mr_reader_reap(reader, true, &read));
                assert_int_equal(read.status, MR_OK);
                uint64_t offset = read.tag % 2 ? 100 * round : 0;
                const struct mr_read_part *part = &read.part[0];
                assert_int_equal(part->len, read.tag % 2 ? 1000 : read.index ? 2 * MIB : 5000);
                assert_int_equal(part->bytes[7], pattern((uint64_t)read.index, offset + 7));
                mr_reader_recycle(reader, &read);
            }
        }
        mr_reader_destroy(reader);
    }
    mr_dataset_destroy(dataset);
}

static void an_empty_range_is_no_error(void **state)
{
    (void)state;
    mr_dataset *dataset = open_beside("missing");
    const struct range ranges[] = {{1, 0, 0}, {1, 100, 0}, {1, 5000, 0}, {0, 3, 0}};
    expect_parts(dataset, ranges, 4);
    mr_dataset_destroy(dataset);
}

static void for_a_short_file_the_error_says_where_it_ends(void **state)
{
    (void)state;
    mr_dataset *dataset = open_beside("short");
    write_pattern("short", 0, 1000);
    expect_error(dataset, 990, 20, NO_LIMIT, 0, "file ends at byte 1000, needs 1010");
    expect_error(dataset, 0, 1001, NO_LIMIT, 0, "file ends at byte 1000, needs 1001");
    expect_error(dataset, 1000, 1, NO_LIMIT, 0, "file ends at byte 1000, needs 1001");
    expect_error(dataset, 70000, 70000, NO_LIMIT, 0, "file ends at byte 1000, needs 140000");
    write_pattern("short", 0, 0);
    expect_error(dataset, 0, 10, NO_LIMIT, 0, "file ends at byte 0, needs 10");
    mr_dataset_destroy(dataset);
}

static void impossible_offsets_are_beyond_the_end_of_the_file(void **state)
{
    (void)state;
    mr_dataset *dataset = open_beside("short");
    write_pattern("short", 0, 1000);
    expect_error(dataset, INT64_MAX - 10, 10, NO_LIMIT, 0,
                 "file ends at byte 1000, needs 9223372036854775807");
    expect_error(dataset, INT64_MAX, 10, NO_LIMIT, 0,
                 "file ends at byte 1000, needs 18446744073709551615");
    expect_error(dataset, UINT64_MAX, 10, NO_LIMIT, 0,
                 "file ends at byte 1000, needs 18446744073709551615");
    expect_error(dataset, UINT64_MAX - 9, 10, NO_LIMIT, 0,
                 "file ends at byte 1000, needs 18446744073709551615");
    mr_dataset_destroy(dataset);
}

static void the_limit_is_for_the_range(void **state)
{
    (void)state;
    mr_dataset *dataset = open_beside("long");
    write_pattern("long", 0, 2 * MIB);
    expect_error(dataset, 50, 1001, 1000, 0, "1001 bytes are above the limit of 1000");
    expect_error(dataset, 50, UINT64_MAX - 1, 1000, 0,
                 "18446744073709551614 bytes are above the limit of 1000");
    expect_error(dataset, 50, UINT64_MAX, 1000, 0,
                 "18446744073709551614 bytes are above the limit of 1000");
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        const struct range range = {0, MIB, 1000};
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 1, 1000);
        struct outcome *outcome = read_ranges(reader, 1, &range, 1);
        expect_part(outcome, &range, way->name);
        free_outcomes(outcome, 1);
        mr_reader_destroy(reader);
    }
    mr_dataset_destroy(dataset);
}

static void expect_damaged(const char *name, int os_error, const char *cause)
{
    mr_dataset *dataset = open_beside(name);
    expect_error(dataset, 0, 10, NO_LIMIT, os_error, cause);
    expect_error(dataset, 70, 10, NO_LIMIT, os_error, cause);
    mr_dataset_destroy(dataset);
}

static void what_is_not_a_file_is_named(void **state)
{
    (void)state;
    expect_damaged("missing", ENOENT, "No such file or directory");
    expect_damaged("good/x", ENOTDIR, "Not a directory");
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    expect_damaged("loop", ELOOP, "Too many levels of symbolic links");
    assert_int_equal(mkdir(in_folder("dir"), 0755), 0);
    expect_damaged("dir", EISDIR, "Is a directory");
}

static void an_endless_file_does_not_block(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_folder("fifo"), 0644), 0);
    expect_damaged("fifo", ENXIO, "not a regular file");
    int fd = open(in_folder("fifo"), O_RDWR | O_CLOEXEC); /* a writer that writes nothing */
    assert_true(fd >= 0);
    expect_damaged("fifo", ENXIO, "not a regular file");
    close(fd);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder());
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_damaged("s", ENXIO, "not a regular file");
    close(fd);
}

static void destroying_a_reader_leaves_nothing_in_flight(void **state)
{
    (void)state;
    write_pattern("0", 0, 100000);
    mr_dataset *dataset = open_list((const char *[]){"0", "missing"}, 2);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (uint32_t n_reaped = 0; n_reaped < 3 && way_works(way); n_reaped++) {
            uint32_t fds = count_fds();
            struct mr_reader *reader = make_reader(dataset, way, 64, NO_LIMIT);
            struct mr_read read;
            for (uint64_t i = 0; i < 64; i++)
                submit_range(reader, i, &(struct range){i % 3 == 2, i * 1000, 40000}, false);
            for (uint32_t i = 0; i < n_reaped; i++)
                assert_true(mr_reader_reap(reader, true, &read));
            mr_reader_destroy(reader);
            assert_int_equal(count_fds(), fds);
        }
    }
    mr_dataset_destroy(dataset);
}

#define T(name) cmocka_unit_test_setup(name, enter_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ranges_of_files_give_their_bytes),
        T(one_reader_reads_ranges_and_whole_files),
        T(an_empty_range_is_no_error),
        T(for_a_short_file_the_error_says_where_it_ends),
        T(impossible_offsets_are_beyond_the_end_of_the_file),
        T(the_limit_is_for_the_range),
        T(what_is_not_a_file_is_named),
        T(an_endless_file_does_not_block),
        T(destroying_a_reader_leaves_nothing_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
