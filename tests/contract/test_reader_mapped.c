/* SPDX-License-Identifier: Apache-2.0 */
/* When small parts are copied from mapped files, and what happens if such a file shrinks. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataset/reader/reader_impl.h"
#include "tests/contract/reader_support.h"

enum { RECORD = 2000, N = 200 };

/* io_uring where it works, beside mapped files */
static const struct way automatic = {.name = "auto", .maps_files = true};

/*
 * A reader that maps files when it has seen that they are in memory. max_files: as in its options.
 */
static struct mr_reader *make_mapping(const mr_dataset *dataset, uint32_t max_files)
{
    struct mr_reader_options options = reader_options(&automatic, 4);
    struct mr_reader *reader;
    mr_error error;
    options.max_files = max_files;
    assert_int_equal(mr_reader_create(mr_dataset_catalog(dataset), &options, &reader, &error),
                     MR_OK);
    submit_from(dataset, NO_LIMIT);
    return reader;
}

/* Read n records from the first on, as often as it takes, and compare each with the oracle. */
static void read_records(const mr_dataset *dataset, struct mr_reader *reader, size_t n)
{
    int64_t *indices = malloc(n * sizeof *indices);
    assert_non_null(indices);
    for (size_t i = 0; i < n; i++)
        indices[i] = (int64_t)(i * 7 % N);
    struct outcome *outcomes = read_with(reader, 4, indices, n);
    for (size_t i = 0; i < n; i++)
        expect_oracle(dataset, &outcomes[i], "mapped");
    free_outcomes(outcomes, n);
    free(indices);
}

/* Map a file of RECORD * N bytes, and count its pages that are in memory. */
static size_t count_cached(int fd)
{
    static uint8_t pages[(size_t)RECORD * N / 4096 + 1]; /* no page is smaller */
    size_t len = (size_t)RECORD * N, n = 0;
    void *map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mincore(map, len, pages), 0);
    assert_int_equal(munmap(map, len), 0);
    for (size_t i = 0; i < sizeof pages; i++)
        n += pages[i] & 1;
    return n;
}

/* Remove a file from memory. False if its file system keeps it there. */
static bool evict(const char *name)
{
    int fd = open(in_folder(name), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    size_t n = count_cached(fd);
    close(fd);
    return n == 0;
}

/* Read a file with ordinary calls, so that it is in memory. */
static void load(const char *name)
{
    static uint8_t bytes[(size_t)RECORD * N];
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), sizeof bytes);
    fclose(file);
}

/* The number of mappings of shards in this process. */
static int count_maps(void)
{
    char line[1024];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        n += strstr(line, "/shard-") != NULL;
    fclose(maps);
    return n;
}

static void a_file_is_mapped_once_it_is_seen_in_memory(void **state)
{
    (void)state;
    write_pattern("shard-0", 1, (size_t)RECORD * N);
    mr_dataset *dataset = open_shards(1, "bytes=2000");
    struct mr_reader *reader = make_mapping(dataset, 0);
    read_records(dataset, reader, 16 * MR_READER_PROBES - 1);
    assert_false(mr_reader_is_mapped(reader));
    read_records(dataset, reader, N);
    if (reader->mapped.n_needed > 0) /* 0: this file system cannot tell what is in memory */
        assert_true(mr_reader_is_mapped(reader));
    read_records(dataset, reader, N);
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
}

/*
 * Let the reader find that the first record is not in memory. False if that does not happen: the
 * probe begins to read it, and a device may be so fast that it succeeds. A page that a mapping uses
 * stays in memory, so the file is not mapped yet.
 */
static bool miss(const mr_dataset *dataset, struct mr_reader *reader)
{
    read_records(dataset, reader, 1); /* opens the file */
    for (int i = 0; i < 10 && evict("shard-0"); i++) {
        reader->mapped.n_cached = MR_READER_PROBES;
        reader->mapped.n_parts = N; /* the next part is probed */
        read_records(dataset, reader, 1);
        if (!mr_reader_is_mapped(reader))
            return reader->mapped.n_needed > 0;
    }
    return false;
}

static void after_a_miss_more_parts_must_be_in_memory(void **state)
{
    (void)state;
    write_pattern("shard-0", 1, (size_t)RECORD * N);
    mr_dataset *dataset = open_shards(1, "bytes=2000");
    struct mr_reader *reader = make_mapping(dataset, 0);
    if (miss(dataset, reader)) {
        assert_int_equal(reader->mapped.n_needed, 4 * MR_READER_PROBES);
        load("shard-0");
        read_records(dataset, reader, 16 * 4 * MR_READER_PROBES + 16);
        assert_true(mr_reader_is_mapped(reader));
    } else {
        print_message("not tested here: the file stays in memory\n");
    }
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
}

/* 32 KB and the last label are the limit, and files that are samples are not mapped. */
static void parts_that_are_long_or_loose_are_not_mapped(void **state)
{
    (void)state;
    const struct way *mapped = &ways[N_WAYS - 1];
    write_pattern("shard-0", 1, 3 * MIB);
    mr_dataset *datasets[] = {open_shards(1, "bytes=32776"), open_shards(1, "bytes=32777"),
                              open_list((const char *[]){"shard-0"}, 1)};
    for (int i = 0; i < 3; i++) {
        const struct range ranges[] = {{0, 0, i == 1 ? 32777 : 100}, {0, 0, i == 1 ? 32777 : 100}};
        struct mr_reader *reader = make_reader(datasets[i], mapped, 4, NO_LIMIT);
        struct outcome *outcomes = read_ranges(reader, 4, ranges, 2);
        assert_int_equal(outcomes[1].status, MR_OK);
        assert_int_equal(reader->mapped.n_parts, i == 0 ? 2 : 0);
        free_outcomes(outcomes, 2);
        mr_reader_destroy(reader);
        mr_dataset_destroy(datasets[i]);
    }
}

static void write_zeros(const char *name)
{
    int fd = open(in_folder(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)RECORD * N), 0);
    close(fd);
}

static void check_shrunk(long len)
{
    char text[MR_ERROR_TEXT];
    const int64_t cut = len / RECORD, indices[] = {cut, N - 1, cut > 0 ? cut - 1 : cut};
    mr_dataset *dataset = open_shards(1, "bytes=2000");
    struct mr_reader *reader = make_reader(dataset, &ways[N_WAYS - 1], 4, NO_LIMIT);
    read_records(dataset, reader, 8);
    assert_int_equal(truncate(in_folder("shard-0"), len), 0);
    struct outcome *outcomes = read_with(reader, 4, indices, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(outcomes[i].status, MR_ERR_DAMAGED);
        snprintf(text, sizeof text, "%s#%d (index %d): file ends at byte %ld, needs %d",
                 in_folder("shard-0"), (int)indices[i], (int)indices[i], len,
                 ((int)indices[i] + 1) * RECORD);
        assert_string_equal(outcomes[i].text, text);
    }
    assert_int_equal(outcomes[2].status, cut > 0 ? MR_OK : MR_ERR_DAMAGED);
    if (cut > 0)
        expect_oracle(dataset, &outcomes[2], "mapped");
    assert_true(mr_reader_is_mapped(reader));
    free_outcomes(outcomes, 3);
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
}

/*
 * The last page of a file is zero after the end, also where the file had other bytes, and a file of
 * zeros has the same there. Each length is a fault at another place: pages before the record, in
 * it, and the last byte of it.
 */
static void a_mapped_file_that_shrinks_is_damage(void **state)
{
    (void)state;
    for (long len = (long)RECORD * N - 1; len > 0; len -= 1997) {
        write_pattern("shard-0", 1, (size_t)RECORD * N);
        check_shrunk(len);
        write_zeros("shard-0");
        check_shrunk(len);
    }
}

/* A part that must be read is not kept waiting by parts that are copied at once. */
static void a_read_ends_beside_copies(void **state)
{
    (void)state;
    uint32_t n_reaped = 0;
    struct mr_read read = {.index = 0};
    write_pattern("shard-0", 1, (size_t)RECORD * N);
    mr_dataset *dataset = open_shards(1, "bytes=2000");
    struct mr_reader *reader = make_reader(dataset, &automatic, 4, NO_LIMIT);
    read_records(dataset, reader, 8);
    assert_int_equal(truncate(in_folder("shard-0"), (long)RECORD * N - 1), 0);
    submit(reader, 0, N - 1);
    while (read.index != N - 1) {
        while (mr_reader_n_busy(reader) < 4)
            submit(reader, 0, n_reaped % (N - 1));
        assert_true(mr_reader_reap(reader, true, &read));
        mr_reader_recycle(reader, &read);
        assert_true(++n_reaped < 10000); /* the kernel may be slow for a while */
    }
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
}

/* They are what a file that has shrunk would have. */
static void zeros_in_a_mapped_file_are_good(void **state)
{
    (void)state;
    const struct way *mapped = &ways[N_WAYS - 1];
    write_zeros("shard-0");
    mr_dataset *dataset = open_shards(1, "bytes=2000");
    struct mr_reader *reader = make_reader(dataset, mapped, 4, NO_LIMIT);
    read_records(dataset, reader, 15);
    assert_true(mr_reader_is_mapped(reader));
    read_records(dataset, reader, N);
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
}

/* More shards than the reader may keep open, so that they are mapped and unmapped in turn. */
static void shards_are_unmapped_when_they_are_closed(void **state)
{
    (void)state;
    enum { SHARDS = 6 };
    for (uint32_t i = 0; i < SHARDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "shard-%u", i);
        write_pattern(name, i, (size_t)RECORD * N / SHARDS / RECORD * RECORD + RECORD);
    }
    mr_dataset *dataset = open_shards(SHARDS, "bytes=2000");
    struct mr_reader *reader = make_mapping(dataset, 2);
    reader->mapped.n_cached = MR_READER_PROBES;
    for (int i = 0; i < 3; i++)
        read_records(dataset, reader, N);
    assert_in_range(count_maps(), 0, 2);
    free_outcomes(read_with(reader, 1, (int64_t[]){0, 1}, 2), 2); /* the second is mapped */
    assert_in_range(count_maps(), mr_reader_is_mapped(reader), 2);
    mr_reader_destroy(reader);
    assert_int_equal(count_maps(), 0);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_is_mapped_once_it_is_seen_in_memory, enter_folder),
        cmocka_unit_test_setup(after_a_miss_more_parts_must_be_in_memory, enter_folder),
        cmocka_unit_test_setup(parts_that_are_long_or_loose_are_not_mapped, enter_folder),
        cmocka_unit_test_setup(a_mapped_file_that_shrinks_is_damage, enter_folder),
        cmocka_unit_test_setup(a_read_ends_beside_copies, enter_folder),
        cmocka_unit_test_setup(zeros_in_a_mapped_file_are_good, enter_folder),
        cmocka_unit_test_setup(shards_are_unmapped_when_they_are_closed, enter_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
