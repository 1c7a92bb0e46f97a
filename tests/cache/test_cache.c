/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache as a loader uses it, without the loader: samples are met, packed, found by others, and
 * dropped. Most tests run with each form of cache: packed samples, and marks of files.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "cache/cache_folder.h"
#include "cache/cache_key.h"
#include "tests/cache/cache_pixels.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum { N = 24 };

static unsigned n_lines;
static char last_line[1200];

static void store_line(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    n_lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static uint32_t encoding = MR_PACKED_DCT; /* encoding of all runs */

static int set_up(void **state)
{
    struct cache_rig *rig = calloc(1, sizeof *rig);
    cache_rig_set_up(rig, N);
    rig->encoding = encoding;
    n_lines = 0;
    last_line[0] = '\0';
    mr_log_set(store_line, NULL);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    cache_rig_tear_down(*state);
    mr_log_set(NULL, NULL);
    free(*state);
    return 0;
}

/* Fill the cache in a separate run. */
static void fill_cache(struct cache_rig *rig)
{
    struct cache_run run;
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_fill_all(&run), rig->n);
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
    cache_run_end(&run);
}

static void let_both_work(struct mr_cache_fill *a, struct mr_cache_fill *b)
{
    bool more = true;
    while (more) {
        more = mr_cache_fill_idle(a);
        more = mr_cache_fill_idle(b) || more;
    }
}

static void cached_samples_give_the_pixels_of_their_files(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_count(&run), 0);
    assert_int_equal(cache_run_fill_all(&run), rig->n);
    cache_pixels_compare(&run);
    assert_int_equal(run.region->n_made, cache_rig_n_fit(rig));
    assert_int_equal(cache_run_fill_all(&run), 0);
    cache_run_end(&run);
}

/* Number of samples that the host found in the cache's logs and that no worker has used yet. */
static int64_t count_found(const struct cache_run *run)
{
    int64_t n = 0;
    for (int64_t i = 0; i < run->rig->n; i++)
        n += mr_cache_region_state(run->region->words[i]) == MR_CACHE_FOUND;
    return n;
}

static void later_run_finds_the_entries_of_an_earlier_run(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    fill_cache(rig);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(count_found(&run), rig->n);
    assert_int_equal(cache_run_fill_all(&run), 0);
    cache_pixels_compare(&run);
    assert_int_equal(run.region->n_damaged + run.region->n_stale + run.region->n_made, 0);
    cache_run_end(&run);
}

static void two_runs_see_each_others_entries(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run a, b;
    cache_run_begin(&a, rig, NULL);
    cache_run_begin(&b, rig, NULL);
    for (int64_t i = 0; i < rig->n; i++)
        mr_cache_fill_met(i % 2 ? a.fill : b.fill, i);
    let_both_work(a.fill, b.fill);
    assert_int_equal(a.region->n_made, cache_rig_n_fit(rig) / 2);
    assert_int_equal(cache_run_count(&a), cache_rig_n_fit(rig) / 2);
    mr_cache_host_refresh(a.cache);
    mr_cache_host_refresh(b.cache);
    assert_int_equal(cache_run_count(&a), cache_rig_n_fit(rig));
    assert_int_equal(cache_run_count(&b), cache_rig_n_fit(rig));
    assert_int_equal(cache_run_fill_all(&a) + cache_run_fill_all(&b), 0);
    cache_pixels_compare(&a);
    cache_pixels_compare(&b);
    cache_run_end(&a);
    cache_run_end(&b);
}

static void two_workers_pack_each_sample_once(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct mr_cache_fill *other;
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(mr_cache_fill_create(run.region, rig->catalog, &other, NULL), MR_OK);
    for (int64_t i = 0; i < rig->n; i++) {
        mr_cache_fill_met(run.fill, i);
        mr_cache_fill_met(other, i);
    }
    let_both_work(run.fill, other);
    assert_int_equal(run.region->n_made, cache_rig_n_fit(rig));
    cache_pixels_compare(&run);
    mr_cache_fill_destroy(other);
    cache_run_end(&run);
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    assert_int_equal(mr_cache_stat(rig->dir, rig->dataset, true, &report, NULL), MR_OK);
    assert_int_equal(report.n_entries, cache_rig_n_fit(rig));
    assert_int_equal(report.n_segments, 2);
    assert_int_equal(report.n_filled, cache_rig_n_fit(rig));
}

static void changed_file_is_read_and_packed_again(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    fill_cache(rig);
    cache_rig_change(rig, "class_0/005.jpg", 777);
    assert_int_equal(mr_cache_stat(rig->dir, rig->dataset, false, &report, NULL), MR_OK);
    assert_int_equal(report.n_filled, cache_rig_n_fit(rig) - 1);
    assert_int_equal(report.n_filled_stale, 1);
    cache_run_begin(&run, rig, NULL);
    assert_false(cache_run_has(&run, 5));
    assert_int_equal(run.region->n_stale, 1);
    assert_int_equal(cache_run_fill_all(&run), 1);
    cache_pixels_compare(&run);
    cache_run_end(&run);
    cache_run_begin(&run, rig, NULL); /* the later entry counts */
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
    cache_pixels_compare(&run);
    cache_run_end(&run);
}

static void change_one_byte(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void wrong_byte_is_found_at_the_first_use_and_the_entry_replaced(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    char data[700];
    fill_cache(rig);
    cache_rig_find_file(rig->dir, MR_CACHE_DATA, data);
    change_one_byte(data, 200);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig) - 1);
    assert_int_equal(run.region->n_damaged, 1);
    assert_int_equal(cache_run_fill_all(&run), 1);
    cache_pixels_compare(&run);
    cache_run_end(&run);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
    assert_int_equal(run.region->n_damaged, 0);
    cache_run_end(&run);
}

static void dropped_entry_is_made_again(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    fill_cache(rig);
    cache_run_begin(&run, rig, NULL);
    assert_true(cache_run_has(&run, 3));
    mr_cache_use_drop(run.use, 3);
    assert_false(cache_run_has(&run, 3));
    assert_int_equal(cache_run_fill_all(&run), 1);
    assert_true(cache_run_has(&run, 3));
    cache_run_end(&run);
}

static void log_that_is_cut_during_a_run_loses_only_entries(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct stat st;
    char log[700];
    fill_cache(rig);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
    cache_rig_find_file(rig->dir, MR_CACHE_LOG, log);
    assert_int_equal(stat(log, &st), 0);
    assert_int_equal(truncate(log, st.st_size / 2), 0);
    unsigned n = cache_run_count(&run);
    assert_true(n > 0 && n < cache_rig_n_fit(rig));
    assert_int_equal(cache_run_fill_all(&run), cache_rig_n_fit(rig) - n);
    mr_cache_host_refresh(run.cache);
    cache_pixels_compare(&run);
    cache_run_end(&run);
}

/*
 * Photographs of one size have records of one size. So new records take the places of those that
 * were cut.
 */
static void record_of_another_file_at_a_known_place_is_not_used(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run a, b;
    char name[64], log[700];
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof name, "class_0/%03u.jpg", i);
        cache_rig_change(rig, name, 900 + i);
    }
    cache_run_begin(&a, rig, NULL);
    assert_int_equal(cache_run_fill_all(&a), rig->n);
    cache_run_end(&a);
    cache_run_begin(&a, rig, NULL);
    assert_int_equal(cache_run_count(&a), rig->n);
    cache_rig_find_file(rig->dir, MR_CACHE_LOG, log);
    assert_int_equal(truncate(log, sizeof(struct mr_cache_log_head)), 0);
    cache_run_begin(&b, rig, NULL);
    for (int64_t i = 0; i < rig->n; i++)
        mr_cache_fill_met(b.fill, (i + 5) % rig->n);
    while (mr_cache_fill_idle(b.fill))
        continue;
    assert_int_equal(b.region->n_made, rig->n);
    assert_int_equal(cache_run_count(&a), 0);
    mr_cache_host_refresh(a.cache);
    cache_run_fill_all(&a);
    cache_pixels_compare(&a);
    cache_run_end(&a);
    cache_run_end(&b);
}

static void file_that_cannot_be_packed_has_an_entry_and_is_read_as_a_file(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 30, .height = 20, .colour_type = 2});
    mr_test_folder_write(rig->photos, "class_0/a.png", png.bytes, png.len);
    mr_test_image_free(&png);
    mr_test_folder_write(rig->photos, "class_0/b.jpg", "\xff\xd8\xff no image", 12);
    mr_test_folder_write(rig->photos, "class_0/c.jpg", "", 0);
    cache_rig_reopen(rig);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_fill_all(&run), N + 3);
    assert_int_equal(cache_run_count(&run), N);
    assert_int_equal(run.region->n_as_files, 2);
    assert_int_equal(cache_run_fill_all(&run), 0);
    cache_run_end(&run);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_count(&run), N);
    assert_int_equal(cache_run_fill_all(&run), 1); /* the empty file, for which there is no entry */
    cache_run_end(&run);
    assert_int_equal(mr_cache_stat(rig->dir, rig->dataset, true, &report, NULL), MR_OK);
    assert_int_equal(report.n_filled, N);
    assert_int_equal(report.n_filled_as_files, 2);
    assert_int_equal(report.n_as_files, 2);
}

static void budget_ends_writing_and_is_logged_once(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    struct mr_cache_host_options options = cache_rig_options(rig);
    options.budget_bytes = 40000;
    cache_run_begin(&run, rig, &options);
    cache_run_fill_all(&run);
    unsigned n = cache_run_count(&run);
    assert_true(n > 0 && n < rig->n);
    mr_cache_host_refresh(run.cache);
    mr_cache_host_refresh(run.cache);
    assert_int_equal(n_lines, 1);
    assert_words(last_line, "40000 bytes");
    assert_int_equal(mr_cache_stat(rig->dir, NULL, false, &report, NULL), MR_OK);
    assert_true(report.bytes <= 41000);
    assert_int_equal(mr_cache_clear(rig->dir, NULL, NULL), MR_OK);
    mr_cache_host_refresh(run.cache); /* there is space again */
    assert_true(cache_run_fill_all(&run) > 0);
    cache_run_end(&run);
}

static struct cache_rig *limited;

static int fill_under_a_limit(void)
{
    struct cache_run run;
    struct rlimit limit = {90000, 90000};
    mr_log_set(store_line, NULL);
    cache_run_begin(&run, limited, NULL);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    if (cache_run_fill_all(&run) != limited->n)
        return 2;
    limit = (struct rlimit){4000, 4000};
    mr_cache_host_refresh(run.cache); /* now it has read all records, and finds no new ones */
    mr_cache_use_drop(run.use, 1);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || cache_run_fill_all(&run) != 1)
        return 3;
    mr_cache_host_refresh(run.cache);
    if (cache_run_count(&run) != limited->n - 1 || cache_run_fill_all(&run) != 0)
        return 4;
    return strstr(last_line, "continuing without writing") ? 0 : 5;
}

static void limit_of_file_size_ends_writing(void **state)
{
    limited = *state;
    assert_int_equal(mr_test_in_child(fill_under_a_limit), 0);
}

static int use_read_only(void)
{
    struct cache_run run;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return 77;
    mr_log_set(store_line, NULL);
    cache_run_begin(&run, limited, NULL);
    if (cache_run_count(&run) != cache_rig_n_fit(limited) - 1) /* one file has changed */
        return 1;
    if (cache_run_fill_all(&run) != 0 || n_lines != 1)
        return 2;
    return strstr(last_line, "cannot be written") ? 0 : 3;
}

static void read_only_directory_is_read(void **state)
{
    struct cache_rig *rig = *state;
    fill_cache(rig);
    cache_rig_change(rig, "class_0/002.jpg", 55);
    assert_int_equal(chmod(rig->dir, 0555), 0);
    assert_int_equal(chmod(rig->folder, 0755), 0);
    limited = rig;
    int rc = mr_test_in_child(use_read_only);
    assert_int_equal(chmod(rig->dir, 0777), 0);
    if (rc == 77)
        skip();
    assert_int_equal(rc, 0);
}

static void removed_directory_ends_writing_but_no_run(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    char path[700];
    fill_cache(rig);
    cache_run_begin(&run, rig, NULL);
    assert_true(cache_run_has(&run, 0)); /* opens the segment */
    mr_cache_use_drop(run.use, 7);
    assert_int_equal(mr_cache_clear(rig->dir, NULL, NULL), MR_OK);
    snprintf(path, sizeof path, "%s/%s", rig->dir, MR_CACHE_MARKER);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(rig->dir), 0);
    /* the open files still work */
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig) - 1);
    assert_int_equal(cache_run_fill_all(&run), 1);
    assert_false(cache_run_has(&run, 7));
    mr_cache_host_refresh(run.cache);
    assert_int_equal(n_lines, 1);
    assert_words(last_line, "cannot be written");
    cache_run_end(&run);
}

static void packing_takes_its_share_of_the_time_and_no_more(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct mr_cache_host_options options = cache_rig_options(rig);
    cache_run_begin(&run, rig, &options);
    for (int64_t i = 0; i < rig->n; i++)
        mr_cache_fill_met(run.fill, i);
    assert_false(mr_cache_fill_worked(run.fill, 0)); /* no time has been earned yet */
    assert_true(
        mr_cache_fill_worked(run.fill, 4)); /* the first sample may use more than was earned */
    assert_false(mr_cache_fill_worked(run.fill, 4)); /* the debt must be earned first */
    assert_true(mr_cache_fill_worked(run.fill, UINT64_C(60000000000)));
    assert_true(mr_cache_fill_idle(run.fill)); /* idle time is free */
    run.region->slowdown_percent = 0;
    assert_false(mr_cache_fill_worked(run.fill, UINT64_C(60000000000)));
    run.region->slowdown_percent = 100;
    assert_true(mr_cache_fill_worked(run.fill, 0));
    assert_int_equal(run.region->n_made, 4);
    cache_run_end(&run);
}

static void file_that_has_just_changed_is_packed_later(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 64, .height = 64, .seed = 5});
    cache_run_begin(&run, rig, NULL);
    mr_test_folder_write(rig->photos, "class_0/001.jpg", image.bytes, image.len);
    mr_cache_fill_met(run.fill, 1);
    assert_true(mr_cache_fill_idle(run.fill));
    assert_false(cache_run_has(&run, 1));
    mr_test_sleep_ms(70);
    mr_cache_fill_met(run.fill, 1);
    assert_true(mr_cache_fill_idle(run.fill));
    assert_true(cache_run_has(&run, 1));
    mr_test_image_free(&image);
    cache_run_end(&run);
}

static void flip_somewhere(const char *path, unsigned *seed)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    *seed = *seed * 1103515245 + 12345;
    change_one_byte(path, (off_t)((*seed >> 4) % (unsigned)st.st_size));
}

static void damaged_files_cost_entries_and_never_pixels(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    char path[700];
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    for (unsigned round = 0; round < 12; round++) {
        assert_int_equal(
            mr_cache_stat(rig->dir, NULL, true, &(mr_cache_report)MR_CACHE_REPORT_INIT, NULL),
            round ? MR_OK : MR_ERR_IO);
        cache_run_begin(&run, rig, NULL);
        cache_run_fill_all(&run);
        assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
        cache_pixels_compare(&run);
        cache_run_end(&run);
        for (unsigned i = 0; i < 3; i++) {
            cache_rig_find_file(rig->dir, MR_CACHE_DATA, path);
            flip_somewhere(path, &seed);
            cache_rig_find_file(rig->dir, MR_CACHE_LOG, path);
            flip_somewhere(path, &seed);
        }
    }
}

static void datasets_without_image_files_have_no_cache(void **state)
{
    struct cache_rig *rig = *state;
    struct mr_cache_host_options options = cache_rig_options(rig);
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_dataset *dataset;
    mr_error error;
    char spec[700];
    mr_test_folder_write(rig->folder, "records", "0123456789", 10);
    snprintf(spec, sizeof spec, "records:%s/records?bytes=5", rig->folder);
    assert_int_equal(mr_dataset_open(spec, NULL, &dataset, &error), MR_OK);
    fill_cache(rig);
    struct mr_cache_region *region = calloc(1, mr_cache_region_bytes(2));
    struct mr_cache_host *cache;
    assert_int_equal(
        mr_cache_host_create(&options, mr_dataset_catalog(dataset), region, &cache, &error),
        MR_ERR_UNSUPPORTED);
    assert_null(cache);
    assert_int_equal(mr_cache_stat(rig->dir, dataset, false, &report, &error), MR_ERR_UNSUPPORTED);
    free(region);
    mr_dataset_destroy(dataset);
}

#define CACHE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(cached_samples_give_the_pixels_of_their_files),
        CACHE_TEST(later_run_finds_the_entries_of_an_earlier_run),
        CACHE_TEST(two_runs_see_each_others_entries),
        CACHE_TEST(two_workers_pack_each_sample_once),
        CACHE_TEST(changed_file_is_read_and_packed_again),
        CACHE_TEST(wrong_byte_is_found_at_the_first_use_and_the_entry_replaced),
        CACHE_TEST(dropped_entry_is_made_again),
        CACHE_TEST(log_that_is_cut_during_a_run_loses_only_entries),
        CACHE_TEST(read_only_directory_is_read),
        CACHE_TEST(removed_directory_ends_writing_but_no_run),
        CACHE_TEST(file_that_has_just_changed_is_packed_later),
        CACHE_TEST(damaged_files_cost_entries_and_never_pixels),
    };
    const struct CMUnitTest packed_tests[] = {
        CACHE_TEST(file_that_cannot_be_packed_has_an_entry_and_is_read_as_a_file),
        CACHE_TEST(budget_ends_writing_and_is_logged_once),
        CACHE_TEST(limit_of_file_size_ends_writing),
        CACHE_TEST(packing_takes_its_share_of_the_time_and_no_more),
        CACHE_TEST(record_of_another_file_at_a_known_place_is_not_used),
        CACHE_TEST(datasets_without_image_files_have_no_cache),
    };
    int n_failed = cmocka_run_group_tests(packed_tests, NULL, NULL) +
                   cmocka_run_group_tests(tests, NULL, NULL);
    encoding = MR_PACKED_MARKED;
    return n_failed + cmocka_run_group_tests(tests, NULL, NULL);
}
