/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of samples at URLs that is damaged, full, or written by processes that are killed: the
 * bits are those of the local files.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/processes.h"
#include "tests/system/remote_rig.h"

static void flip_byte(const char *path)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 100, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, 100, SEEK_SET);
    fputc(byte ^ 16, file);
    fclose(file);
}

/* As if the writer had been killed within its last record. */
static void tear(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 5), 0);
}

/* Damage a file of each segment of the cache. Returns the number of segments. */
static int damage_cache(const char *ending, void (*damage)(const char *path))
{
    char path[9000];
    int n = 0;
    DIR *dir = opendir(remote_rig.cache);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!strstr(entry->d_name, ending))
            continue;
        snprintf(path, sizeof path, "%s/%s", remote_rig.cache, entry->d_name);
        damage(path);
        n++;
    }
    closedir(dir);
    return n;
}

static void damage_is_requested_again(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    uint64_t digests[REMOTE_EPOCHS];
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    remote_rig_oracle(local, digests);
    for (int i = 0; i < 2; i++) {
        mr_loader_options o = remote_rig_options(2, forms[i]);
        remote_rig_empty_cache();
        remote_rig_expect_epochs(remote, &o, 0, 1, digests);
        int n = damage_cache(".data", flip_byte);
        assert_in_range(n, 1, 2);
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, digests), REMOTE_N - n);
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, digests), REMOTE_N);
        remote_rig_empty_cache();
        remote_rig_expect_epochs(remote, &o, 0, 1, digests);
        n = damage_cache(".log", tear);
        assert_int_equal(remote_rig_count_torn(remote, 2).n_torn, n);
        assert_int_equal(remote_rig_count_torn(remote, 2).n_filled, REMOTE_N - n);
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, digests), REMOTE_N - n);
        assert_int_equal(remote_rig_expect_epochs(remote, &o, 0, 1, digests), REMOTE_N);
    }
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

/*
 * First come stays: what is in the cache is used in each epoch. A new loader may add samples that
 * are small enough for what is left; each worker may exceed the limit by one sample.
 */
static void a_cache_at_its_limit_stops_growing(void **state)
{
    (void)state;
    enum { LIMIT = 200000, MOST_OVER = 2 * 10000 };
    uint64_t digests[REMOTE_EPOCHS];
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_INDEX);
    remote_rig_oracle(local, digests);
    o.cache_bytes = LIMIT;
    uint64_t n_before = 0;
    for (uint64_t e = 0; e < 2 * REMOTE_EPOCHS; e++) {
        assert_int_equal(remote_rig_expect_epochs(remote, &o, e % REMOTE_EPOCHS, 1, digests),
                         n_before);
        mr_cache_report report = remote_rig_count(remote);
        assert_in_range(report.n_filled, n_before > 5 ? n_before : 5, REMOTE_N - 5);
        assert_in_range(report.bytes, LIMIT / 2, LIMIT + MOST_OVER);
        n_before = report.n_filled;
    }
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}

#ifndef MR_TEST_TSAN
/* Also while it is written. */
static void killed_workers_change_no_bit(void **state)
{
    (void)state;
    uint64_t digests[REMOTE_EPOCHS];
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_DCT);
    remote_rig_oracle(local, digests);
    for (int round = 0; round < 8; round++) {
        int64_t pids[2];
        remote_rig_empty_cache();
        mr_loader *loader = mr_test_loader(remote, "train:48", &o);
        mr_test_sleep_ms(5 * (uint32_t)round);
        uint32_t n = mr_loader_worker_pids(loader, pids, 2);
        for (uint32_t i = 0; i < n; i++)
            kill((pid_t)pids[i], SIGKILL);
        for (uint64_t e = 0; e < REMOTE_EPOCHS; e++)
            remote_rig_expect_epoch(loader, e, digests);
        mr_loader_destroy(loader);
        /* Claims of the dead stay, and segments that they had not finished. */
        assert_in_range(remote_rig_count_torn(remote, n).n_filled, REMOTE_N - n, REMOTE_N);
        remote_rig_expect_epochs(remote, &o, 0, 1, digests);
        assert_int_equal(remote_rig_count_torn(remote, n).n_filled, REMOTE_N);
    }
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}
#endif

#define T(name) cmocka_unit_test_setup_teardown(name, remote_rig_set_up, remote_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(damage_is_requested_again),
        T(a_cache_at_its_limit_stops_growing),
#ifndef MR_TEST_TSAN
        T(killed_workers_change_no_bit),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
