/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of samples at URLs that is damaged, full, or written by processes that are killed: the
 * bits are those of the local files.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

enum { N_RANKS = 2, DIGITS = 20 };

/* One of the ranks that share a cache. Returns 0: its epochs have these digests. */
static int run_rank(char **argv)
{
    uint64_t digests[REMOTE_EPOCHS];
    snprintf(remote_rig.cache, sizeof remote_rig.cache, "%s", argv[2]);
    mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_DCT);
    o.world_size = N_RANKS;
    o.rank = (uint32_t)atoi(argv[3]);
    for (int e = 0; e < REMOTE_EPOCHS; e++)
        digests[e] = strtoull(argv[4 + e], NULL, 16);
    mr_dataset *remote = remote_rig_open(REMOTE_TAR, argv[1]);
    mr_loader *loader = mr_test_loader(remote, "train:48", &o);
    int n_wrong = 0;
    for (uint64_t e = 0; e < REMOTE_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        n_wrong += epoch.status != MR_END || epoch.n_failures > 0 || epoch.digest != digests[e];
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(remote);
    return n_wrong;
}

static void find_digests(mr_dataset *local, uint32_t rank, char digests[REMOTE_EPOCHS][DIGITS])
{
    mr_loader_options o = remote_rig_options(MR_NO_WORKERS, MR_CACHE_FORM_AUTO);
    o.cache = NULL;
    o.world_size = N_RANKS;
    o.rank = rank;
    mr_loader *loader = mr_test_loader(local, "train:48", &o);
    for (uint64_t e = 0; e < REMOTE_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        assert_int_equal(epoch.status, MR_END);
        snprintf(digests[e], DIGITS, "%" PRIx64, epoch.digest);
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
}

static pid_t start_rank(uint32_t rank, char digests[REMOTE_EPOCHS][DIGITS])
{
    const char *url = mr_test_http_url(remote_rig.server), *number = rank ? "1" : "0";
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "rank", url, remote_rig.cache, number, digests[0], digests[1],
              digests[2], (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Wait for a child that ends by itself. */
static int await_rank(pid_t pid)
{
    int status = -1;
    for (int i = 0; i < 6000; i++) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        assert_true(ended >= 0);
        if (ended == pid)
            return status;
        mr_test_sleep_ms(10);
    }
    kill(pid, SIGKILL);
    fail_msg("a rank hangs");
    return status;
}

static void expect_no_children(void)
{
    int n = 0;
    while (waitpid(-1, NULL, WNOHANG) >= 0) { /* the workers of a dead host are our children */
        assert_true(n++ < 2000);
        mr_test_sleep_ms(10);
    }
    assert_int_equal(errno, ECHILD);
}

/* Only the marker and segments. */
static void expect_clean_cache(void)
{
    DIR *dir = opendir(remote_rig.cache);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        assert_true(entry->d_name[0] == '.' || strcmp(entry->d_name, "millrace-cache") == 0 ||
                    strncmp(entry->d_name, "seg-", 4) == 0);
    closedir(dir);
}

/* kill -9 of the workers of one rank, of its host, or of both, while the cache is filled. */
static void killed_ranks_change_no_bit_of_others(void **state)
{
    (void)state;
    enum { WORKERS, HOST, ALL, N_KILLS, N_ROUNDS = 4 * N_KILLS };
    char digests[N_RANKS][REMOTE_EPOCHS][DIGITS];
    uint64_t whole[REMOTE_EPOCHS];
    mr_dataset *local = remote_rig_open(REMOTE_TAR, remote_rig.folder),
               *remote = remote_rig_open(REMOTE_TAR, mr_test_http_url(remote_rig.server));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    remote_rig_oracle(local, whole);
    for (uint32_t r = 0; r < N_RANKS; r++)
        find_digests(local, r, digests[r]);
    for (int round = 0; round < N_ROUNDS; round++) {
        pid_t pids[N_RANKS];
        int what = round % N_KILLS;
        remote_rig_empty_cache();
        remote_rig.n_seen = 0;
        remote_rig.pause_ms = 2;
        for (uint32_t r = 0; r < N_RANKS; r++)
            pids[r] = start_rank(r, digests[r]);
        while (remote_rig.n_seen < 5 + 7 * (uint32_t)round)
            mr_test_sleep_ms(1);
        if (what == ALL)
            kill(pids[0], SIGSTOP); /* it replaces no worker */
        uint32_t n_killed = what == HOST ? 2 : mr_test_signal_workers(pids[0], SIGKILL);
        if (what != WORKERS)
            kill(pids[0], SIGKILL);
        int status = await_rank(pids[0]);
        if (what == WORKERS)
            assert_int_equal(status, 0);
        else
            assert_int_equal(WTERMSIG(status), SIGKILL);
        assert_int_equal(await_rank(pids[1]), 0);
        expect_no_children();
        expect_clean_cache();
        remote_rig.pause_ms = 0;
        remote_rig_count_torn(remote, n_killed);
        mr_loader_options o = remote_rig_options(2, MR_CACHE_FORM_DCT);
        remote_rig_expect_epochs(remote, &o, 0, 1, whole);
        assert_int_equal(remote_rig_count_torn(remote, n_killed).n_filled, REMOTE_N);
    }
    mr_dataset_destroy(local);
    mr_dataset_destroy(remote);
}
#endif

#define T(name) cmocka_unit_test_setup_teardown(name, remote_rig_set_up, remote_rig_tear_down)

int main(int argc, char **argv)
{
#ifndef MR_TEST_TSAN
    if (argc == 4 + REMOTE_EPOCHS)
        return run_rank(argv);
#endif
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        T(damage_is_requested_again),
        T(a_cache_at_its_limit_stops_growing),
#ifndef MR_TEST_TSAN
        T(killed_workers_change_no_bit),
        T(killed_ranks_change_no_bit_of_others),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
