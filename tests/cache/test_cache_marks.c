/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker finds a sample's marks in the cache and reads only a part of its file. The file may
 * change at any moment between the look-up and the decoding, and old marks must never be used with
 * new bytes.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/cache_folder.h"
#include "loader/workers/worker_cache.h"
#include "tests/cache/cache_rig.h"
#include "tests/support/processes.h"
#include "tests/support/rewrite.h"
#include "transforms/plan_compile.h"

enum { N = 4, INDEX = 1, OLD = 501, NEW = 502, SETTLE_MS = 70 };

/* One run with a full cache, and the objects of a worker. */
struct marked {
    struct cache_rig rig;
    struct cache_run run;
    char path[700]; /* path of the file of INDEX */
    struct mr_plan plan;
    struct mr_plan_runner *runner;
    struct mr_reader *reader;
    struct mr_worker_cache *cached;
    struct mr_sample_source source;
    struct mr_sample_job job;
    struct mr_read read;
    struct mr_fetched fetched;
    uint8_t *out;
    uint8_t *expected;
};

static void begin(struct marked *m)
{
    struct mr_reader_options options = {.kind = MR_READER_PREAD, .depth = 2};
    mr_error error;
    cache_run_begin(&m->run, &m->rig, NULL);
    assert_int_equal(
        mr_plan_compile(NULL, mr_catalog_kind(m->rig.catalog), MR_U8, MR_NHWC, &m->plan, &error),
        MR_OK);
    assert_int_equal(
        mr_plan_runner_create(&m->plan, &m->run.region->limits, false, &m->runner, &error), MR_OK);
    m->source = (struct mr_sample_source){
        .catalog = m->rig.catalog, .runner = m->runner, .max_bytes = 1 << 30};
    m->cached = mr_worker_cache_create(m->run.region, MR_N_TAGS, &m->source);
    assert_non_null(m->cached);
    options.other_files = mr_worker_cache_files(m->cached);
    assert_int_equal(mr_reader_create(m->rig.catalog, &options, &m->reader, &error), MR_OK);
    m->out = malloc(m->plan.out_bytes);
    m->expected = malloc(m->plan.out_bytes);
}

static int set_up(void **state)
{
    struct marked *m = calloc(1, sizeof *m);
    cache_rig_set_up(&m->rig, N);
    m->rig.encoding = MR_PACKED_MARKED;
    snprintf(m->path, sizeof m->path, "%s/class_0/001.jpg", m->rig.photos);
    assert_int_equal(unlink(m->path), 0);
    mr_test_rewrite(m->path, OLD, 10);
    mr_test_sleep_ms(SETTLE_MS);
    begin(m);
    assert_int_equal(cache_run_fill_all(&m->run), N);
    assert_int_equal(cache_run_count(&m->run), N);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct marked *m = *state;
    mr_reader_destroy(m->reader);
    mr_worker_cache_destroy(m->cached);
    mr_plan_runner_destroy(m->runner);
    free(m->out);
    free(m->expected);
    cache_run_end(&m->run);
    cache_rig_tear_down(&m->rig);
    free(m);
    return 0;
}

/* Submit a sample as a worker does: its marks and a range of its file are read. */
static void submit(struct marked *m)
{
    struct mr_part_list list;
    m->job = (struct mr_sample_job){.index = INDEX};
    mr_rng_init(&m->job.draws, 3, 0, INDEX);
    assert_true(mr_worker_cache_list(m->cached, &m->job, &list));
    assert_true(m->job.has_marks && m->job.offset > 0);
    assert_true(list.part[0].extent.len < m->job.hit.file_bytes);
    mr_reader_submit(m->reader, 0, INDEX, &list);
}

static void reap(struct marked *m)
{
    assert_true(mr_reader_reap(m->reader, true, &m->read));
}

static bool take_sample(struct marked *m)
{
    int64_t label;
    mr_error error;
    return mr_worker_cache_check(m->cached, &m->job, &m->read) &&
           mr_sample_fetch_take(&m->source, &m->job, &m->read, &label, &m->fetched, &error) ==
               MR_OK;
}

static mr_status run(struct marked *m)
{
    struct mr_plan_runner_report report;
    mr_error error;
    return mr_sample_fetch_run(&m->source, &m->job, &m->fetched, m->out, &report, &error);
}

/* Expect the pixels of the whole file, as it is now. */
static void expect_file(struct marked *m)
{
    struct mr_sample_job job = m->job;
    struct mr_plan_runner_report report;
    struct mr_fetched fetched;
    struct mr_read read;
    mr_error error;
    int64_t label;
    struct mr_part_list list;
    assert_int_equal(mr_sample_fetch_list(&m->source, &job, false, false, &list, &error), MR_OK);
    mr_reader_submit(m->reader, 0, INDEX, &list);
    assert_true(mr_reader_reap(m->reader, true, &read));
    assert_int_equal(mr_sample_fetch_take(&m->source, &job, &read, &label, &fetched, &error),
                     MR_OK);
    assert_int_equal(mr_sample_fetch_run(&m->source, &job, &fetched, m->expected, &report, &error),
                     MR_OK);
    mr_reader_recycle(m->reader, &read);
}

static bool is_absent(struct marked *m)
{
    return mr_cache_region_state(m->run.region->words[INDEX]) == MR_CACHE_ABSENT;
}

static void sample_is_read_with_marks_from_a_range_of_its_file(void **state)
{
    struct marked *m = *state;
    submit(m);
    reap(m);
    assert_true(take_sample(m));
    assert_true(m->fetched.packed.marks_len > 0 && m->fetched.packed.marks != NULL);
    assert_int_equal(run(m), MR_OK);
    mr_reader_recycle(m->reader, &m->read);
    expect_file(m);
    assert_memory_equal(m->out, m->expected, m->plan.out_bytes);
}

static void file_that_changes_before_it_is_read_is_read_whole(void **state)
{
    struct marked *m = *state;
    submit(m);
    mr_test_rewrite(m->path, NEW, 20);
    reap(m);
    assert_false(take_sample(m));
    assert_int_equal(m->run.region->n_stale, 1);
    assert_true(is_absent(m));
    mr_reader_recycle(m->reader, &m->read);
}

static void file_that_changes_after_it_was_read_is_read_whole(void **state)
{
    struct marked *m = *state;
    submit(m);
    reap(m);
    mr_test_rewrite(m->path, NEW, 20);
    assert_false(take_sample(m));
    assert_int_equal(m->run.region->n_stale, 1);
    assert_true(is_absent(m));
    mr_reader_recycle(m->reader, &m->read);
}

/*
 * Meanwhile another worker has marked the new file. Its marks do not belong to the bytes that were
 * read, even if they give the same range.
 */
static void new_marks_are_not_used_on_old_bytes(void **state)
{
    static const uint32_t seeds[] = {NEW, OLD, OLD};
    struct marked *m = *state;
    for (unsigned i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        submit(m);
        reap(m);
        mr_test_rewrite(m->path, seeds[i], 20 + i);
        mr_test_sleep_ms(SETTLE_MS);
        mr_cache_use_drop(m->run.use, INDEX);
        assert_int_equal(cache_run_fill_all(&m->run), 1);
        assert_true(cache_run_has(&m->run, INDEX));
        assert_false(take_sample(m));
        assert_int_equal(m->run.region->n_stale, 0);
        assert_false(is_absent(m));
        mr_reader_recycle(m->reader, &m->read);
    }
    submit(m); /* now they belong to the bytes */
    reap(m);
    assert_true(take_sample(m));
    assert_int_equal(run(m), MR_OK);
    mr_reader_recycle(m->reader, &m->read);
    expect_file(m);
    assert_memory_equal(m->out, m->expected, m->plan.out_bytes);
}

static void file_that_is_cut_is_read_whole(void **state)
{
    struct marked *m = *state;
    submit(m);
    assert_int_equal(truncate(m->path, 900), 0);
    reap(m);
    assert_int_equal(m->read.status, MR_ERR_DAMAGED);
    assert_false(take_sample(m));
    assert_int_equal(m->run.region->n_stale, 1);
    assert_true(is_absent(m));
    mr_reader_recycle(m->reader, &m->read);
}

static void flip_data(struct marked *m, off_t at)
{
    char data[700];
    uint8_t byte;
    cache_rig_find_file(m->rig.dir, MR_CACHE_DATA, data);
    int fd = open(data, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void marks_with_a_wrong_byte_decode_nothing(void **state)
{
    struct marked *m = *state;
    struct mr_cache_hit hit;
    assert_true(cache_run_find(&m->run, INDEX, &hit));
    uint64_t at = hit.entry.offset, len = hit.entry.len;
    for (uint64_t i = 0; i < len; i += 1 + len / 23) {
        flip_data(m, (off_t)(at + i));
        submit(m);
        reap(m);
        assert_true(take_sample(m)); /* a run does not verify entries that it has made */
        assert_int_equal(run(m), MR_ERR_DAMAGED);
        mr_reader_recycle(m->reader, &m->read);
        flip_data(m, (off_t)(at + i));
    }
    mr_worker_cache_drop(m->cached, INDEX);
    assert_true(is_absent(m));
}

#define MARKS_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MARKS_TEST(sample_is_read_with_marks_from_a_range_of_its_file),
        MARKS_TEST(file_that_changes_before_it_is_read_is_read_whole),
        MARKS_TEST(file_that_changes_after_it_was_read_is_read_whole),
        MARKS_TEST(new_marks_are_not_used_on_old_bytes),
        MARKS_TEST(file_that_is_cut_is_read_whole),
        MARKS_TEST(marks_with_a_wrong_byte_decode_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
