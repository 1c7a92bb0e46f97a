/* SPDX-License-Identifier: Apache-2.0 */
/* Faults around a cache: limits, workers that died, a temporary shortage. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "base/clock.h"
#include "cache/cache_folder.h"
#include "cache/cache_key.h"
#include "tests/cache/cache_rig.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum { N = 8 };

static int set_up(void **state)
{
    struct cache_rig *rig = calloc(1, sizeof *rig);
    cache_rig_set_up(rig, N);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    cache_rig_tear_down(*state);
    free(*state);
    return 0;
}

/* It is damaged without a cache, so it must be damaged with one. */
static void file_above_the_limit_is_not_taken_from_the_cache(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct mr_cache_version version;
    struct mr_cache_host_options options = cache_rig_options(rig);
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_fill_all(&run), rig->n);
    cache_run_end(&run);
    assert_int_equal(mr_cache_key_stat(rig->catalog, 3, &version), 0);
    options.max_file_bytes = version.file_bytes;
    cache_run_begin(&run, rig, &options);
    assert_true(cache_run_has(&run, 3));
    cache_run_end(&run);
    options.max_file_bytes--;
    cache_run_begin(&run, rig, &options);
    assert_false(cache_run_has(&run, 3));
    cache_run_end(&run);
}

static void sample_that_killed_two_workers_is_not_packed(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    uint64_t now_s = mr_clock_now_ns() / UINT64_C(1000000000);
    if (now_s < 200) /* soon after boot no time is old enough for an expired claim */
        skip();
    cache_run_begin(&run, rig, NULL);
    run.region->words[2] =
        mr_cache_region_word(MR_CACHE_CLAIMED, 1, now_s); /* a worker is packing it */
    run.region->words[3] = mr_cache_region_word(MR_CACHE_CLAIMED, 1, now_s - 130);
    run.region->words[4] = mr_cache_region_word(MR_CACHE_CLAIMED, 2, now_s - 130);
    assert_int_equal(cache_run_fill_all(&run), rig->n - 2);
    assert_false(cache_run_has(&run, 2));
    assert_true(cache_run_has(&run, 3));
    assert_int_equal(mr_cache_region_state(run.region->words[4]), MR_CACHE_AS_FILE);
    cache_run_end(&run);
}

static struct cache_rig *limited;

static int fill_after_a_shortage(void)
{
    struct cache_run run;
    struct rlimit limit, none;
    cache_run_begin(&run, limited, NULL);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    none = (struct rlimit){0, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0)
        return 2;
    mr_cache_host_refresh(run.cache);
    mr_cache_fill_met(run.fill, 0);
    mr_cache_fill_idle(run.fill);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || cache_run_fill_all(&run) != limited->n)
        return 3;
    return cache_run_count(&run) == limited->n ? 0 : 4;
}

static void shortage_of_descriptors_does_not_end_writing(void **state)
{
    limited = *state;
    assert_int_equal(mr_test_in_child(fill_after_a_shortage), 0);
}

/*
 * As after damage at the start of a log: the next writer cuts the log there, while a run still
 * knows its former content.
 */
static void template_at_a_rewritten_place_is_read_again(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run a, b;
    struct mr_cache_hit seen_by_a, seen_by_b;
    char log[700];
    cache_run_begin(&a, rig, NULL);
    assert_int_equal(cache_run_fill_all(&a), rig->n);
    cache_run_end(&a);
    cache_run_begin(&a, rig, NULL);
    assert_int_equal(cache_run_count(&a), rig->n);
    cache_rig_find_file(rig->dir, ".log", log);
    assert_int_equal(truncate(log, sizeof(struct mr_cache_log_head)), 0);
    struct mr_test_image coarse =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 90, .height = 70, .seed = 1, .quality = 30});
    mr_test_folder_write(rig->photos, "class_0/000.jpg", coarse.bytes, coarse.len);
    mr_test_image_free(&coarse);
    mr_test_sleep_ms(70);
    cache_run_begin(&b, rig, NULL);
    mr_cache_fill_met(b.fill, 0);
    assert_true(mr_cache_fill_idle(b.fill));
    assert_false(cache_run_has(&a, 0));
    mr_cache_host_refresh(a.cache);
    assert_true(cache_run_find(&a, 0, &seen_by_a));
    assert_true(cache_run_find(&b, 0, &seen_by_b));
    assert_memory_equal(seen_by_a.image.template, seen_by_b.image.template,
                        sizeof *seen_by_a.image.template);
    cache_run_end(&a);
    cache_run_end(&b);
}

static void fill_in_a_run(struct cache_rig *rig)
{
    struct cache_run run;
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_fill_all(&run), rig->n);
    cache_run_end(&run);
}

static void either_file_of_a_segment_alone_is_counted_and_cleared(void **state)
{
    static const char *const endings[] = {MR_CACHE_LOG, MR_CACHE_DATA};
    struct cache_rig *rig = *state;
    for (int lost = 0; lost < 2; lost++) {
        char gone[700], left[700];
        struct cache_run run;
        struct stat st;
        mr_cache_report report = MR_CACHE_REPORT_INIT;
        fill_in_a_run(rig);
        cache_rig_find_file(rig->dir, endings[lost], gone);
        cache_rig_find_file(rig->dir, endings[1 - lost], left);
        assert_int_equal(unlink(gone), 0);
        assert_int_equal(stat(left, &st), 0);
        cache_run_begin(&run, rig, NULL);
        assert_int_equal(cache_run_count(&run), 0);
        /* they count for the budget, because they use disk space */
        assert_int_equal(run.region->bytes, st.st_size);
        cache_run_end(&run);
        assert_int_equal(mr_cache_stat(rig->dir, NULL, false, &report, NULL), MR_OK);
        assert_int_equal(report.n_segments, 1);
        assert_int_equal(report.n_torn, 1);
        assert_int_equal(report.bytes, st.st_size);
        assert_int_equal(mr_cache_clear(rig->dir, &report, NULL), MR_OK);
        assert_int_equal(report.n_segments, 1);
        assert_int_equal(report.bytes, st.st_size);
        assert_int_equal(stat(left, &st), -1);
    }
}

static void expect_no_cache(const char *path, const char *words)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    int fd;
    assert_error(mr_cache_folder_open(path, true, &fd, &error), MR_ERR_INVALID, &error, words);
    assert_error(mr_cache_stat(path, NULL, false, &report, &error), MR_ERR_INVALID, &error, words);
}

static void fifo_in_place_of_a_cache_or_its_marker_is_named(void **state)
{
    struct cache_rig *rig = *state;
    char marker[700];
    alarm(30);
    assert_int_equal(mkfifo(rig->dir, 0666), 0);
    expect_no_cache(rig->dir, "it is not a directory");
    assert_int_equal(unlink(rig->dir), 0);
    assert_int_equal(mkdir(rig->dir, 0777), 0);
    snprintf(marker, sizeof marker, "%s/millrace-cache", rig->dir);
    assert_int_equal(mkfifo(marker, 0666), 0);
    expect_no_cache(rig->dir, "its millrace-cache is not a regular file");
    alarm(0);
}

/* True if the error of creating or emptying a cache names the read-only file system. */
static bool says_read_only(const mr_error *error)
{
    return error->os_error == EROFS && strstr(error->text, "Read-only file system");
}

static int use_a_read_only_file_system(void)
{
    /* flags of /tmp that must not be removed */
    const unsigned long restricted = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    char missing[700], empty[700];
    struct cache_run run;
    mr_error error;
    int fd;
    snprintf(missing, sizeof missing, "%s/missing", limited->folder);
    snprintf(empty, sizeof empty, "%s/empty", limited->folder);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        mount(limited->folder, limited->folder, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        mount(NULL, limited->folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | restricted, NULL) !=
            0)
        return 77;
    if (mr_cache_folder_open(missing, true, &fd, &error) != MR_ERR_IO || !says_read_only(&error))
        return 1;
    if (mr_cache_folder_open(empty, true, &fd, &error) != MR_ERR_IO || !says_read_only(&error))
        return 2;
    if (mr_cache_clear(limited->dir, NULL, &error) != MR_ERR_IO || !says_read_only(&error))
        return 3;
    cache_run_begin(&run, limited, NULL);
    if (cache_run_count(&run) != limited->n || run.region->stop_errno != EROFS)
        return 4;
    return 0;
}

static void read_only_file_system_is_named_and_a_cache_on_it_is_read(void **state)
{
    limited = *state;
    char empty[700];
    snprintf(empty, sizeof empty, "%s/empty", limited->folder);
    assert_int_equal(mkdir(empty, 0777), 0);
    fill_in_a_run(limited);
    int rc = mr_test_in_child(use_a_read_only_file_system);
    if (rc == 77)
        skip();
    assert_int_equal(rc, 0);
}

#define CACHE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(file_above_the_limit_is_not_taken_from_the_cache),
        CACHE_TEST(sample_that_killed_two_workers_is_not_packed),
        CACHE_TEST(shortage_of_descriptors_does_not_end_writing),
        CACHE_TEST(template_at_a_rewritten_place_is_read_again),
        CACHE_TEST(either_file_of_a_segment_alone_is_counted_and_cleared),
        CACHE_TEST(fifo_in_place_of_a_cache_or_its_marker_is_named),
        CACHE_TEST(read_only_file_system_is_named_and_a_cache_on_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
