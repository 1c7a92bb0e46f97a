/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace cache` prints what a cache contains, and removes only that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/cache_folder.h"
#include "tests/cache/cache_rig.h"
#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static void add_entries(const char *dir, unsigned n)
{
    static struct cache_made made;
    struct mr_cache_place place;
    int folder;

    assert_int_equal(mr_cache_folder_open(dir, true, &folder, NULL), MR_OK);
    struct mr_cache_append *append = mr_cache_append_create(folder);
    assert_non_null(append);
    for (unsigned i = 0; i < n; i++) {
        cache_rig_make_entry(&made, i);
        assert_int_equal(mr_cache_append_add(append, &made.entry, &place), 0);
    }
    mr_cache_append_destroy(append);
    close(folder);
}

static void stat_counts_entries_segments_and_bytes(void **state)
{
    struct mr_run run = {0};

    (void)state;
    add_entries("counted", 12);
    mr_run_command(&run, "cache", "stat", "counted", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "counted: 12 entries in 1 segments, ");
    assert_words(run.out, " kB\npacked samples: 12, ");
    assert_words(run.out, "\nindexes of files: 0, 0 bytes\n");
    assert_words(run.out, "damaged entries: 0 (bytes not read)\n");
    assert_string_equal(run.err, "");
    mr_run_command(&run, "cache", "stat", "counted", "--verify", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "damaged entries: 0\n");
    mr_run_free(&run);
}

static void stat_says_how_much_of_a_dataset_is_there(void **state)
{
    struct mr_run run = {0};

    (void)state;
    add_entries("foreign", 5);
    mr_run_make_images("photos", 2, 2);
    mr_run_command(&run, "cache", "stat", "foreign", "--data", "photos", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "photos: 0 of 4 samples (0.0 %), 0 of them indexed; of the rest, 0 "
                          "cannot be packed or indexed, 0 have changed, 0 are damaged\n");
    mr_run_command(&run, "cache", "stat", "foreign", "--data", "nowhere", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "nowhere");
    mr_run_free(&run);
}

static void clear_leaves_an_empty_cache(void **state)
{
    struct mr_run run = {0};

    (void)state;
    add_entries("cleared", 5);
    mr_run_write_file("cleared/letter.txt", "dear", 4);
    mr_run_command(&run, "cache", "clear", "cleared", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "cleared: 1 segments removed, ");
    assert_true(mr_run_exists("cleared/letter.txt"));
    mr_run_command(&run, "cache", "stat", "cleared", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "cleared: 0 entries in 0 segments, 0 bytes\n");
    mr_run_free(&run);
}

static void what_is_no_cache_is_refused(void **state)
{
    struct mr_run run = {0};

    (void)state;
    assert_int_equal(mkdir("letters", 0777), 0);
    mr_run_write_file("letters/seg-0000000000000001.log", "dear", 4);
    mr_run_command(&run, "cache", "clear", "letters", NULL);
    assert_int_equal(run.status, 2);
    assert_words(run.err, "letters is not a cache");
    assert_true(mr_run_exists("letters/seg-0000000000000001.log"));
    mr_run_command(&run, "cache", "stat", "letters", NULL);
    assert_int_equal(run.status, 2);
    mr_run_command(&run, "cache", "stat", "missing", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "missing");
    mr_run_free(&run);
}

static void wrong_calls_are_refused(void **state)
{
    static const char *const calls[][4] = {{NULL},
                                           {"stat", NULL},
                                           {"prune", "letters", NULL},
                                           {"stat", "a", "b", NULL},
                                           {"clear", "a", "--verify", NULL}};
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        mr_run_command(&run, "cache", calls[i][0], calls[i][1], calls[i][2], NULL);
        assert_int_equal(run.status, 2);
        assert_words(run.err, "millrace cache: ");
    }
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_counts_entries_segments_and_bytes),
        cmocka_unit_test(stat_says_how_much_of_a_dataset_is_there),
        cmocka_unit_test(clear_leaves_an_empty_cache),
        cmocka_unit_test(what_is_no_cache_is_refused),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
