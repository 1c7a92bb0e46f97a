/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same tests for every reader: the same bytes as plain pread(), exactly the same errors, and no
 * descriptor left open. Errors are written out in full, so that two readers cannot agree on a wrong
 * one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/reader_support.h"

/* With every reader at every depth, each outcome is what plain pread() gives. */
static void expect_oracle_everywhere(const mr_dataset *dataset, const int64_t *indices, size_t n)
{
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (size_t d = 0; d < N_DEPTHS && way_works(way); d++) {
            uint32_t fds = count_fds();
            struct outcome *outcomes = read_all(dataset, way, depths[d], NO_LIMIT, indices, n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(outcomes[i].index, indices[i]);
                expect_oracle(dataset, &outcomes[i], way->name);
            }
            free_outcomes(outcomes, n);
            assert_int_equal(count_fds(), fds);
        }
    }
}

/* Every reader reports this message for index 0. */
static void expect_error(const mr_dataset *dataset, uint64_t max_bytes, mr_status status,
                         int os_error, const char *text)
{
    struct outcome expected = {.status = status, .os_error = os_error};
    snprintf(expected.text, sizeof expected.text, "%s", text);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        uint32_t fds = count_fds();
        struct outcome *outcome = read_all(dataset, way, 2, max_bytes, &(int64_t){0}, 1);
        assert_same(outcome, &expected, way->name);
        free_outcomes(outcome, 1);
        assert_int_equal(count_fds(), fds);
    }
}

static void expect_damaged_file(const char *name, int os_error, const char *cause)
{
    char text[MR_ERROR_TEXT];
    snprintf(text, sizeof text, "%s (index 0): %s", in_folder(name), cause);
    mr_dataset *dataset = open_list(&name, 1);
    expect_error(dataset, NO_LIMIT, MR_ERR_DAMAGED, os_error, text);
    mr_dataset_destroy(dataset);
}

static void files_of_every_size_give_their_bytes(void **state)
{
    (void)state;
    /*
     * Sizes around a page, around the first size of a buffer (1 MiB and a page minus the slack),
     * and above it.
     */
    static const size_t sizes[] = {
        0,       1,           63,          4095,           4096,    4097,
        100000,  MIB - 1,     MIB,         MIB + 1,        1052607, 1052608,
        1052609, MIB + 65536, 3 * MIB + 7, 20 * MIB + 111, 17,      5000};
    enum { N = sizeof sizes / sizeof *sizes };
    char names[N][16];
    const char *list[N];
    int64_t indices[3 * N];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "f%d.bin", i);
        write_pattern(names[i], (uint64_t)i, sizes[i]);
        list[i] = names[i];
    }
    for (int i = 0; i < 3 * N; i++)
        indices[i] = i * 7 % N;
    mr_dataset *dataset = open_list(list, N);
    expect_oracle_everywhere(dataset, indices, 3 * N);
    mr_dataset_destroy(dataset);
}

static void each_of_many_files_is_read_once(void **state)
{
    (void)state;
    enum { N = 300 };
    static char names[N][16];
    static const char *list[N];
    int64_t indices[N];
    uint64_t random = fresh_seed();
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        write_pattern(names[i], (uint64_t)i, draw(&random) % 30000);
        list[i] = names[i];
        indices[i] = i;
    }
    mr_dataset *dataset = open_list(list, N);
    expect_oracle_everywhere(dataset, indices, N);
    mr_dataset_destroy(dataset);
}

/* Records of `keys` in n shards of len bytes, at random. */
static void expect_random_records(uint32_t n_shards, size_t len, const char *keys, size_t n_reads)
{
    uint64_t random = fresh_seed();
    for (uint32_t i = 0; i < n_shards; i++) {
        char name[24];
        snprintf(name, sizeof name, "shard-%u", i);
        write_pattern(name, i, len + i % 3);
    }
    mr_dataset *dataset = open_shards(n_shards, keys);
    int64_t *indices = malloc(n_reads * sizeof *indices);
    assert_non_null(indices);
    for (size_t i = 0; i < n_reads; i++)
        indices[i] = (int64_t)(draw(&random) % (uint64_t)mr_dataset_n_samples(dataset));
    expect_oracle_everywhere(dataset, indices, n_reads);
    free(indices);
    mr_dataset_destroy(dataset);
}

static void random_records_give_their_bytes(void **state)
{
    (void)state;
    expect_random_records(5, 100000, "bytes=3072&header=17", 200);
}

static void overlapping_records_give_their_bytes(void **state)
{
    (void)state;
    expect_random_records(3, 60000, "bytes=4098&stride=2", 200);
}

static void labels_far_from_their_data_are_a_second_extent(void **state)
{
    (void)state;
    expect_random_records(2, 90000, "bytes=100&stride=200&label_off=20000&label_bytes=8", 200);
}

static void records_longer_than_a_buffer_give_their_bytes(void **state)
{
    (void)state;
    expect_random_records(2, 9000000, "bytes=4000000", 6);
}

static void an_empty_file_gives_no_bytes_and_no_error(void **state)
{
    (void)state;
    write_pattern("empty.jpg", 0, 0);
    mr_dataset *dataset = open_list((const char *[]){"empty.jpg"}, 1);
    expect_oracle_everywhere(dataset, &(int64_t){0}, 1);
    mr_dataset_destroy(dataset);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    expect_damaged_file("missing.jpg", ENOENT, "No such file or directory");
    expect_damaged_file("no-folder/x.jpg", ENOENT, "No such file or directory");
    assert_int_equal(symlink("nowhere", in_folder("dangling.jpg")), 0);
    expect_damaged_file("dangling.jpg", ENOENT, "No such file or directory");
    write_pattern("file", 1, 10);
    expect_damaged_file("file/x.jpg", ENOTDIR, "Not a directory");
}

static void a_looping_symlink_is_named(void **state)
{
    (void)state;
    assert_int_equal(symlink("loop.jpg", in_folder("loop.jpg")), 0);
    expect_damaged_file("loop.jpg", ELOOP, "Too many levels of symbolic links");
}

static void a_directory_is_named(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("dir.jpg"), 0755), 0);
    expect_damaged_file("dir.jpg", EISDIR, "Is a directory");
}

static void a_name_too_long_for_the_file_system_is_named(void **state)
{
    (void)state;
    char name[301], text[400];
    memset(name, 'n', 300);
    name[300] = '\0';
    snprintf(text, sizeof text, "%s/%s (index 0): File name too long", folder(), name);
    mr_dataset *dataset = open_list((const char *[]){name}, 1);
    expect_error(dataset, NO_LIMIT, MR_ERR_DAMAGED, ENAMETOOLONG, text);
    mr_dataset_destroy(dataset);
}

static void a_fifo_does_not_block(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_folder("fifo.jpg"), 0644), 0);
    expect_damaged_file("fifo.jpg", ENXIO, "not a regular file");
    /* With a writer that writes nothing, a blocking read would wait forever. */
    int fd = open(in_folder("fifo.jpg"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    expect_damaged_file("fifo.jpg", ENXIO, "not a regular file");
    close(fd);
}

static void devices_and_sockets_are_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/zero", in_folder("zero.jpg")), 0);
    expect_damaged_file("zero.jpg", ENXIO, "not a regular file");
    assert_int_equal(symlink("/dev/null", in_folder("null.jpg")), 0);
    expect_damaged_file("null.jpg", ENXIO, "not a regular file");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s.jpg", folder());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_damaged_file("s.jpg", ENXIO, "not a regular file");
    close(fd);
}

static void a_file_above_the_limit_is_named_with_its_size(void **state)
{
    (void)state;
    char text[MR_ERROR_TEXT];
    for (size_t len = 1000; len <= 2 * MIB; len = len * 2 + 77) {
        write_pattern("large.jpg", 1, len);
        mr_dataset *dataset = open_list((const char *[]){"large.jpg"}, 1);
        snprintf(text, sizeof text, "%s (index 0): %zu bytes are above the limit of %zu",
                 in_folder("large.jpg"), len, len - 1);
        expect_error(dataset, len - 1, MR_ERR_DAMAGED, 0, text);
        for (const struct way *way = ways; way < ways + N_WAYS; way++) {
            if (!way_works(way))
                continue;
            struct outcome *outcome = read_all(dataset, way, 1, len, &(int64_t){0}, 1);
            expect_oracle(dataset, outcome, way->name);
            free_outcomes(outcome, 1);
        }
        mr_dataset_destroy(dataset);
    }
}

static void a_record_above_the_limit_is_named_with_its_size(void **state)
{
    (void)state;
    char text[MR_ERROR_TEXT];
    write_pattern("shard-0", 1, 10000);
    mr_dataset *dataset = open_shards(1, "bytes=1000");
    snprintf(text, sizeof text, "%s#0 (index 0): 1000 bytes are above the limit of 999",
             in_folder("shard-0"));
    expect_error(dataset, 999, MR_ERR_DAMAGED, 0, text);
    mr_dataset_destroy(dataset);
}

static void for_a_shard_that_shrank_the_error_says_where_it_ends(void **state)
{
    (void)state;
    char text[MR_ERROR_TEXT];
    write_pattern("shard-0", 1, 10000);
    mr_dataset *dataset = open_shards(1, "bytes=1000&header=500");
    assert_int_equal(truncate(in_folder("shard-0"), 1234), 0);
    snprintf(text, sizeof text, "%s#0 (index 0): file ends at byte 1234, needs 1500",
             in_folder("shard-0"));
    expect_error(dataset, NO_LIMIT, MR_ERR_DAMAGED, 0, text);
    assert_int_equal(truncate(in_folder("shard-0"), 0), 0);
    snprintf(text, sizeof text, "%s#0 (index 0): file ends at byte 0, needs 1500",
             in_folder("shard-0"));
    expect_error(dataset, NO_LIMIT, MR_ERR_DAMAGED, 0, text);
    assert_int_equal(unlink(in_folder("shard-0")), 0);
    snprintf(text, sizeof text, "%s#0 (index 0): No such file or directory", in_folder("shard-0"));
    expect_error(dataset, NO_LIMIT, MR_ERR_DAMAGED, ENOENT, text);
    mr_dataset_destroy(dataset);
}

static void good_files_among_bad_ones_are_read(void **state)
{
    (void)state;
    enum { N = 40 };
    char names[N][16];
    const char *list[N];
    int64_t indices[N];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "m%d", i);
        list[i] = names[i];
        indices[i] = i;
        if (i % 3 == 0)
            write_pattern(names[i], (uint64_t)i, (size_t)i * 1000);
        else if (i % 3 == 1)
            assert_int_equal(mkdir(in_folder(names[i]), 0755), 0);
    }
    mr_dataset *dataset = open_list(list, N);
    struct outcome *first = read_all(dataset, &ways[0], 1, NO_LIMIT, indices, N);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct outcome *outcomes = read_all(dataset, way, 8, NO_LIMIT, indices, N);
        for (int i = 0; i < N; i++) {
            assert_same(&outcomes[i], &first[i], way->name);
            if (i % 3 == 0)
                expect_oracle(dataset, &outcomes[i], way->name);
            else
                assert_int_equal(outcomes[i].os_error,
                                 i % 3 == 1 && !way->is_remote ? EISDIR : ENOENT);
        }
        free_outcomes(outcomes, N);
    }
    free_outcomes(first, N);
    mr_dataset_destroy(dataset);
}

static void a_bad_file_is_not_deferred_forever(void **state)
{
    (void)state;
    write_pattern("good", 1, 100);
    mr_dataset *dataset = open_list((const char *[]){"missing", "good"}, 2);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 4, NO_LIMIT);
        uint32_t n_reaped = 0;
        struct mr_read read = {.index = 1};
        submit(reader, 0, 0);
        while (read.index != 0) {
            while (mr_reader_n_busy(reader) < 4)
                submit(reader, 0, 1);
            assert_true(mr_reader_reap(reader, true, &read));
            mr_reader_recycle(reader, &read);
            if (++n_reaped == 10000) /* a server, or the kernel, may be slow for a while */
                fail_msg("%s: 10000 good reads have ended before the bad one", way->name);
        }
        mr_reader_destroy(reader);
    }
    mr_dataset_destroy(dataset);
}

/* A process that replaces a file again and again, by a short file and a long one in turn. */
static pid_t start_replacing(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    for (;;) {
        for (int i = 0; i < 2; i++) {
            char source[512], link_[512], place[512];
            snprintf(source, sizeof source, "%s/%s", folder(), i ? "long" : "short");
            snprintf(link_, sizeof link_, "%s/next", folder());
            snprintf(place, sizeof place, "%s/changing", folder());
            if (link(source, link_) == 0)
                rename(link_, place);
        }
    }
}

static void a_file_replaced_while_it_is_read_is_the_old_or_the_new_one(void **state)
{
    (void)state;
    static const size_t lens[2] = {100000, 2 * MIB + 12345};
    write_pattern("short", 1, lens[0]);
    write_pattern("long", 2, lens[1]);
    write_pattern("changing", 1, lens[0]);
    mr_dataset *dataset = open_list((const char *[]){"changing"}, 1);
    static const int64_t indices[60];
    pid_t pid = start_replacing();
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct outcome *outcomes = read_all(dataset, way, 4, NO_LIMIT, indices, 60);
        for (size_t i = 0; i < 60; i++) {
            const struct outcome *outcome = &outcomes[i];
            if (outcome->status != MR_OK)
                fail_msg("%s: %s", way->name, outcome->text);
            uint64_t which = outcome->len == lens[1];
            assert_int_equal(outcome->len, lens[which]);
            for (size_t at = 0; at < outcome->len; at++)
                if (outcome->bytes[at] != pattern(which + 1, at))
                    fail_msg("%s: byte %zu of %zu is another file's", way->name, at, outcome->len);
        }
        free_outcomes(outcomes, 60);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    mr_dataset_destroy(dataset);
}

static void polling_gets_every_read(void **state)
{
    (void)state;
    write_pattern("p0", 1, 70000);
    write_pattern("p1", 2, 3 * MIB);
    mr_dataset *dataset = open_list((const char *[]){"p0", "p1"}, 2);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 2, NO_LIMIT);
        struct mr_read reads[2];
        size_t n = 0;
        submit(reader, 7, 0);
        submit(reader, 8, 1);
        while (mr_reader_n_pending(reader) > 0)
            if (mr_reader_reap(reader, false, &reads[n]))
                n++;
        assert_int_equal(n, 2);
        assert_int_equal(mr_reader_n_busy(reader), 2);
        assert_int_equal(reads[0].part[0].len + reads[1].part[0].len, 70000 + 3 * MIB);
        assert_false(reads[0].part[0].bytes == reads[1].part[0].bytes);
        mr_reader_recycle(reader, &reads[1]);
        assert_int_equal(mr_reader_n_busy(reader), 1);
        mr_reader_recycle(reader, &reads[0]);
        assert_int_equal(mr_reader_n_busy(reader), 0);
        mr_reader_destroy(reader);
    }
    mr_dataset_destroy(dataset);
}

static void depth_out_of_range_is_refused(void **state)
{
    (void)state;
    write_pattern("shard-0", 1, 3000);
    mr_dataset *dataset = open_shards(1, "bytes=1000");
    for (uint32_t depth = 0; depth <= 129; depth += 129) {
        struct mr_reader *reader = (struct mr_reader *)state;
        mr_error error;
        struct mr_reader_options options = {.depth = depth};
        assert_int_equal(mr_reader_create(mr_dataset_catalog(dataset), &options, &reader, &error),
                         MR_ERR_INVALID);
        assert_null(reader);
    }
    mr_dataset_destroy(dataset);
}

static void each_reader_has_its_name(void **state)
{
    (void)state;
    write_pattern("shard-0", 1, 3000);
    mr_dataset *dataset = open_shards(1, "bytes=1000");
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 1, NO_LIMIT);
        const char *name = way->kind == MR_READER_URING ? "io_uring" : "pread";
        assert_string_equal(mr_reader_name(reader), way->is_remote ? "http" : name);
        mr_reader_destroy(reader);
    }
    mr_dataset_destroy(dataset);
}

#define T(name) cmocka_unit_test_setup(name, enter_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(files_of_every_size_give_their_bytes),
        T(each_of_many_files_is_read_once),
        T(random_records_give_their_bytes),
        T(overlapping_records_give_their_bytes),
        T(labels_far_from_their_data_are_a_second_extent),
        T(records_longer_than_a_buffer_give_their_bytes),
        T(an_empty_file_gives_no_bytes_and_no_error),
        T(a_missing_file_is_named),
        T(a_looping_symlink_is_named),
        T(a_directory_is_named),
        T(a_name_too_long_for_the_file_system_is_named),
        T(a_fifo_does_not_block),
        T(devices_and_sockets_are_refused),
        T(a_file_above_the_limit_is_named_with_its_size),
        T(a_record_above_the_limit_is_named_with_its_size),
        T(for_a_shard_that_shrank_the_error_says_where_it_ends),
        T(good_files_among_bad_ones_are_read),
        T(a_bad_file_is_not_deferred_forever),
        T(a_file_replaced_while_it_is_read_is_the_old_or_the_new_one),
        T(polling_gets_every_read),
        T(depth_out_of_range_is_refused),
        T(each_reader_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
