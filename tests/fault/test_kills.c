/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that are killed, stopped, crash, exit or hang: nothing is lost, nothing hangs, and the
 * error names the cause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/killer.h"
#include "tests/support/processes.h"
#include "tests/support/scale.h"
#include "tests/support/assert_words.h"

enum { N_CLASSES = 4, N_IMAGES = 40, N_SAMPLES = N_CLASSES * N_IMAGES };

static char *folder;
static mr_dataset *dataset;

static mr_loader_options base_options(mr_start start)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 16;
    o.num_workers = 3;
    o.start = start;
    return o;
}

/* What the workers make while they are killed. */
struct work {
    mr_dataset *dataset;
    const char *transform;
    mr_dtype dtype;
    uint32_t pad_batch;
    uint32_t aspect_ratio_groups;
};

static mr_loader *make_loader(const struct work *work, mr_loader_options *options)
{
    options->dtype = work->dtype;
    options->pad_batch = work->pad_batch;
    options->aspect_ratio_groups = work->aspect_ratio_groups;
    return mr_test_loader(work->dataset, work->transform, options);
}

static void run_under_fire(const struct work *work, mr_start start, uint32_t n_kills)
{
    mr_loader_options calm = base_options(MR_START_DEFAULT);
    calm.num_workers = MR_NO_WORKERS;
    mr_loader *oracle = make_loader(work, &calm);
    mr_loader_options o = base_options(start);
    mr_loader *loader = make_loader(work, &o);
    struct mr_test_killer *killer = mr_test_killer_start(loader, SIGKILL);
    for (uint64_t e = 0; mr_test_killer_n_kills(killer) < n_kills; e++) {
        struct mr_test_epoch expected = mr_test_epoch_run(oracle, e % 3);
        struct mr_test_epoch got = mr_test_epoch_run(loader, e % 3);
        assert_int_equal(got.status, MR_END);
        assert_int_equal(got.n_failures, 0);
        assert_true(got.digest == expected.digest);
        mr_test_epoch_free(&expected);
        mr_test_epoch_free(&got);
    }
    mr_test_killer_stop(killer);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_true(stats.n_deaths >= n_kills / 2);
    assert_int_equal(stats.n_damaged, 0);
    mr_loader_destroy(loader);
    mr_loader_destroy(oracle);
    assert_int_equal(mr_test_count_workers(getpid()), 0);
}

static void many_kills_change_no_byte(void **state)
{
    (void)state;
    run_under_fire(&(struct work){dataset, "train:224", MR_U8, 0, 0}, MR_START_EXEC,
                   mr_test_scale(200));
}

static void kills_of_forked_workers_change_no_byte(void **state)
{
    (void)state;
    run_under_fire(&(struct work){dataset, "train:224", MR_U8, 0, 0}, MR_START_FORK,
                   mr_test_scale(40));
}

/* A list of the photographs, with up to five boxes of each. */
static mr_dataset *annotate_photographs(void)
{
    static char list[20 * N_SAMPLES];
    char name[20], boxes[200], spec[2000];
    int len = 0;
    for (int i = 0; i < N_SAMPLES; i++) {
        int n = 0;
        for (int k = 0; k < i % 6; k++)
            n += snprintf(boxes + n, sizeof boxes - (size_t)n, "%d 0.%d 0.%d 0.4 0.3\n", k, k + 2,
                          8 - k);
        snprintf(name, sizeof name, "class_%d/%03d.txt", i / N_IMAGES, i % N_IMAGES);
        mr_test_folder_write(folder, name, boxes, (uint64_t)n);
        len += snprintf(list + len, sizeof list - (size_t)len, "class_%d/%03d.jpg\n", i / N_IMAGES,
                        i % N_IMAGES);
    }
    mr_test_folder_write(folder, "list.txt", list, (uint64_t)len);
    snprintf(spec, sizeof spec, "yolo:%s/list.txt?root=%s", folder, folder);
    setenv("XDG_CACHE_HOME", folder, 1); /* the sizes of the photographs are kept there */
    return mr_test_dataset(spec);
}

static void kills_change_no_box_and_no_group(void **state)
{
    (void)state;
    struct work work = {.dataset = annotate_photographs(),
                        .transform = "random_iou_crop+random_shortest_size(48:64)+hflip+sanitize",
                        .pad_batch = 1000,
                        .aspect_ratio_groups = 3};
    /*
     * Forked, because this process reads label files as well: ThreadSanitizer mistakes descriptors
     * that a worker opens while it is started by exec for this process's.
     */
    run_under_fire(&work, MR_START_FORK, mr_test_scale(40));
    mr_dataset_destroy(work.dataset);
}

enum { PICTURE_BYTES = 3 * 128 * 128 };

static int get_picture(void *user, int64_t index, mr_sample *sample)
{
    sample->bytes = (const uint8_t *)user + index;
    sample->len_bytes = PICTURE_BYTES;
    sample->label = index;
    return 0;
}

/* Pictures that are very cheap to make, so most of the workers' time is spent mixing. */
static void kills_of_mixing_workers_change_no_byte(void **state)
{
    (void)state;
    static uint8_t bytes[PICTURE_BYTES + N_SAMPLES];
    struct work work = {.transform = "random_erasing(0.5,value=random)+mixup_or_cutmix(0.4,1)",
                        .dtype = MR_BF16};
    mr_callbacks c = MR_CALLBACKS_INIT;
    mr_error error;
    c.n_samples = N_SAMPLES;
    c.get = get_picture;
    c.user = bytes;
    c.ndim = 3;
    c.shape[0] = 3;
    c.shape[1] = c.shape[2] = 128;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 7);
    assert_ok(mr_dataset_from_callbacks(&c, &work.dataset, &error), &error);
    run_under_fire(&work, MR_START_FORK, mr_test_scale(60));
    mr_dataset_destroy(work.dataset);
}

static void stopped_workers_are_replaced_after_the_time_limit(void **state)
{
    (void)state;
    mr_loader_options o = base_options(MR_START_EXEC);
    o.time_limit_ms = 1000;
    mr_loader *loader = mr_test_loader(dataset, "train:224", &o);
    mr_batch *batch;
    /*
     * Take one batch first: three workers that die before any sample is finished would end the
     * loader.
     */
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    assert_int_equal(mr_test_await_workers(getpid(), 3), 3);
    assert_int_equal(mr_test_signal_workers(getpid(), SIGSTOP), 3);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 3);
    assert_int_equal(e.status, MR_END);
    assert_int_equal(e.n_valid, N_SAMPLES);
    mr_test_epoch_free(&e);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_true(stats.n_deaths >=
                1); /* the worker that was replaced first may have made everything */
    mr_loader_destroy(loader);
}

static void a_consumer_that_sleeps_loses_nothing(void **state)
{
    (void)state;
    mr_loader_options o = base_options(MR_START_EXEC);
    o.time_limit_ms = 800; /* idle workers are not stuck workers */
    mr_loader *loader = mr_test_loader(dataset, "train:64", &o);
    mr_batch *batch;
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    mr_test_sleep_ms(2000);
    struct mr_test_epoch rest = mr_test_epoch_rest(loader);
    assert_int_equal(rest.status, MR_END);
    assert_int_equal(rest.n_samples, N_SAMPLES - 16);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_int_equal(stats.n_deaths, 0);
    mr_test_epoch_free(&rest);
    mr_loader_destroy(loader);
}

/* A dataset of callbacks in which some samples do harm. */
#define EVERY_INDEX (-1)
struct harm {
    int64_t index; /* the harmful one, or EVERY_INDEX */
    int (*act)(void);
};

static float elements[4];

static int get_sample(void *user, int64_t index, mr_sample *sample)
{
    const struct harm *harm = user;
    if (harm->act && (index == harm->index || harm->index == EVERY_INDEX) && harm->act() != 0) {
        snprintf(sample->error, sizeof sample->error, "harm was done");
        return 1;
    }
    sample->bytes = elements;
    sample->len_bytes = sizeof elements;
    sample->label = index;
    return 0;
}

static mr_dataset *harmful(struct harm *harm)
{
    mr_callbacks c = MR_CALLBACKS_INIT;
    mr_dataset *d;
    mr_error error;
    c.n_samples = 100;
    c.get = get_sample;
    c.user = harm;
    c.dtype = MR_F32;
    c.ndim = 1;
    c.shape[0] = 4;
    assert_ok(mr_dataset_from_callbacks(&c, &d, &error), &error);
    return d;
}

static int crash(void)
{
    /* without sanitizers and the fault handler: this tests the exit status */
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return 0;
}

static int leave(void)
{
    _exit(3);
}

static int hang(void)
{
    for (;;)
        pause();
    return 0;
}

static void check_harm(int (*act)(void), uint32_t time_limit_ms, const char *words)
{
    struct harm harm = {.index = 17, .act = act};
    mr_dataset *d = harmful(&harm);
    for (int policy = MR_ON_ERROR_FAIL; policy <= MR_ON_ERROR_ZERO; policy++) {
        mr_loader_options o = base_options(MR_START_FORK);
        o.on_error = (mr_on_error)policy;
        o.no_shuffle = true;
        o.time_limit_ms = time_limit_ms;
        mr_loader *loader = mr_test_loader(d, NULL, &o);
        struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
        mr_error damage;
        assert_int_equal(e.status, MR_END);
        assert_int_equal(mr_loader_damaged(loader, 0, &damage), MR_OK);
        assert_int_equal(damage.index, 17);
        assert_words(damage.text, words);
        assert_int_equal(mr_loader_damaged(loader, 1, &damage), MR_END);
        assert_int_equal(e.n_failures, policy == MR_ON_ERROR_FAIL);
        assert_int_equal(e.n_valid, policy == MR_ON_ERROR_FAIL   ? 84
                                    : policy == MR_ON_ERROR_SKIP ? 100
                                                                 : 99);
        if (policy == MR_ON_ERROR_FAIL)
            assert_int_equal(e.first_error.index, 17);
        if (policy == MR_ON_ERROR_SKIP)
            assert_int_equal(e.indices[17], 18);
        mr_test_epoch_free(&e);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(d);
    assert_int_equal(mr_test_count_workers(getpid()), 0);
}

static void a_crashing_sample_is_damaged_and_named(void **state)
{
    (void)state;
    check_harm(crash, 60000, "SIGSEGV");
}

static void a_sample_that_ends_its_worker_is_damaged_and_named(void **state)
{
    (void)state;
    check_harm(leave, 60000, "exited with status 3");
}

static void a_hanging_sample_is_damaged_and_named(void **state)
{
    (void)state;
    check_harm(hang, 1000, "longer than 1000 ms");
}

static void workers_that_all_die_at_once_end_the_loader(void **state)
{
    (void)state;
    struct harm harm = {.index = EVERY_INDEX, .act = crash};
    mr_dataset *d = harmful(&harm);
    mr_loader_options o = base_options(MR_START_FORK);
    mr_loader *loader = mr_test_loader(d, NULL, &o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    assert_int_equal(e.status, MR_ERR_WORKER);
    assert_words(mr_loader_error(loader)->text, "died before any sample was finished");
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_ERR_WORKER);
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(d);
}

/* Seconds of CPU time that this process has used. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * After two deaths the sample is given up; leaving it out does not count as a finished sample. Then
 * no worker is started or waited for.
 */
static void a_single_worker_that_only_dies_ends_the_loader_quietly(void **state)
{
    (void)state;
    struct harm harm = {.index = EVERY_INDEX, .act = crash};
    mr_dataset *d = harmful(&harm);
    mr_loader_options o = base_options(MR_START_FORK);
    o.num_workers = 1;
    mr_loader *loader = mr_test_loader(d, NULL, &o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    assert_int_equal(e.status, MR_ERR_WORKER);
    double before = cpu_seconds();
    mr_test_sleep_ms(500);
    double used = cpu_seconds() - before;
    if (used > 0.1)
        fail_msg("%.3f s of CPU in half a second of nothing", used);
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(d);
}

static int refuse_slowly(void)
{
    mr_test_sleep_ms(40);
    return 1;
}

/* The time limit applies to each sample. Together they take four limits. */
static void damaged_samples_in_a_row_do_not_reach_the_time_limit(void **state)
{
    (void)state;
    struct harm harm = {.index = EVERY_INDEX, .act = refuse_slowly};
    mr_dataset *d = harmful(&harm);
    int64_t first = 0;
    mr_batch *batch;
    mr_loader_options o = base_options(MR_START_FORK);
    o.num_workers = 1;
    o.on_error = MR_ON_ERROR_SKIP;
    o.time_limit_ms = 1000;
    mr_loader *loader = mr_test_loader(d, NULL, &o);
    assert_int_equal(mr_loader_set_epoch_order(loader, 1, &first, 1), MR_OK);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_ERR_DAMAGED);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_int_equal(stats.n_deaths, 0);
    assert_int_equal(stats.n_damaged, 1); /* the wanted one; the others were tried for it */
    mr_loader_destroy(loader);
    mr_dataset_destroy(d);
}

/* How often an index was requested, in memory that forked workers share. */
static _Atomic uint32_t *n_asked;

/* 17 crashes once and is damaged then; 18 crashes once and is good then. */
static int get_changing_sample(void *user, int64_t index, mr_sample *sample)
{
    (void)user;
    uint32_t before = atomic_fetch_add(&n_asked[index], 1);
    if ((index == 17 || index == 18) && before == 0)
        crash();
    sample->bytes = elements;
    sample->len_bytes = sizeof elements;
    return index == 17;
}

static void blame_is_not_passed_on_to_the_next_candidate(void **state)
{
    (void)state;
    n_asked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(n_asked != MAP_FAILED);
    int64_t order[] = {0, 1, 2, 17, 4, 5};
    mr_callbacks c = MR_CALLBACKS_INIT;
    mr_dataset *d;
    mr_error error;
    c.n_samples = 100;
    c.get = get_changing_sample;
    c.dtype = MR_F32;
    c.ndim = 1;
    c.shape[0] = 4;
    assert_int_equal(mr_dataset_from_callbacks(&c, &d, &error), MR_OK);
    mr_loader_options o = base_options(MR_START_FORK);
    o.on_error = MR_ON_ERROR_SKIP;
    o.num_workers = 1;
    o.n_slots = 2;
    o.batch_size = 2;
    o.no_shuffle = true;
    mr_loader *loader = mr_test_loader(d, NULL, &o);
    assert_int_equal(mr_loader_set_epoch_order(loader, 1, order, 6), MR_OK);
    struct mr_test_epoch e = mr_test_epoch_rest(loader);
    assert_int_equal(e.status, MR_END);
    assert_int_equal(e.n_valid, 6);
    assert_int_equal(e.indices[3], 18);
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(d);
    munmap((void *)n_asked, 4096);
}

static _Atomic bool released;

static int wait_for_release(void)
{
    while (!released)
        mr_test_sleep_ms(5);
    return 0;
}

static void a_stuck_thread_is_an_error_that_names_its_sample(void **state)
{
    (void)state;
    struct harm harm = {.index = 17, .act = wait_for_release};
    mr_dataset *d = harmful(&harm);
    mr_loader_options o = base_options(MR_START_THREAD);
    o.no_shuffle = true;
    o.time_limit_ms = 1000;
    mr_loader *loader = mr_test_loader(d, NULL, &o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    assert_int_equal(e.status, MR_ERR_WORKER);
    assert_int_equal(mr_loader_error(loader)->index, 17);
    assert_words(mr_loader_error(loader)->text, "stuck");
    mr_test_epoch_free(&e);
    released = true;
    mr_loader_destroy(loader);
    mr_dataset_destroy(d);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(N_CLASSES, N_IMAGES);
    dataset = mr_test_dataset(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_dataset_destroy(dataset);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_kills_change_no_byte),
        cmocka_unit_test(kills_of_forked_workers_change_no_byte),
        cmocka_unit_test(kills_of_mixing_workers_change_no_byte),
        cmocka_unit_test(kills_change_no_box_and_no_group),
        cmocka_unit_test(stopped_workers_are_replaced_after_the_time_limit),
        cmocka_unit_test(a_consumer_that_sleeps_loses_nothing),
        cmocka_unit_test(a_crashing_sample_is_damaged_and_named),
        cmocka_unit_test(a_sample_that_ends_its_worker_is_damaged_and_named),
        cmocka_unit_test(a_hanging_sample_is_damaged_and_named),
        cmocka_unit_test(workers_that_all_die_at_once_end_the_loader),
        cmocka_unit_test(a_single_worker_that_only_dies_ends_the_loader_quietly),
        cmocka_unit_test(damaged_samples_in_a_row_do_not_reach_the_time_limit),
        cmocka_unit_test(blame_is_not_passed_on_to_the_next_candidate),
        cmocka_unit_test(a_stuck_thread_is_an_error_that_names_its_sample),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
