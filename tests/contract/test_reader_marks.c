/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of samples in a pack, with every reader: they are read with every range of a sample. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/contract/reader_support.h"
#include "tests/dataset/invented_marks.h"
#include "tests/dataset/invented_pack.h"
#include "tests/support/assert_words.h"

enum { N = 40, SHARD = 9000, MARKED = 6, PLAIN = 20 };

static mr_dataset *make_pack(void)
{
    mr_error error = {0};
    mr_dataset *dataset;
    char spec[600];
    struct mr_pack_writer_options options = invented_options(N, SHARD);
    invented_write(in_folder("p"), &options);
    mark_pack(in_folder("p"));
    snprintf(spec, sizeof spec, "pack:%s", in_folder("p"));
    assert_ok(mr_dataset_open(spec, NULL, &dataset, &error), &error);
    return dataset;
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
    assert_memory_equal(part->bytes, whole + range->offset, range->len);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(part->bytes[part->len + i], 0);
}

static void expect_marks(const struct mr_read *read, bool some)
{
    uint8_t want[INVENTED_MAX_MARKS];
    const struct mr_read_part *marks = mr_read_find(read, MR_FOR_MARKS);
    if (!some) {
        assert_null(marks);
        return;
    }
    assert_non_null(marks);
    assert_int_equal(marks->len, invented_marks((uint64_t)read->index, want));
    assert_memory_equal(marks->bytes, want, marks->len);
}

static struct range draw_range(const struct mr_catalog *catalog, uint64_t *seed)
{
    struct range range = {.index = (int64_t)(draw(seed) % N)};
    struct mr_extent whole = mr_catalog_image(catalog, range.index);
    range.offset = draw(seed) % whole.len;
    range.len = 1 + draw(seed) % (whole.len - range.offset);
    return range;
}

static void marks_are_read_with_every_range(void **state)
{
    (void)state;
    enum { N_RANGES = 200 };
    struct range ranges[N_RANGES];
    mr_dataset *dataset = make_pack();
    uint64_t seed = fresh_seed();
    for (size_t i = 0; i < N_RANGES; i++)
        ranges[i] = draw_range(mr_dataset_catalog(dataset), &seed);
    for (const struct way *way = ways; way < ways + N_WAYS; way++) {
        for (size_t d = 0; d < N_DEPTHS && way_works(way); d++) {
            struct mr_reader *reader = make_reader(dataset, way, depths[d], NO_LIMIT);
            size_t n_submitted = 0;
            for (size_t n_ended = 0; n_ended < N_RANGES; n_ended++) {
                struct mr_read read;
                for (; n_submitted < N_RANGES && mr_reader_n_busy(reader) < depths[d];
                     n_submitted++)
                    submit_range(reader, n_submitted, &ranges[n_submitted], true);
                assert_true(mr_reader_reap(reader, true, &read));
                expect_bytes(&read, &ranges[read.tag], way->name);
                expect_marks(&read, is_marked((uint64_t)read.index));
                mr_reader_recycle(reader, &read);
            }
            mr_reader_destroy(reader);
        }
    }
    mr_dataset_destroy(dataset);
}

struct how {
    uint64_t max_bytes;
    uint32_t max_files;
    bool no_marks;
};

/* Read once with one reader. */
static void read_one(const mr_dataset *dataset, const struct way *way, struct how how,
                     const struct range *range,
                     void (*expect)(const struct mr_read *read, const char *way))
{
    struct mr_reader *reader;
    struct mr_read read;
    struct mr_reader_options options = reader_options(way, 2);
    options.max_files = how.max_files;
    submit_from(dataset, how.max_bytes);
    assert_int_equal(mr_reader_create(mr_dataset_catalog(dataset), &options, &reader, NULL), MR_OK);
    submit_range(reader, 5, range, !how.no_marks);
    assert_true(mr_reader_reap(reader, true, &read));
    assert_int_equal(read.tag, 5);
    expect(&read, way->name);
    mr_reader_recycle(reader, &read);
    mr_reader_destroy(reader);
}

static void read_everywhere(const mr_dataset *dataset, struct how how, struct range range,
                            void (*expect)(const struct mr_read *read, const char *way))
{
    for (const struct way *way = ways; way < ways + N_WAYS; way++)
        if (way_works(way))
            read_one(dataset, way, how, &range, expect);
}

static struct range whole_range(int64_t index)
{
    struct invented want;
    invent((uint64_t)index, &want);
    return (struct range){index, 0, want.entry.image.len};
}

static void expect_all_with_marks(const struct mr_read *read, const char *way)
{
    const struct range range = whole_range(MARKED);
    expect_bytes(read, &range, way);
    expect_marks(read, true);
}

static void expect_all_without_marks(const struct mr_read *read, const char *way)
{
    const struct range range = whole_range(MARKED);
    expect_bytes(read, &range, way);
    expect_marks(read, false);
}

static void a_whole_sample_is_read_with_its_marks(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    read_everywhere(dataset, (struct how){.max_bytes = NO_LIMIT}, whole_range(MARKED),
                    expect_all_with_marks);
    mr_dataset_destroy(dataset);
}

static void one_open_file_is_enough(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    read_everywhere(dataset, (struct how){.max_bytes = NO_LIMIT, .max_files = 1},
                    whole_range(MARKED), expect_all_with_marks);
    mr_dataset_destroy(dataset);
}

static void marks_may_be_left_out(void **state)
{
    (void)state;
    mr_dataset *dataset = make_pack();
    read_everywhere(dataset, (struct how){.max_bytes = NO_LIMIT, .no_marks = true},
                    whole_range(MARKED), expect_all_without_marks);
    assert_int_equal(truncate(in_folder("p/marks"), 0), 0); /* the file of marks is not read */
    read_everywhere(dataset, (struct how){.max_bytes = NO_LIMIT, .no_marks = true},
                    whole_range(MARKED), expect_all_without_marks);
    mr_dataset_destroy(dataset);
}

/* The cause in the error of index MARKED, and the file that it names. */
static const char *wanted_file, *wanted_cause;

static void expect_words(const struct mr_read *read, const char *way)
{
    char words[MR_ERROR_TEXT];
    struct invented sample;
    invent(MARKED, &sample);
    snprintf(words, sizeof words, "%s/%s (%s, index %d): %s", in_folder("p"), wanted_file,
             sample.name, (int)MARKED, wanted_cause);
    if (read->status != MR_ERR_DAMAGED || !is_message(way, read->error->text, words))
        fail_msg("%s: %s: \"%s\" instead of \"%s\"", way, mr_status_name(read->status),
                 read->status == MR_OK ? "" : read->error->text, words);
}

static void marks_do_not_count_towards_the_limit(void **state)
{
    (void)state;
    char cause[64];
    mr_dataset *dataset = make_pack();
    struct range all = whole_range(MARKED);
    struct mr_extent extent = mr_catalog_image(mr_dataset_catalog(dataset), MARKED);
    char shard[16];
    snprintf(shard, sizeof shard, "shard-%05d", (int)extent.file);
    read_everywhere(dataset, (struct how){.max_bytes = all.len}, all, expect_all_with_marks);
    wanted_file = shard;
    wanted_cause = cause;
    snprintf(cause, sizeof cause, "%d bytes are above the limit of %d", (int)all.len,
             (int)all.len - 1);
    read_everywhere(dataset, (struct how){.max_bytes = all.len - 1}, all, expect_words);
    mr_dataset_destroy(dataset);
}

static void expect_plain(const struct mr_read *read, const char *way)
{
    const struct range range = {PLAIN, 3, 5};
    expect_bytes(read, &range, way);
    expect_marks(read, false);
}

static void a_cut_file_of_marks_is_named(void **state)
{
    (void)state;
    char cause[64];
    struct mr_extent extent;
    const struct how options = {.max_bytes = NO_LIMIT};
    mr_dataset *dataset = make_pack();
    assert_true(mr_catalog_marks(mr_dataset_catalog(dataset), MARKED, &extent));
    uint64_t end = extent.offset + extent.len;
    assert_int_equal(truncate(in_folder("p/marks"), (off_t)end - 1), 0);
    wanted_file = "marks";
    wanted_cause = cause;
    snprintf(cause, sizeof cause, "file ends at byte %d, needs %d", (int)end - 1, (int)end);
    read_everywhere(dataset, options, whole_range(MARKED), expect_words);
    read_everywhere(dataset, options, (struct range){MARKED, 3, 5}, expect_words);
    read_everywhere(dataset, options, (struct range){PLAIN, 3, 5}, expect_plain);
    assert_int_equal(remove(in_folder("p/marks")), 0);
    wanted_cause = "No such file or directory";
    read_everywhere(dataset, options, whole_range(MARKED), expect_words);
    read_everywhere(dataset, options, (struct range){PLAIN, 3, 5}, expect_plain);
    mr_dataset_destroy(dataset);
}

static void a_cut_shard_of_a_marked_sample_is_named(void **state)
{
    (void)state;
    char cause[64], shard[16], path[32];
    mr_dataset *dataset = make_pack();
    struct mr_extent extent = mr_catalog_image(mr_dataset_catalog(dataset), MARKED);
    snprintf(shard, sizeof shard, "shard-%05d", (int)extent.file);
    snprintf(path, sizeof path, "p/%s", shard);
    assert_int_equal(truncate(in_folder(path), (off_t)extent.offset + 1), 0);
    wanted_file = shard;
    wanted_cause = cause;
    snprintf(cause, sizeof cause, "file ends at byte %d, needs %d", (int)extent.offset + 1,
             (int)(extent.offset + extent.len));
    read_everywhere(dataset, (struct how){.max_bytes = NO_LIMIT}, whole_range(MARKED),
                    expect_words);
    mr_dataset_destroy(dataset);
}

#define T(name) cmocka_unit_test_setup(name, enter_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(marks_are_read_with_every_range),
        T(a_whole_sample_is_read_with_its_marks),
        T(one_open_file_is_enough),
        T(marks_may_be_left_out),
        T(marks_do_not_count_towards_the_limit),
        T(a_cut_file_of_marks_is_named),
        T(a_cut_shard_of_a_marked_sample_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
