/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marker, the file that makes a directory a cache: how it is written, and what counts as a
 * cache after a crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <millrace/cache.h>

#include "cache/cache_folder.h"
#include "cache/cache_format.h"
#include "tests/cache/cache_rig.h"
#include "tests/support/folder.h"
#include "tests/support/assert_words.h"

enum { N = 4 };

struct store {
    char *folder;
    char dir[600];
};

static bool fails_sync;
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    errno = EIO;
    return fails_sync ? -1 : __real_fsync(fd);
}

/* A cache with N entries in one segment. */
static int set_up(void **state)
{
    static struct cache_made made;
    struct store *store = calloc(1, sizeof *store);
    struct mr_cache_place place;
    mr_error error;
    int fd;
    store->folder = mr_test_folder_create();
    snprintf(store->dir, sizeof store->dir, "%s/cache", store->folder);
    assert_ok(mr_cache_folder_open(store->dir, true, &fd, &error), &error);
    struct mr_cache_append *append = mr_cache_append_create(fd);
    assert_non_null(append);
    for (uint64_t i = 0; i < N; i++) {
        cache_rig_make_entry(&made, i);
        assert_int_equal(mr_cache_append_add(append, &made.entry, &place), 0);
    }
    mr_cache_append_destroy(append);
    close(fd);
    *state = store;
    return 0;
}

static int tear_down(void **state)
{
    struct store *store = *state;
    free(store);
    return 0;
}

static void write_marker(const struct store *store, const char *bytes, size_t len)
{
    mr_test_folder_write(store->dir, MR_CACHE_MARKER, bytes, len);
}

static uint64_t count_entries(const struct store *store)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    assert_ok(mr_cache_stat(store->dir, NULL, true, &report, &error), &error);
    assert_int_equal(report.n_damaged, 0);
    return report.n_entries;
}

static mr_status open_dir(const char *dir, bool make, mr_error *error)
{
    int fd;
    mr_status status = mr_cache_folder_open(dir, make, &fd, error);
    if (status == MR_OK)
        close(fd);
    return status;
}

static void expect_marker(const struct store *store)
{
    char path[700], text[64];
    snprintf(path, sizeof path, "%s/%s", store->dir, MR_CACHE_MARKER);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, MR_CACHE_MARKER_TEXT);
}

/* The contents that a crash of the machine can leave. */
static void damaged_marker_is_written_again(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } left[] = {{"", 0},
                {"millrace cache, for", 19},
                {"millrace cache, format 2", 24},
                {"\0\0\0\0\0\0\0\0", 8}};
    struct store *store = *state;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        write_marker(store, left[i].bytes, left[i].len);
        assert_int_equal(count_entries(store), N);
        assert_int_equal(open_dir(store->dir, true, NULL), MR_OK);
        expect_marker(store);
        assert_int_equal(count_entries(store), N);
    }
}

static void lost_marker_is_written_again(void **state)
{
    struct store *store = *state;
    char path[700];
    snprintf(path, sizeof path, "%s/%s", store->dir, MR_CACHE_MARKER);
    assert_int_equal(remove(path), 0);
    /* another program may have made the segments */
    assert_int_equal(mr_cache_clear(store->dir, NULL, NULL), MR_ERR_INVALID);
    assert_int_equal(open_dir(store->dir, true, NULL), MR_OK);
    expect_marker(store);
    assert_int_equal(count_entries(store), N);
}

static void cache_with_a_damaged_marker_is_cleared(void **state)
{
    struct store *store = *state;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    write_marker(store, "", 0);
    assert_int_equal(mr_cache_clear(store->dir, &report, NULL), MR_OK);
    assert_int_equal(report.n_segments, 1);
    assert_int_equal(open_dir(store->dir, true, NULL), MR_OK);
    expect_marker(store);
    assert_int_equal(count_entries(store), 0);
}

/* The directory may then belong to another program. */
static void damaged_marker_beside_other_files_is_not_a_cache(void **state)
{
    struct store *store = *state;
    mr_error error;
    char letter[700];
    write_marker(store, "", 0);
    mr_test_folder_write(store->dir, "letter.txt", "dear", 4);
    for (int make = 0; make < 2; make++) {
        assert_error(open_dir(store->dir, make, &error), MR_ERR_INVALID, &error,
                     "its millrace-cache is damaged, and it holds other files");
    }
    assert_int_equal(mr_cache_clear(store->dir, NULL, &error), MR_ERR_INVALID);
    snprintf(letter, sizeof letter, "%s/letter.txt", store->dir);
    assert_int_equal(unlink(letter), 0);
    assert_int_equal(count_entries(store), N); /* nothing was removed */
}

static void marker_of_another_format_stays(void **state)
{
    struct store *store = *state;
    mr_error error;
    write_marker(store, "millrace cache, format 3\n", 25);
    assert_error(open_dir(store->dir, true, &error), MR_ERR_UNSUPPORTED, &error,
                 "is a cache of format 3; this version uses format 2");
    assert_int_equal(mr_cache_clear(store->dir, NULL, &error), MR_ERR_UNSUPPORTED);
}

static void marker_that_cannot_be_synced_makes_no_cache(void **state)
{
    struct store *store = *state;
    mr_error error;
    char dir[700];
    snprintf(dir, sizeof dir, "%s/unsynced", store->folder);
    fails_sync = true;
    mr_status status = open_dir(dir, true, &error);
    fails_sync = false;
    assert_int_equal(status, MR_ERR_IO);
    assert_int_equal(error.os_error, EIO);
    assert_int_equal(rmdir(dir), 0); /* the directory is empty */
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(damaged_marker_is_written_again),
        STORE_TEST(lost_marker_is_written_again),
        STORE_TEST(cache_with_a_damaged_marker_is_cleared),
        STORE_TEST(damaged_marker_beside_other_files_is_not_a_cache),
        STORE_TEST(marker_of_another_format_stays),
        STORE_TEST(marker_that_cannot_be_synced_makes_no_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
