/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache, without images: writers that are killed, several writers, and damaged
 * files.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "cache/cache_append.h"
#include "cache/cache_folder.h"
#include "tests/cache/cache_rig.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

struct store {
    char *folder;
    char dir[600];
    int fd;
};

static int set_up(void **state)
{
    struct store *store = calloc(1, sizeof *store);
    mr_error error;
    store->folder = mr_test_folder_create();
    snprintf(store->dir, sizeof store->dir, "%s/cache", store->folder);
    assert_ok(mr_cache_folder_open(store->dir, true, &store->fd, &error), &error);
    *state = store;
    return 0;
}

static int tear_down(void **state)
{
    struct store *store = *state;
    close(store->fd);
    free(store);
    return 0;
}

static int add(struct mr_cache_append *append, uint64_t number)
{
    static struct cache_made made;
    struct mr_cache_place place;
    cache_rig_make_entry(&made, number);
    return mr_cache_append_add(append, &made.entry, &place);
}

static void add_many(const struct store *store, uint64_t first, unsigned n)
{
    struct mr_cache_append *append = mr_cache_append_create(store->fd);
    assert_non_null(append);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(add(append, first + i), 0);
    mr_cache_append_destroy(append);
}

static void assert_counts(const struct store *store, unsigned n_segments, unsigned n_records)
{
    struct cache_counts counts = cache_rig_count(store->dir);
    assert_int_equal(counts.n_wrong, 0);
    assert_int_equal(counts.n_records, n_records);
    assert_int_equal(counts.n_segments, n_segments);
}

static mr_cache_report stat_dir(const char *dir, bool verify)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    assert_ok(mr_cache_stat(dir, NULL, verify, &report, &error), &error);
    return report;
}

/*
 * The linker redirects pwrite() to this. Call number fail_at writes half of its bytes, and the
 * following ones report a full disk.
 */
static unsigned fail_at; /* 0: never */
static bool is_full;
ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    if (is_full) {
        errno = ENOSPC;
        return -1;
    }
    is_full = fail_at > 0 && --fail_at == 0;
    return __real_pwrite(fd, bytes, is_full ? (len + 1) / 2 : len, at);
}

static void added_entries_are_found(void **state)
{
    struct store *store = *state;
    assert_counts(store, 0, 0);
    add_many(store, 0, 300);
    assert_counts(store, 1, 300);
    mr_cache_report report = stat_dir(store->dir, true);
    assert_int_equal(report.n_entries, 300);
    assert_int_equal(report.n_segments, 1);
    assert_int_equal(report.n_damaged, 0);
    assert_int_equal(report.n_torn, 0);
}

static void next_writer_continues_a_segment(void **state)
{
    struct store *store = *state;
    for (unsigned i = 0; i < 5; i++)
        add_many(store, i * 40, 40);
    assert_counts(store, 1, 200);
}

static void entry_of_an_unpacked_file_has_no_bytes(void **state)
{
    struct store *store = *state;
    struct mr_cache_append *append = mr_cache_append_create(store->fd);
    struct mr_cache_entry entry = {.sample = {.path_hash = 7, .encoding = MR_PACKED_JPEG}};
    struct mr_cache_place place;
    assert_int_equal(mr_cache_append_add(append, &entry, &place), 0);
    assert_int_equal(place.grown, sizeof(struct mr_cache_sample));
    mr_cache_append_destroy(append);
    mr_cache_report report = stat_dir(store->dir, true);
    assert_int_equal(report.n_entries, 0);
    assert_int_equal(report.n_as_files, 1);
}

/* Add entries until the process is killed. */
static void write_until_killed(const struct store *store, uint64_t first)
{
    struct mr_cache_append *append = mr_cache_append_create(store->fd);
    while (append && add(append, first++) == 0)
        continue;
    _exit(1);
}

static pid_t start_writer(const struct store *store, uint64_t first)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_until_killed(store, first);
    return child;
}

static void kill_writer(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_at_any_instant_leaves_all_complete_entries(void **state)
{
    struct store *store = *state;
    unsigned seed = (unsigned)time(NULL), n_before = 0;
    print_message("seed %u\n", seed);
    for (unsigned round = 0; round < 30; round++) {
        pid_t child = start_writer(store, round * 100000);
        seed = seed * 1103515245 + 12345;
        nanosleep(&(struct timespec){.tv_nsec = 1000000 + (long)(seed >> 8) % 5000000}, NULL);
        kill_writer(child);
        struct cache_counts counts = cache_rig_count(store->dir);
        assert_int_equal(counts.n_wrong, 0);
        assert_true(counts.n_records >= n_before);
        assert_int_equal(counts.n_segments <= 2, true);
        n_before = counts.n_records;
    }
    assert_true(n_before > 30);
}

static void two_writers_have_separate_segments(void **state)
{
    struct store *store = *state;
    pid_t children[2];
    for (unsigned i = 0; i < 2; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct mr_cache_append *append = mr_cache_append_create(store->fd);
            int rc = append ? 0 : -ENOMEM;
            for (unsigned k = 0; rc == 0 && k < 400; k++, usleep(50))
                rc = add(append, i * 1000 + k);
            _exit(rc != 0);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_counts(store, 2, 800);
}

static void next_writer_cuts_an_incomplete_record(void **state)
{
    struct store *store = *state;
    char log[700];
    struct stat st;
    add_many(store, 0, 3);
    cache_rig_find_file(store->dir, MR_CACHE_LOG, log);
    assert_int_equal(stat(log, &st), 0);
    /* Each time the last record loses bytes, and then another record is added. */
    for (unsigned i = 1; i < 60; i++) {
        assert_int_equal(truncate(log, st.st_size - (off_t)i), 0);
        assert_counts(store, 1, 2);
        assert_int_equal(stat_dir(store->dir, false).n_torn, 1);
        add_many(store, 2, 1);
        assert_counts(store, 1, 3);
        assert_int_equal(stat_dir(store->dir, false).n_torn, 0);
    }
}

static void data_without_a_record_are_not_overwritten(void **state)
{
    struct store *store = *state;
    char data[700];
    struct stat before, after;
    add_many(store, 0, 2);
    cache_rig_find_file(store->dir, MR_CACHE_DATA, data);
    int fd = open(data, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "abandoned", 9), 9);
    close(fd);
    assert_int_equal(stat(data, &before), 0);
    add_many(store, 2, 1);
    assert_int_equal(stat(data, &after), 0);
    assert_true(after.st_size > before.st_size);
    assert_counts(store, 1, 3);
}

static void segment_with_cut_data_is_not_continued(void **state)
{
    struct store *store = *state;
    char data[700];
    add_many(store, 0, 5);
    cache_rig_find_file(store->dir, MR_CACHE_DATA, data);
    assert_int_equal(truncate(data, 10), 0);
    mr_cache_report report = stat_dir(store->dir, false);
    assert_int_equal(report.n_damaged, 5);
    add_many(store, 10, 5);
    struct cache_counts counts = cache_rig_count(store->dir);
    assert_int_equal(counts.n_segments, 2);
    assert_int_equal(counts.n_records, 10);
    assert_int_equal(counts.n_wrong, 5);
}

static void verifying_finds_one_wrong_byte(void **state)
{
    struct store *store = *state;
    char data[700];
    uint8_t byte;
    add_many(store, 0, 20);
    cache_rig_find_file(store->dir, MR_CACHE_DATA, data);
    int fd = open(data, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, 5), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 5), 1);
    close(fd);
    assert_int_equal(stat_dir(store->dir, false).n_damaged, 0);
    assert_int_equal(stat_dir(store->dir, true).n_damaged, 1);
}

static void writer_begins_a_segment_if_its_own_is_removed(void **state)
{
    struct store *store = *state;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    struct mr_cache_append *append = mr_cache_append_create(store->fd);
    assert_int_equal(add(append, 1), 0);
    report.struct_size = 0;
    assert_int_equal(mr_cache_clear(store->dir, &report, &error), MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "struct_size of the mr_cache_report is 0: initialise it with MR_CACHE_REPORT_INIT");
    assert_int_equal(mr_cache_stat(store->dir, NULL, false, &report, NULL), MR_ERR_INVALID);
    assert_counts(store, 1, 1);
    report.struct_size = sizeof report;
    assert_int_equal(mr_cache_clear(store->dir, &report, &error), MR_OK);
    assert_int_equal(report.n_segments, 1);
    assert_counts(store, 0, 0);
    assert_int_equal(add(append, 2), 0);
    assert_counts(store, 1, 1);
    mr_cache_append_destroy(append);
}

static void removed_directory_is_an_error_for_the_writer(void **state)
{
    struct store *store = *state;
    char marker[700];
    struct mr_cache_append *append = mr_cache_append_create(store->fd);
    assert_int_equal(add(append, 1), 0);
    assert_int_equal(mr_cache_clear(store->dir, NULL, NULL), MR_OK);
    snprintf(marker, sizeof marker, "%s/%s", store->dir, MR_CACHE_MARKER);
    assert_int_equal(unlink(marker), 0);
    assert_int_equal(rmdir(store->dir), 0);
    assert_int_equal(add(append, 2), -ENOENT);
    mr_cache_append_destroy(append);
}

static const struct store *limited;

/* Files may have 100000 bytes, far fewer than 300 entries need. */
static int write_under_a_limit(void)
{
    struct mr_cache_append *append = mr_cache_append_create(limited->fd);
    struct rlimit limit = {100000, 100000};
    int rc = append && setrlimit(RLIMIT_FSIZE, &limit) == 0 ? 0 : 1;
    for (unsigned i = 0; rc == 0 && i < 300; i++)
        rc = -add(append, i);
    limit = (struct rlimit){1000, 1000};
    if (rc == 0 && (setrlimit(RLIMIT_FSIZE, &limit) != 0 || add(append, 1000) != -EFBIG))
        rc = 99;
    mr_cache_append_destroy(append);
    return rc;
}

static void limit_of_file_size_begins_new_segments_without_a_signal(void **state)
{
    struct store *store = *state;
    limited = store;
    assert_int_equal(mr_test_in_child(write_under_a_limit), 0);
    struct cache_counts counts = cache_rig_count(store->dir);
    assert_int_equal(counts.n_records, 300);
    assert_int_equal(counts.n_wrong, 0);
    assert_true(counts.n_segments > 3);
}

static void flip(const char *path, unsigned *seed)
{
    struct stat st;
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    *seed = *seed * 1103515245 + 12345;
    off_t at = (off_t)((*seed >> 4) % (unsigned)st.st_size);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (uint8_t)(1u << (*seed >> 28) % 8);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void flipped_bits_in_a_log_never_give_a_wrong_entry(void **state)
{
    struct store *store = *state;
    char log[700];
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    add_many(store, 0, 30);
    cache_rig_find_file(store->dir, MR_CACHE_LOG, log);
    for (unsigned i = 0; i < 300; i++) {
        flip(log, &seed);
        struct cache_counts counts = cache_rig_count(store->dir);
        assert_int_equal(counts.n_wrong, 0);
        assert_true(counts.n_records <= 30);
        stat_dir(store->dir, true);
    }
    add_many(store, 100, 10);
    assert_int_equal(cache_rig_count(store->dir).n_wrong, 0);
}

static void noise_in_place_of_a_log_does_no_harm(void **state)
{
    struct store *store = *state;
    uint8_t noise[5000];
    char log[700];
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    add_many(store, 0, 3);
    cache_rig_find_file(store->dir, MR_CACHE_LOG, log);
    for (unsigned round = 0; round < 100; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
        const char kinds[][4] = {"rsam", "temp"};
        memcpy(noise, kinds[round % 2], 4);
        uint32_t len = round % 3 == 0 ? 544 : (seed >> 8) % 40000 / 8 * 8;
        memcpy(noise + 4, &len, sizeof len);
        int fd = open(log, O_WRONLY);
        assert_int_equal(pwrite(fd, noise, sizeof noise, sizeof(struct mr_cache_log_head)),
                         sizeof noise);
        close(fd);
        assert_int_equal(cache_rig_count(store->dir).n_records, 0);
        stat_dir(store->dir, true);
    }
}

/* Two entries with different templates are six writes: bytes, template and record of each. */
static void full_disk_leaves_no_incomplete_entry(void **state)
{
    struct store *store = *state;
    struct mr_cache_append *append = mr_cache_append_create(store->fd);
    unsigned n = 0;
    assert_int_equal(add(append, n++), 0);
    for (unsigned k = 1; k <= 6; k++) {
        int rc = 0;
        fail_at = k;
        for (unsigned i = 0; i < 3 && rc == 0; i++)
            rc = add(append, n + i * 7);
        assert_int_equal(rc, -ENOSPC);
        assert_int_equal(stat_dir(store->dir, true).n_torn, 0);
        is_full = false;
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(add(append, n + i * 7), 0);
        n += 23; /* the template depends on the number modulo 20, so these are new ones */
    }
    mr_cache_append_destroy(append);
    struct cache_counts counts = cache_rig_count(store->dir);
    assert_int_equal(counts.n_wrong, 0);
    assert_int_equal(counts.n_segments, 1);
    assert_in_range(counts.n_records, 1 + 6 * 3, 1 + 6 * 5);
}

static void directory_with_other_files_is_refused(void **state)
{
    struct store *store = *state;
    mr_error error;
    int fd;
    mr_test_folder_write(store->folder, "letter.txt", "dear", 4);
    assert_error(mr_cache_folder_open(store->folder, true, &fd, &error), MR_ERR_INVALID, &error,
                 "is not a cache");
    assert_int_equal(mr_cache_clear(store->folder, NULL, &error), MR_ERR_INVALID);
    assert_int_equal(mr_cache_clear("/nowhere/at/all", NULL, &error), MR_ERR_IO);
    assert_int_equal(mr_cache_clear(NULL, NULL, &error), MR_ERR_INVALID);
    assert_int_equal(access(store->dir, F_OK), 0);
}

static void clearing_removes_segments_and_nothing_else(void **state)
{
    struct store *store = *state;
    char path[700];
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    add_many(store, 0, 4);
    mr_test_folder_write(store->dir, "seg-notes.log", "mine", 4);
    mr_test_folder_write(store->dir, "letter.txt", "dear", 4);
    assert_int_equal(mr_cache_clear(store->dir, &report, NULL), MR_OK);
    assert_int_equal(report.n_segments, 1);
    assert_true(report.bytes > 1000);
    snprintf(path, sizeof path, "%s/letter.txt", store->dir);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/seg-notes.log", store->dir);
    assert_int_equal(access(path, F_OK), 0);
    assert_counts(store, 0, 0);
    add_many(store, 0, 4);
    assert_counts(store, 1, 4);
}

static void cache_of_another_format_is_refused(void **state)
{
    struct store *store = *state;
    mr_error error;
    int fd;
    mr_test_folder_write(store->dir, MR_CACHE_MARKER, "millrace cache, format 3\n", 25);
    assert_int_equal(mr_cache_folder_open(store->dir, true, &fd, &error), MR_ERR_UNSUPPORTED);
    assert_int_equal(mr_cache_clear(store->dir, NULL, &error), MR_ERR_UNSUPPORTED);
}

static void many_processes_may_open_an_empty_directory_at_once(void **state)
{
    struct store *store = *state;
    char dir[700];
    for (unsigned round = 0; round < 10; round++) {
        pid_t children[4];
        snprintf(dir, sizeof dir, "%s/new-%u", store->folder, round);
        for (unsigned i = 0; i < 4; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                int fd;
                bool opened = mr_cache_folder_open(dir, true, &fd, NULL) == MR_OK;
                struct mr_cache_append *append = opened ? mr_cache_append_create(fd) : NULL;
                _exit(!append || add(append, i) != 0);
            }
        }
        for (unsigned i = 0; i < 4; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(cache_rig_count(dir).n_records, 4);
    }
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(added_entries_are_found),
        STORE_TEST(next_writer_continues_a_segment),
        STORE_TEST(entry_of_an_unpacked_file_has_no_bytes),
        STORE_TEST(kill_at_any_instant_leaves_all_complete_entries),
        STORE_TEST(two_writers_have_separate_segments),
        STORE_TEST(next_writer_cuts_an_incomplete_record),
        STORE_TEST(data_without_a_record_are_not_overwritten),
        STORE_TEST(segment_with_cut_data_is_not_continued),
        STORE_TEST(verifying_finds_one_wrong_byte),
        STORE_TEST(writer_begins_a_segment_if_its_own_is_removed),
        STORE_TEST(removed_directory_is_an_error_for_the_writer),
        STORE_TEST(limit_of_file_size_begins_new_segments_without_a_signal),
        STORE_TEST(flipped_bits_in_a_log_never_give_a_wrong_entry),
        STORE_TEST(noise_in_place_of_a_log_does_no_harm),
        STORE_TEST(full_disk_leaves_no_incomplete_entry),
        STORE_TEST(directory_with_other_files_is_refused),
        STORE_TEST(clearing_removes_segments_and_nothing_else),
        STORE_TEST(cache_of_another_format_is_refused),
        STORE_TEST(many_processes_may_open_an_empty_directory_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
