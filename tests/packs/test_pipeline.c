/* SPDX-License-Identifier: Apache-2.0 */
/* The ordered pipeline alone: order, bounds, and each way to end. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/dataset.h"
#include "packs/pipeline.h"
#include "tests/dataset/invented_pack.h"
#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"

enum { N = 400, LINE = 16, NEVER = 1 << 30 };

struct rig {
    char *folder;
    mr_dataset *dataset;
    /* Set by tests: */
    uint32_t fails_to_open; /* number of the worker whose open fails */
    uint64_t fails_to_take; /* position whose take fails */
    uint64_t slow_position; /* position at which run() sleeps */
    size_t reserve;         /* bytes of each result */
    long take_ms;           /* how long each of the first n_slow takes lasts */
    uint64_t n_slow;
    bool cancels;
    /* What was seen: */
    _Atomic uint32_t n_open;
    _Atomic uint32_t n_opened;
    _Atomic uint64_t n_run;
    _Atomic uint64_t most_waiting; /* results that were run and not yet taken */
    _Atomic bool signals_come;
    uint64_t n_taken;
    _Atomic uint64_t n_taken_seen;
    uint64_t next;
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    char *list = calloc(N, LINE), spec[600];
    size_t len = 0;
    if (!rig || !list)
        return -1;
    rig->folder = mr_test_folder_create();
    for (int i = 0; i < N; i++)
        len += (size_t)snprintf(list + len, LINE, "%d\t%d\n", i % 10, i);
    mr_test_folder_write(rig->folder, "files.list", list, len);
    for (int i = 0; i < 10; i++) {
        char name[4];
        snprintf(name, sizeof name, "%d", i);
        mr_test_folder_write(rig->folder, name, "0123456789", (uint64_t)i);
    }
    free(list);
    snprintf(spec, sizeof spec, "list:%s/files.list", rig->folder);
    rig->dataset = mr_test_dataset(spec);
    rig->fails_to_open = NEVER;
    rig->fails_to_take = rig->slow_position = NEVER;
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    mr_dataset_destroy(rig->dataset);
    free(rig);
    return 0;
}

/* The order is backwards, so that positions and indices differ. */
static int64_t index_at(const void *user, uint64_t position)
{
    (void)user;
    return N - 1 - (int64_t)position;
}

struct worker {
    struct rig *rig;
};

static mr_status open_worker(void *user, void **worker_out, mr_error *error)
{
    struct rig *rig = user;
    struct worker *w = malloc(sizeof *w);
    *worker_out = w;
    if (!w)
        return mr_error_memory(error, sizeof *w);
    w->rig = rig;
    atomic_fetch_add(&rig->n_open, 1);
    if (atomic_fetch_add(&rig->n_opened, 1) == rig->fails_to_open)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "no such worker");
    return MR_OK;
}

static void close_worker(void *worker)
{
    struct worker *w = worker;
    atomic_fetch_sub(&w->rig->n_open, 1);
    free(w);
}

static void look_at_signals(struct rig *rig)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    if (!sigismember(&set, SIGINT) || !sigismember(&set, SIGUSR1))
        rig->signals_come = true;
}

static mr_status run(void *worker, const struct mr_read *read, struct mr_pipeline_item *item)
{
    struct rig *rig = ((struct worker *)worker)->rig;
    int64_t *result = item->result;
    assert(*result == 0);
    *result = read->index;
    look_at_signals(rig);
    if (item->position == rig->slow_position)
        mr_test_sleep_ms(60);
    uint64_t waiting = atomic_fetch_add(&rig->n_run, 1) + 1 - atomic_load(&rig->n_taken_seen);
    if (waiting > atomic_load(&rig->most_waiting))
        atomic_store(&rig->most_waiting, waiting);
    size_t len = rig->reserve > 0 ? rig->reserve : read->part[0].len;
    if (mr_pipeline_reserve(item, len) != MR_OK)
        return MR_ERR_NO_MEMORY;
    if (rig->reserve == 0 && len > 0)
        memcpy(item->bytes, read->part[0].bytes, len);
    return MR_OK;
}

static mr_status take(void *user, struct mr_pipeline_item *item, mr_error *error)
{
    struct rig *rig = user;
    if (item->position == rig->fails_to_take)
        return mr_error_set(error, MR_ERR_IO, "position %d", (int)item->position);
    assert_int_equal(item->status, MR_OK);
    assert_int_equal(item->position, rig->next++);
    assert_int_equal(item->index, index_at(NULL, item->position));
    assert_int_equal(*(int64_t *)item->result, item->index);
    if (rig->reserve == 0) {
        assert_int_equal(item->len, item->index % 10);
        assert_int_equal(item->read_bytes, item->len);
        assert_memory_equal(item->bytes, "0123456789", item->len);
    }
    if (rig->take_ms > 0 && rig->n_taken < rig->n_slow)
        mr_test_sleep_ms(rig->take_ms);
    rig->n_taken++;
    atomic_store(&rig->n_taken_seen, rig->n_taken);
    return MR_OK;
}

static bool tick(void *user)
{
    const struct rig *rig = user;
    return rig->cancels && rig->n_taken > 0;
}

static mr_status run_pipeline(struct rig *rig, uint64_t first, uint64_t end, uint32_t n_workers,
                              mr_error *error)
{
    const struct mr_pipeline_work work = {.catalog = mr_dataset_catalog(rig->dataset),
                                          .first = first,
                                          .end = end,
                                          .n_workers = n_workers,
                                          .result_bytes = sizeof(int64_t),
                                          .user = rig,
                                          .index_at = index_at,
                                          .open = open_worker,
                                          .close = close_worker,
                                          .run = run,
                                          .take = take,
                                          .tick = tick};
    rig->next = first;
    mr_status status = mr_pipeline_run(&work, error);
    assert_int_equal(rig->n_open, 0);
    return status;
}

static void items_are_taken_in_order_with_any_number_of_workers(void **state)
{
    static const uint32_t counts[] = {1, 2, 7};
    struct rig *rig = *state;
    for (size_t i = 0; i < 3; i++) {
        mr_error error;
        rig->n_taken = 0;
        rig->slow_position = 5 * i;
        assert_ok(run_pipeline(rig, i, N - i, counts[i], &error), &error);
        assert_int_equal(rig->n_taken, N - 2 * i);
    }
    assert_false(rig->signals_come);
    assert_int_equal(run_pipeline(rig, 3, 3, 2, NULL), MR_OK); /* nothing to do */
}

static void more_workers_than_items_are_not_made(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(run_pipeline(rig, N - 3, N, 200, NULL), MR_OK);
    assert_int_equal(rig->n_taken, 3);
    assert_int_equal(rig->n_opened, 3);
}

static void results_that_wait_are_bounded_in_number(void **state)
{
    struct rig *rig = *state;
    rig->take_ms = 2;
    rig->n_slow = 60;
    assert_int_equal(run_pipeline(rig, 0, N, 2, NULL), MR_OK);
    /* the one being taken is no longer held */
    assert_true(rig->most_waiting > 2 && rig->most_waiting <= 2 * 8 + 1);
}

static void results_that_wait_are_bounded_in_bytes(void **state)
{
    struct rig *rig = *state;
    rig->reserve = (size_t)128 << 20; /* two of them are the limit */
    rig->take_ms = 2;
    rig->n_slow = N;
    assert_int_equal(run_pipeline(rig, 0, 60, 2, NULL), MR_OK);
    /* 2 in bytes, 4 reads that each of the 2 workers claimed before, and the one being taken */
    assert_in_range(rig->most_waiting, 1, 2 + 2 * 4 + 1);
    assert_int_equal(rig->n_taken, 60);
}

static void one_huge_result_after_the_other_goes_on(void **state)
{
    struct rig *rig = *state;
    rig->reserve = (size_t)300 << 20;
    assert_int_equal(run_pipeline(rig, 0, 20, 1, NULL), MR_OK);
    assert_int_equal(rig->n_taken, 20);
}

static void refusal_of_the_taker_ends_the_work(void **state)
{
    struct rig *rig = *state;
    mr_error error = {0};
    rig->fails_to_take = 17;
    assert_int_equal(run_pipeline(rig, 0, N, 3, &error), MR_ERR_IO);
    assert_string_equal(error.text, "position 17");
    assert_int_equal(rig->n_taken, 17);
}

static void worker_that_cannot_be_made_ends_the_work(void **state)
{
    struct rig *rig = *state;
    mr_error error = {0};
    rig->fails_to_open = 1;
    assert_int_equal(run_pipeline(rig, 0, N, 3, &error), MR_ERR_UNSUPPORTED);
    assert_int_equal(rig->n_taken, 0);
}

static void cancel_is_asked_for_while_results_are_slow(void **state)
{
    struct rig *rig = *state;
    mr_error error = {0};
    rig->cancels = true;
    rig->take_ms = 30;
    rig->n_slow = N;
    assert_int_equal(run_pipeline(rig, 0, N, 2, &error), MR_ERR_CANCELED);
    assert_in_range(rig->n_taken, 1, 10); /* a tenth of a second */
}

static mr_status look(void *worker, const struct mr_read *read, struct mr_pipeline_item *item)
{
    (void)worker;
    (void)item;
    assert(read->part[0].len > 0);
    mr_test_sleep_ms(1); /* so that each worker gets its share */
    return MR_OK;
}

/* The thread that takes results opens files too. */
static mr_status open_file(void *user, struct mr_pipeline_item *item, mr_error *error)
{
    struct rig *rig = user;
    (void)error;
    assert_int_equal(item->status, MR_OK);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("no descriptor is left at sample %d", (int)item->position);
    close(fd);
    rig->n_taken++;
    return MR_OK;
}

static void many_shards_and_workers_leave_descriptors_to_others(void **state)
{
    struct rig *rig = *state;
    char dir[600], spec[640];
    mr_error error;
    struct rlimit before;
    const struct mr_pack_writer_options options = invented_options(N, 2000); /* bytes of a shard */
    snprintf(dir, sizeof dir, "%s/pack", rig->folder);
    snprintf(spec, sizeof spec, "pack:%s", dir);
    invented_write(dir, &options);
    mr_dataset *pack = mr_test_dataset(spec);
    const struct mr_pipeline_work work = {.catalog = mr_dataset_catalog(pack),
                                          .end = N,
                                          .n_workers = 8,
                                          .result_bytes = sizeof(int64_t),
                                          .user = rig,
                                          .index_at = index_at,
                                          .open = open_worker,
                                          .close = close_worker,
                                          .run = look,
                                          .take = open_file,
                                          .tick = tick};
    assert_true(mr_catalog_n_files(work.catalog) > 80);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit low = {.rlim_cur = 100, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    mr_status status = mr_pipeline_run(&work, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_ok(status, &error);
    assert_int_equal(rig->n_taken, N);
    mr_dataset_destroy(pack);
}

#define PIPELINE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PIPELINE_TEST(items_are_taken_in_order_with_any_number_of_workers),
        PIPELINE_TEST(more_workers_than_items_are_not_made),
        PIPELINE_TEST(results_that_wait_are_bounded_in_number),
        PIPELINE_TEST(results_that_wait_are_bounded_in_bytes),
        PIPELINE_TEST(one_huge_result_after_the_other_goes_on),
        PIPELINE_TEST(refusal_of_the_taker_ends_the_work),
        PIPELINE_TEST(worker_that_cannot_be_made_ends_the_work),
        PIPELINE_TEST(cancel_is_asked_for_while_results_are_slow),
        PIPELINE_TEST(many_shards_and_workers_leave_descriptors_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
