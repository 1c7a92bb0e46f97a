/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long run of damaged samples: the counts, and that the work is proportional to the run's length.
 * The work is counted by the callback or in bytes, not timed: each sample is tried in its own
 * place, and by each worker at most once as a substitute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"

enum { N = 100001, GOOD = 15000, N_FILES = 20001, BATCH = 500, BAD_BYTES = 10 };

/* In memory that forked workers share. */
struct tries {
    _Atomic uint32_t of[N];
    _Atomic uint32_t n; /* tries of damaged samples */
};

static struct tries *tries;
static mr_dataset *dataset;
static const float elements[4] = {1, 2, 3, 4};

/*
 * All samples but one are damaged. After far too many tries all are good, so that a failing test
 * ends.
 */
static int get_sample(void *user, int64_t index, mr_sample *sample)
{
    (void)user;
    atomic_fetch_add_explicit(&tries->of[index], 1, memory_order_relaxed);
    bool damaged =
        index != GOOD && atomic_fetch_add_explicit(&tries->n, 1, memory_order_relaxed) < 10 * N;
    sample->bytes = elements;
    sample->len_bytes = sizeof elements;
    return damaged;
}

/* A way to make the batches, with a number of workers. */
static mr_loader_options options_of(const struct rig_mode *mode, uint32_t n_workers,
                                    mr_on_error policy)
{
    mr_loader_options o = rig_options_of(mode);
    if (mode->num_workers != MR_NO_WORKERS)
        o.num_workers = n_workers;
    o.batch_size = BATCH;
    o.on_error = policy;
    o.n_epochs = 1;
    return o;
}

/* Each of n places has the good sample; or a hole, except for the good sample's own place. */
static void take_epoch(mr_loader *loader, uint32_t n, mr_on_error policy)
{
    uint32_t n_rows = 0, n_holes = 0;
    mr_batch *batch;
    mr_status status;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        const int64_t *index = mr_test_data(batch, "index");
        const uint8_t *mask = mr_test_data(batch, "mask");
        for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
            n_holes += !mask[i];
            if (mask[i] && index[i] != GOOD)
                fail_msg("index %lld is not damaged", (long long)index[i]);
        }
        n_rows += mr_batch_size(batch);
        mr_batch_release(batch);
    }
    if (status != MR_END)
        fail_msg("%s", mr_loader_error(loader)->text);
    assert_int_equal(n_rows, n);
    assert_int_equal(n_holes, policy == MR_ON_ERROR_ZERO ? n - 1 : 0);
}

/* All samples but one are damaged. Returns how many workers have died. */
static uint64_t check_counts(mr_loader *loader, uint32_t n)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_error error;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    assert_int_equal(stats.n_damaged, n - 1);
    assert_int_equal(stats.n_damaged_distinct, n - 1);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(mr_loader_damaged(loader, i, &error), MR_OK);
        assert_int_equal(error.status, MR_ERR_DAMAGED);
        if (mr_loader_resolved(loader)->no_shuffle)
            assert_int_equal(error.index, i);
    }
    assert_int_equal(mr_loader_damaged(loader, 1000, &error), MR_END);
    return stats.n_deaths;
}

/* A death costs at most one more try. */
static void check_tries(uint32_t each, uint64_t n_deaths)
{
    uint64_t most = (uint64_t)each * (N - 1) + n_deaths;
    if (atomic_load(&tries->n) > most)
        fail_msg("%u tries, not at most %llu", atomic_load(&tries->n), (unsigned long long)most);
    for (int64_t i = 0; i < N; i++) {
        uint32_t n = atomic_load_explicit(&tries->of[i], memory_order_relaxed);
        if (n == 0 || (i != GOOD && n > each + n_deaths))
            fail_msg("sample %lld was tried %u times", (long long)i, n);
    }
}

static void check_run(const struct rig_mode *mode, uint32_t n_workers, mr_on_error policy,
                      bool shuffle)
{
    mr_loader_options options = options_of(mode, n_workers, policy);
    options.no_shuffle = !shuffle;
    memset(tries, 0, sizeof *tries);
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    take_epoch(loader, N, policy);
    check_counts(loader, N);
    check_tries(policy == MR_ON_ERROR_SKIP ? 1 + n_workers : 1, 0);
    mr_loader_destroy(loader);
}

static void the_work_for_a_run_is_proportional_and_each_place_counts_once(void **state)
{
    (void)state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        bool alone = rig_modes[m].num_workers == MR_NO_WORKERS;
        for (uint32_t n_workers = 1; n_workers <= (alone ? 1 : 5); n_workers += 4) {
            check_run(&rig_modes[m], n_workers, MR_ON_ERROR_SKIP, false);
            check_run(&rig_modes[m], n_workers, MR_ON_ERROR_SKIP, true);
            check_run(&rig_modes[m], n_workers, MR_ON_ERROR_ZERO, false);
        }
    }
}

/* Kills a worker each time that this many more damaged samples were tried. */
struct killer {
    mr_loader *loader;
    uint32_t every;
    _Atomic bool stop;
};

static void *kill_workers(void *arg)
{
    struct killer *k = arg;
    for (uint32_t n = 1; !k->stop;) {
        int64_t pids[8];
        uint32_t n_pids =
            atomic_load(&tries->n) >= n * k->every ? mr_loader_worker_pids(k->loader, pids, 8) : 0;
        if (n_pids > 0 && kill((pid_t)pids[n % n_pids], SIGKILL) == 0)
            n++;
        mr_test_sleep_ms(1);
    }
    return NULL;
}

static mr_loader *start_killing(struct killer *killer, pthread_t *thread_out, uint32_t n_workers,
                                uint32_t every, mr_on_error policy)
{
    mr_loader_options options = options_of(&rig_modes[rig_n_modes - 1], n_workers, policy);
    memset(tries, 0, sizeof *tries);
    killer->loader = mr_test_loader(dataset, NULL, &options);
    killer->every = every;
    killer->stop = false;
    assert_int_equal(pthread_create(thread_out, NULL, kill_workers, killer), 0);
    return killer->loader;
}

static void stop_killing(struct killer *killer, pthread_t thread)
{
    killer->stop = true;
    pthread_join(thread, NULL);
}

static void a_run_under_kills_has_the_same_counts(void **state)
{
    (void)state;
    rig_needs_fork();
    for (uint32_t n_workers = 1; n_workers <= 5; n_workers += 4) {
        struct killer killer;
        pthread_t thread;
        mr_loader *loader =
            start_killing(&killer, &thread, n_workers, N * n_workers / 8, MR_ON_ERROR_SKIP);
        take_epoch(loader, N, MR_ON_ERROR_SKIP);
        stop_killing(&killer, thread);
        uint64_t n_deaths = check_counts(loader, N);
        assert_true(n_deaths >= 1);
        check_tries(1 + n_workers, n_deaths);
        mr_loader_destroy(loader);
    }
}

static void await_death(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    while (mr_loader_get_stats(loader, &stats) == MR_OK && stats.n_deaths == 0)
        mr_test_sleep_ms(1);
}

/* Each batch has more damage than records, and all batches but one have only damage. */
static void batches_that_fail_under_kills_have_the_same_error(void **state)
{
    (void)state;
    rig_needs_fork();
    for (uint32_t n_workers = 1; n_workers <= 5; n_workers += 4) {
        struct killer killer;
        pthread_t thread;
        mr_loader *loader = start_killing(&killer, &thread, n_workers, N / 16, MR_ON_ERROR_FAIL);
        for (int64_t first = 0; first < N; first += BATCH) {
            char reason[64], all[64] = "";
            /* then the damage of the next place is the first one */
            const int64_t good = first == GOOD ? 1 : 0;
            if (first == N / 2 / BATCH * BATCH)
                await_death(loader);
            rig_expect(loader, MR_ERR_DAMAGED);
            const mr_error *error = mr_loader_error(loader);
            snprintf(reason, sizeof reason, "callback sample (index %lld): get returned 1",
                     (long long)(first + good));
            if (first + BATCH <= N && !good)
                snprintf(all, sizeof all, "all %d samples of the batch are damaged: ", BATCH);
            assert_int_equal(error->index, first + good);
            if (strncmp(error->text, all, strlen(all)) != 0 ||
                strncmp(error->text + strlen(all), reason, strlen(reason)) != 0)
                fail_msg("'%s' is not '%s%s'", error->text, all, reason);
        }
        rig_expect(loader, MR_END);
        stop_killing(&killer, thread);
        assert_true(check_counts(loader, N) >= 1);
        mr_loader_destroy(loader);
    }
}

/*
 * A list of N_FILES lines: an image at GOOD, otherwise files so small that their bytes can be
 * counted.
 */
static char *make_list(const char *folder, uint64_t *good_bytes_out)
{
    static char spec[4200];
    char path[4096];
    struct mr_test_image good = mr_test_jpeg(&(struct mr_test_jpeg){.width = 8, .height = 8});
    mr_test_folder_write(folder, "good", good.bytes, good.len);
    *good_bytes_out = good.len;
    mr_test_image_free(&good);
    mr_test_folder_write(folder, "bad", "0123456789", BAD_BYTES);
    snprintf(path, sizeof path, "%s/list.txt", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int64_t i = 0; i < N_FILES; i++)
        assert_true(fputs(i == GOOD ? "good\t0\n" : "bad\t0\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    snprintf(spec, sizeof spec, "list:%s", path);
    return spec;
}

static void the_bytes_read_of_damaged_files_are_proportional(void **state)
{
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 5};
    (void)state;
    rig_needs_fork(); /* helper programs do not run under ThreadSanitizer */
    char *folder = mr_test_folder_create();
    uint64_t good_bytes;
    mr_dataset *list = mr_test_dataset(make_list(folder, &good_bytes));
    for (unsigned k = 0; k < 3; k++) {
        uint32_t each = workers[k] == MR_NO_WORKERS ? 2 : 1 + workers[k];
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.num_workers = workers[k];
        options.batch_size = BATCH;
        options.on_error = MR_ON_ERROR_SKIP;
        options.n_epochs = 1;
        mr_loader *loader = mr_test_loader(list, "eval:8:8", &options);
        take_epoch(loader, N_FILES, MR_ON_ERROR_SKIP);
        assert_int_equal(check_counts(loader, N_FILES), 0);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        uint64_t bad_bytes = stats.bytes_read - N_FILES * good_bytes;
        assert_in_range(bad_bytes, BAD_BYTES * (N_FILES - 1), each * BAD_BYTES * (N_FILES - 1));
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(list);
    mr_test_folder_remove(folder);
}

static int set_up(void **state)
{
    (void)state;
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    mr_error error;
    tries = mmap(NULL, sizeof *tries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    callbacks.n_samples = N;
    callbacks.get = get_sample;
    callbacks.dtype = MR_F32;
    callbacks.ndim = 1;
    callbacks.shape[0] = 4;
    return tries == MAP_FAILED || mr_dataset_from_callbacks(&callbacks, &dataset, &error) != MR_OK;
}

static int tear_down(void **state)
{
    (void)state;
    mr_dataset_destroy(dataset);
    munmap(tries, sizeof *tries);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_for_a_run_is_proportional_and_each_place_counts_once),
        cmocka_unit_test(a_run_under_kills_has_the_same_counts),
        cmocka_unit_test(batches_that_fail_under_kills_have_the_same_error),
        cmocka_unit_test(the_bytes_read_of_damaged_files_are_proportional),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
