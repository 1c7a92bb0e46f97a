/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of samples in a pack, with every reader: exactly the requested bytes, and the same errors.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/pack_index.h"
#include "tests/contract/reader_support.h"
#include "tests/dataset/invented_pack.h"
#include "tests/support/assert_words.h"

enum { N = 40, SHARD = 9000 };

static mr_dataset *open_pack(void)
{
    mr_error error = {0};
    mr_dataset *dataset;
    char spec[600];
    snprintf(spec, sizeof spec, "pack:%s", in_folder("p"));
    assert_ok(mr_dataset_open(spec, NULL, &dataset, &error), &error);
    return dataset;
}

static mr_dataset *make_pack(void)
{
    struct mr_pack_writer_options options = invented_options(N, SHARD);
    invented_write(in_folder("p"), &options);
    return open_pack();
}

static void expect_bytes(const struct mr_read *read, const struct range *range, const char *way)
{
    struct invented want;
    invent((uint64_t)range->index, &want);
    const uint8_t *whole = want.bytes;
    if (read->status != MR_OK)
        fail_msg("%s: %s", way, read->error->text);
    assert_int_equal(read->index, range->index);
    const struct mr_read_part *part = &read->part[0];
    assert_int_equal(part->len, range->len);
    assert_non_null(part->bytes);
    assert_memory_equal(part->bytes, whole + range->offset, range->len);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(part->bytes[part->len + i], 0);
}

/* Read all ranges, with as many in flight as the depth allows. */
static void expect_ranges(const mr_dataset *dataset, const struct range *ranges, size_t n)
{
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (size_t d = 0; d < N_DEPTHS && way_works(way); d++) {
            struct mr_reader *reader = make_reader(dataset, way, depths[d], NO_LIMIT);
            size_t n_submitted = 0, n_ended = 0;
            while (n_ended < n) {
                struct mr_read read;
                for (; n_submitted < n && mr_reader_n_busy(reader) < depths[d]; n_submitted++)
                    submit_range(reader, n_submitted, &ranges[n_submitted], false);
                assert_true(mr_reader_reap(reader, true, &read));
                expect_bytes(&read, &ranges[read.tag], way->name);
                mr_reader_recycle(reader, &read);
                n_ended++;
            }
            assert_int_equal(mr_reader_n_pending(reader), 0);
            mr_reader_destroy(reader);
        }
    }
}

static void ranges_of_samples_give_their_bytes(void **state)
{
    (void)state;
    enum { N_RANGES = 300 };
    struct range ranges[N_RANGES];
    mr_dataset *dataset = make_pack();
    uint64_t seed = fresh_seed();
    for (size_t i = 0; i < N_RANGES; i++) {
        ranges[i].index = (int64_t)(draw(&seed) % N);
        struct mr_extent whole = mr_catalog_image(mr_dataset_catalog(dataset), ranges[i].index);
        ranges[i].offset = draw(&seed) % (whole.len + 1);
        ranges[i].len = draw(&seed) % (whole.len - ranges[i].offset + 1);
    }
    expect_ranges(dataset, ranges, N_RANGES);
    mr_dataset_destroy(dataset);
}

static void a_whole_sample_is_one_range(void **state)
{
    (void)state;
    struct range ranges[N];
    mr_dataset *dataset = make_pack();
    for (int64_t i = 0; i < N; i++) {
        struct mr_extent whole = mr_catalog_image(mr_dataset_catalog(dataset), i);
        ranges[i] = (struct range){i, 0, whole.len};
    }
    expect_ranges(dataset, ranges, N);
    mr_dataset_destroy(dataset);
}

static void an_empty_range_is_no_error(void **state)
{
    (void)state;
    struct invented want;
    mr_dataset *dataset = make_pack();
    invent(0, &want);
    const uint64_t end = want.entry.image.len;
    const struct range ranges[] = {{0, 0, 0}, {0, 50, 0}, {0, end, 0}, {1, 0, 3}};
    expect_ranges(dataset, ranges, 4);
    mr_dataset_destroy(dataset);
}

static void a_submitted_sample_is_read_whole(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        int64_t indices[N];
        for (int64_t i = 0; i < N; i++)
            indices[i] = i;
        struct outcome *outcomes = read_all(dataset, way, 8, NO_LIMIT, indices, N);
        for (int64_t i = 0; i < N; i++) {
            struct invented want;
            invent((uint64_t)i, &want);
            assert_int_equal(outcomes[i].status, MR_OK);
            assert_int_equal(outcomes[i].len, want.entry.image.len);
            assert_memory_equal(outcomes[i].bytes, want.bytes, outcomes[i].len);
        }
        free_outcomes(outcomes, N);
    }
    mr_dataset_destroy(dataset);
}

/* Every reader reports this message for this range, and continues reading. */
static void expect_range_error(const mr_dataset *dataset, const struct range *range,
                               uint64_t max_bytes, const char *words)
{
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        struct mr_read read;
        if (!way_works(way))
            continue;
        struct mr_reader *reader = make_reader(dataset, way, 2, max_bytes);
        submit_range(reader, 5, range, false);
        assert_true(mr_reader_reap(reader, true, &read));
        if (read.status != MR_ERR_DAMAGED || !is_message(way->name, read.error->text, words))
            fail_msg("%s: %s: \"%s\" instead of \"%s\"", way->name, mr_status_name(read.status),
                     read.status == MR_OK ? "" : read.error->text, words);
        assert_int_equal(read.error->index, range->index);
        assert_int_equal(read.tag, 5);
        assert_null(read.part[0].bytes);
        mr_reader_recycle(reader, &read);
        submit_range(reader, 6, &(struct range){20, 3, 5}, false);
        assert_true(mr_reader_reap(reader, true, &read));
        expect_bytes(&read, &(struct range){20, 3, 5}, way->name);
        mr_reader_recycle(reader, &read);
        mr_reader_destroy(reader);
    }
}

static const char *format_message(int64_t index, const char *shard, const char *rest)
{
    static char text[MR_ERROR_TEXT];
    struct invented sample;
    invent((uint64_t)index, &sample);
    snprintf(text, sizeof text, "%s/%s (%s, index %d): %s", in_folder("p"), shard, sample.name,
             (int)index, rest);
    return text;
}

static void ranges_outside_a_sample_are_damage(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack(); /* sample 0: 100 bytes */
    const struct {
        uint64_t offset, len;
        const char *rest;
    } cases[] = {
        {0, 101, "101 bytes at 0 are outside its 100 bytes"},
        {101, 0, "0 bytes at 101 are outside its 100 bytes"},
        {50, UINT64_MAX, "18446744073709551615 bytes at 50 are outside its 100 bytes"},
        {UINT64_MAX, 2, "2 bytes at 18446744073709551615 are outside its 100 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_part_list list;
        mr_error error;
        mr_catalog_parts(mr_dataset_catalog(dataset), 0, NO_LIMIT, &list);
        assert_int_equal(mr_catalog_restrict(mr_dataset_catalog(dataset), 0, cases[i].offset,
                                             cases[i].len, &list, &error),
                         MR_ERR_DAMAGED);
        assert_string_equal(error.text, format_message(0, "shard-00000", cases[i].rest));
    }
    mr_dataset_destroy(dataset);
}

static void a_range_above_the_limit_is_named_with_its_size(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    expect_range_error(dataset, &(struct range){0, 1, 90}, 89,
                       format_message(0, "shard-00000", "90 bytes are above the limit of 89"));
    mr_dataset_destroy(dataset);
}

static void for_a_cut_shard_the_error_says_where_it_ends(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    assert_int_equal(truncate(in_folder("p/shard-00000"), 60), 0);
    expect_range_error(dataset, &(struct range){0, 10, 80}, NO_LIMIT,
                       format_message(0, "shard-00000", "file ends at byte 60, needs 90"));
    assert_int_equal(remove(in_folder("p/shard-00000")), 0);
    expect_range_error(dataset, &(struct range){0, 10, 80}, NO_LIMIT,
                       format_message(0, "shard-00000", "No such file or directory"));
    mr_dataset_destroy(dataset);
}

static void a_sample_that_points_outside_is_damaged_for_every_reader(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    mr_dataset_destroy(dataset);
    size_t len;
    uint8_t *bytes = read_whole(in_folder("p/index"), &len);
    struct mr_pack_header header;
    memcpy(&header, bytes, sizeof header);
    memset(bytes + header.sections[MR_PACK_SAMPLES].off + offsetof(struct mr_pack_sample, offset),
           0xff, 8);
    mend_index(bytes, len);
    write_whole(in_folder("p/index"), bytes, len);
    free(bytes);
    dataset = open_pack();
    struct mr_packed_image image;
    mr_error error;
    assert_int_equal(mr_catalog_packed(mr_dataset_catalog(dataset), 0, &image, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(
        error.text, format_message(0, "index", "its entry in the index points outside the pack"));
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        if (!way_works(way))
            continue;
        struct outcome *outcomes = read_all(dataset, way, 4, NO_LIMIT, (const int64_t[]){0, 1}, 2);
        assert_int_equal(outcomes[0].status, MR_ERR_DAMAGED);
        assert_int_equal(outcomes[1].status, MR_OK);
        free_outcomes(outcomes, 2);
    }
    mr_dataset_destroy(dataset);
}

#define T(name) cmocka_unit_test_setup(name, enter_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ranges_of_samples_give_their_bytes),
        T(a_whole_sample_is_one_range),
        T(an_empty_range_is_no_error),
        T(a_submitted_sample_is_read_whole),
        T(ranges_outside_a_sample_are_damage),
        T(a_range_above_the_limit_is_named_with_its_size),
        T(for_a_cut_shard_the_error_says_where_it_ends),
        T(a_sample_that_points_outside_is_damaged_for_every_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
