/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader on a device while copies are under way: other epochs, positions, cancel, destroy before
 * the device has finished, several loaders, and forks.
 */
#include "tests/loader/stream_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "base/clock.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/processes.h"

enum { N_BATCHES = 13 };

/* Expect that this batch of some epoch has the host's bytes for it. */
static void expect_among(const struct seen *seen, struct seen *const *epochs)
{
    for (uint32_t k = 0; k < seen->n; k++) {
        const struct seen_batch *a = &seen->batches[k], *b = &epochs[a->epoch]->batches[a->number];
        assert_int_equal(b->epoch, a->epoch);
        assert_int_equal(b->number, a->number);
        for (uint32_t i = 0; i < SEEN_ARRAYS; i++) {
            assert_int_equal(a->len[i], b->len[i]);
            assert_memory_equal(a->bytes[i], b->bytes[i], a->len[i]);
        }
    }
}

static mr_loader_options shuffled(void)
{
    mr_loader_options options = stage_options("cuda:0");
    options.no_shuffle = false;
    options.seed = 8;
    return options;
}

/* Jump back and forth: batches copied for another epoch are dropped and never delivered. */
static void epochs_may_change_while_copies_are_under_way(void **state)
{
    enum { N_EPOCHS = 4 };
    static const uint8_t jumps[][2] = {{0, 2},  {2, 1}, {3, 4}, {1, 0}, {1, 6},
                                       {2, 13}, {3, 3}, {0, 5}, {2, 1}};
    mr_loader_options wanted = shuffled();
    struct seen *epochs[N_EPOCHS];
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        wanted.epoch = e;
        epochs[e] = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
    }
    wanted.epoch = 0;
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        struct seen *seen = seen_create();
        mr_loader *loader = rig_loader(*state, &wanted);
        for (unsigned j = 0; j < sizeof jumps / sizeof *jumps; j++) {
            assert_int_equal(mr_loader_set_epoch(loader, jumps[j][0]), MR_OK);
            for (unsigned k = 0; k < jumps[j][1]; k++) {
                mr_batch *batch = stage_next_on(loader, stream);
                assert_int_equal(mr_batch_epoch(batch), jumps[j][0]);
                assert_int_equal(mr_batch_number(batch), k);
                seen_add_on(seen, batch, &stream);
                stage_release_on(batch, stream, MR_OK);
            }
        }
        stage_sync(stream);
        expect_among(seen, epochs);
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        seen_free(seen);
        stage_close();
    }
    for (uint64_t e = 0; e < N_EPOCHS; e++)
        seen_free(epochs[e]);
}

static void a_restored_position_gives_the_same_batches(void **state)
{
    mr_loader_options wanted = shuffled();
    struct seen *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
    for (uint64_t at = 0; at < N_BATCHES; at += 4) {
        stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = at});
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        struct seen *seen = seen_create();
        uint8_t position[MR_LOADER_STATE_MAX];
        size_t len;
        mr_loader *loader = rig_loader(*state, &wanted);
        for (uint64_t k = 0; k < at; k++) {
            mr_batch *batch = stage_next_on(loader, stream);
            seen_add_on(seen, batch, &stream);
            stage_release_on(batch, stream, MR_OK);
        }
        /* what was copied in advance is not part of it */
        assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
        if (at % 8) {
            mr_loader_destroy(loader);
            loader = rig_loader(*state, &wanted);
        } else {
            /* repeated after going back */
            stage_release_on(stage_next_on(loader, stream), stream, MR_OK);
        }
        assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
        seen_epoch_on(seen, loader, &stream);
        stage_sync(stream);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        seen_free(seen);
        stage_close();
    }
    seen_free(expected);
}

static void cancel_wakes_a_waiting_next_on_once(void **state)
{
    struct rig *rig = *state;
    stage_open(&(struct double_options){0});
    mr_loader_options wanted = stage_options("cuda:0");
    atomic_store(&rig->shared->gate, 1);
    mr_loader *loader = rig_loader(rig, &wanted);
    mr_batch *batch = (void *)loader;
    assert_int_equal(mr_loader_next_on(loader, 0, NULL, &batch), MR_PENDING);
    assert_null(batch);
    assert_int_equal(mr_loader_next_on(loader, 20, NULL, &batch), MR_PENDING);
    mr_loader_cancel(loader);
    assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, NULL, &batch), MR_ERR_CANCELED);
    assert_null(batch);
    atomic_store(&rig->shared->gate, 0);
    batch = stage_next_on(loader, NULL);
    assert_int_equal(mr_batch_number(batch), 0);
    stage_release_on(batch, NULL, MR_OK);
    mr_loader_destroy(loader);
    stage_close();
}

/* Opens a gate of the double some time later. */
struct opener {
    pthread_t thread;
    uint32_t gate;
    _Atomic bool opened;
};

static void *open_later(void *arg)
{
    struct opener *opener = arg;
    mr_test_sleep_ms(60);
    atomic_store(&opener->opened, true);
    double_open_gate(opener->gate);
    return NULL;
}

static void begin_opener(struct opener *opener, uint32_t gate)
{
    opener->gate = gate;
    atomic_store(&opener->opened, false);
    assert_int_equal(pthread_create(&opener->thread, NULL, open_later, opener), 0);
}

/* The memory of a destroyed loader stays until the streams named at the releases have finished. */
static void the_last_release_after_destroy_waits_for_its_streams(void **state)
{
    struct rig *rig = *state;
    mr_loader_options wanted = stage_options("cuda:0");
    struct seen *expected = seen_on_host(rig->dataset, NULL, &wanted, 1);
    for (unsigned p = 0; p < 3; p++) {
        stage_open(&(struct double_options){.policy = (enum double_policy)p});
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        struct seen *seen = seen_create();
        struct opener opener;
        mr_loader *loader = rig_loader(rig, &wanted);
        mr_batch *lent[2] = {stage_next_on(loader, stream), stage_next_on(loader, stream)};
        assert_int_equal(double_launch_gate(stream, 7), cudaSuccess);
        mr_loader_destroy(loader); /* does not wait for the gate: the batches are still lent */
        for (unsigned i = 0; i < 2; i++)
            seen_add_on(seen, lent[i], &stream);
        begin_opener(&opener, 7);
        stage_release_on(lent[1], stream, MR_OK);
        assert_false(atomic_load(&opener.opened)); /* not the last one */
        stage_release_on(lent[0], stream, MR_OK);
        assert_true(atomic_load(&opener.opened));
        pthread_join(opener.thread, NULL);
        stage_sync(stream);
        assert_memory_equal(seen->batches[1].bytes[0], expected->batches[1].bytes[0],
                            8 * RIG_BYTES);
        assert_memory_equal(seen->batches[0].bytes[0], expected->batches[0].bytes[0],
                            8 * RIG_BYTES);
        stage_end_stream(stream);
        seen_free(seen);
        stage_close();
    }
    seen_free(expected);
}

/* All buffers were released on a stream that does not run, and their next copies wait for it. */
static void destroy_waits_for_copies_that_wait_for_a_stream(void **state)
{
    for (unsigned p = 0; p < 3; p++) {
        stage_open(&(struct double_options){.policy = (enum double_policy)p});
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        struct opener opener;
        mr_batch *batch;
        mr_loader_options wanted = stage_options("cuda:0");
        struct seen *seen = seen_create();
        mr_loader *loader = rig_loader(*state, &wanted);
        assert_int_equal(double_launch_gate(stream, 3), cudaSuccess);
        for (unsigned i = 0; i < 3; i++) {
            batch = stage_next_on(loader, stream);
            seen_add_on(seen, batch, &stream);
            stage_release_on(batch, stream, MR_OK);
        }
        batch = stage_next_on(loader, stream); /* its copy is issued and cannot finish */
        assert_int_equal(mr_batch_number(batch), 3);
        seen_add_on(seen, batch, &stream);
        stage_release_on(batch, stream, MR_OK);
        /* the host would have to wait for it */
        assert_int_equal(mr_loader_next(loader, 30, &batch), MR_PENDING);
        begin_opener(&opener, 3);
        mr_loader_destroy(loader);
        assert_true(atomic_load(&opener.opened));
        pthread_join(opener.thread, NULL);
        stage_end_stream(stream);
        seen_free(seen);
        stage_close();
    }
}

static void two_loaders_share_a_device(void **state)
{
    struct rig *other = rig_create(90);
    struct double_options options = {0};
    mr_loader_options wanted = shuffled();
    struct seen *expected[2] = {seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1),
                                seen_on_host(other->dataset, NULL, &wanted, 1)};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        cudaStream_t streams[2] = {stage_stream(0, cudaStreamNonBlocking),
                                   stage_stream(0, cudaStreamDefault)};
        mr_loader *loaders[2] = {rig_loader(*state, &wanted), rig_loader(other, &wanted)};
        struct seen *seen[2] = {seen_create(), seen_create()};
        for (unsigned k = 0; k < 2 * 12; k++) {
            mr_batch *batch = stage_next_on(loaders[k % 2], streams[k % 2]);
            seen_add_on(seen[k % 2], batch, &streams[k % 2]);
            stage_release_on(batch, streams[k % 2], MR_OK);
        }
        for (unsigned i = 0; i < 2; i++) {
            seen_epoch_on(seen[i], loaders[i], &streams[i]);
            stage_sync(streams[i]);
            seen_expect_same(seen[i], expected[i]);
            mr_loader_destroy(loaders[i]);
            stage_end_stream(streams[i]);
            seen_free(seen[i]);
        }
        stage_close();
    }
    seen_free(expected[0]);
    seen_free(expected[1]);
    rig_destroy(other);
}

/* Exec'd workers may start after the device was opened. */
static void files_by_processes_have_the_bytes_of_the_host(void **state)
{
    (void)state;
    char *folder = mr_test_folder_create(), spec[600];
    mr_test_folder_fill(folder, 2, 15);
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options wanted = shuffled();
    wanted.start = MR_START_EXEC;
    wanted.dtype = MR_F32;
    wanted.n_epochs = 2;
    struct seen *expected = seen_on_host(dataset, "train:16", &wanted, 2);
    for (unsigned p = 0; p < 3; p++) {
        stage_open(&(struct double_options){.policy = (enum double_policy)p, .seed = p});
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        struct seen *seen = seen_create();
        mr_loader *loader = mr_test_loader(dataset, "train:16", &wanted);
        seen_epoch_on(seen, loader, &stream);
        assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        seen_epoch_on(seen, loader, &stream);
        stage_sync(stream);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        assert_int_equal(mr_test_count_workers(getpid()), 0);
        stage_end_stream(stream);
        seen_free(seen);
        stage_close();
    }
    seen_free(expected);
    mr_dataset_destroy(dataset);
}

struct releaser {
    pthread_t thread;
    mr_batch *batch;
    cudaStream_t stream;
    mr_status status;
};

static void *release_there(void *arg)
{
    struct releaser *r = arg;
    r->status = mr_batch_use(r->batch, r->stream);
    if (r->status == MR_OK)
        r->status = mr_batch_release_on(r->batch, r->stream);
    return NULL;
}

static void other_threads_may_use_and_release(void **state)
{
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = 6});
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking),
                 other = stage_stream(0, cudaStreamNonBlocking);
    mr_loader_options wanted = stage_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &wanted);
    struct releaser previous = {.batch = NULL};
    for (unsigned k = 0; k < N_BATCHES; k++) {
        struct releaser r = {
            .batch = stage_next_on(loader, stream), .stream = other, .status = MR_ERR_DEVICE};
        assert_int_equal(mr_batch_number(r.batch), k);
        if (previous.batch) {
            assert_int_equal(pthread_create(&previous.thread, NULL, release_there, &previous), 0);
            pthread_join(previous.thread, NULL);
            assert_int_equal(previous.status, MR_OK);
        }
        previous = r;
    }
    stage_release(previous.batch, MR_OK);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_end_stream(other);
    stage_close();
}

static void *release_batch(void *batch)
{
    mr_status status = mr_batch_release(batch);
    return status == MR_OK && double_thread_context() == -1 ? batch : NULL;
}

/*
 * Like a tensor's deleter or a garbage collector's thread. A context would take hundreds of MB of
 * GPU 0 for every rank of a node.
 */
static void a_release_in_another_thread_makes_no_context_on_gpu_0(void **state)
{
    for (unsigned pin = 0; pin < 2; pin++) {
        stage_open(&(struct double_options){.n_devices = 2, .policy = DOUBLE_RANDOM});
        assert_int_equal(cudaSetDevice(1), cudaSuccess);
        cudaStream_t stream = stage_stream(1, cudaStreamNonBlocking);
        mr_loader_options wanted = pin ? stage_pin_options() : stage_options("cuda:1");
        mr_loader *loader = rig_loader(*state, &wanted);
        for (unsigned k = 0; k < 5; k++) {
            mr_batch *batch = stage_next_on(loader, stream);
            pthread_t thread;
            void *released = NULL;
            assert_int_equal(pthread_create(&thread, NULL, release_batch, batch), 0);
            assert_int_equal(pthread_join(thread, &released), 0);
            assert_ptr_equal(released, batch);
        }
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        assert_false(double_has_context(0));
        stage_close();
    }
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__ % 200 + 1;                                                             \
    } while (0)

static int misuse(mr_loader *loader, mr_batch *lent)
{
    mr_batch *batch = lent;
    CHECK(mr_loader_next_on(loader, MR_FOREVER, NULL, &batch) == MR_ERR_STATE && !batch);
    CHECK(strstr(mr_loader_error(loader)->text, "forked child"));
    CHECK(mr_batch_use(lent, NULL) == MR_ERR_STATE);
    CHECK(mr_batch_release_on(lent, NULL) == MR_ERR_STATE);
    CHECK(mr_batch_release(lent) == MR_ERR_STATE);
    mr_loader_cancel(loader);
    mr_loader_destroy(loader);
    return 0;
}

static void a_forked_child_is_refused_and_the_parent_continues(void **state)
{
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = 1});
    mr_loader_options wanted = stage_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &wanted);
    mr_batch *lent = stage_next_on(loader, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        _exit(misuse(loader, lent));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stage_release_on(lent, NULL, MR_OK);
    int64_t got[100];
    assert_int_equal(rig_drain(loader, false, got, 100), 92);
    mr_loader_destroy(loader);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(epochs_may_change_while_copies_are_under_way),
        RIG_TEST(a_restored_position_gives_the_same_batches),
        RIG_TEST(cancel_wakes_a_waiting_next_on_once),
        RIG_TEST(the_last_release_after_destroy_waits_for_its_streams),
        RIG_TEST(destroy_waits_for_copies_that_wait_for_a_stream),
        RIG_TEST(two_loaders_share_a_device),
        cmocka_unit_test(files_by_processes_have_the_bytes_of_the_host),
        RIG_TEST(other_threads_may_use_and_release),
        RIG_TEST(a_release_in_another_thread_makes_no_context_on_gpu_0),
        RIG_TEST(a_forked_child_is_refused_and_the_parent_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
