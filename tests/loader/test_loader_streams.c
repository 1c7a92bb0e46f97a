/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches ordered with the consumer's streams, on the double of the CUDA runtime: on every kind of
 * stream, and whenever the device does its work, the bytes equal the host's and no two accesses are
 * unordered.
 */
#include "tests/loader/stream_rig.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

/* -1: the default stream. */
static const int stream_kinds[] = {cudaStreamNonBlocking, cudaStreamDefault, -1};
enum { N_KINDS = sizeof stream_kinds / sizeof *stream_kinds };

static cudaStream_t open_stream(int kind)
{
    return kind < 0 ? NULL : stage_stream(0, (unsigned)kind);
}

static void close_stream(cudaStream_t stream)
{
    if (stream)
        stage_end_stream(stream);
    else
        stage_sync(NULL);
}

static void run_epochs(struct rig *rig, const struct rig_mode *mode, cudaStream_t stream,
                       const struct seen *expected)
{
    mr_loader_options options = rig_options_of(mode);
    options.device = "cuda:0";
    struct seen *seen = seen_create();
    mr_loader *loader = rig_loader(rig, &options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        seen_epoch_on(seen, loader, &stream);
    }
    stage_sync(stream);
    seen_expect_same(seen, expected);
    mr_loader_destroy(loader);
    seen_free(seen);
}

static void epochs_read_on_a_stream_have_the_bytes_of_the_host(void **state)
{
    mr_loader_options plain = rig_options();
    struct seen *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &plain, 2);
    struct double_options options = {0};
    for (unsigned m = 0; m < rig_n_modes; m++)
        for (unsigned p = 0; stage_policy(p, &options); p++)
            for (unsigned k = 0; k < N_KINDS; k++) {
                stage_open(&options);
                cudaStream_t stream = open_stream(stream_kinds[k]);
                run_epochs(*state, &rig_modes[m], stream, expected);
                close_stream(stream);
                stage_close();
            }
    seen_free(expected);
}

static void between_two_batches_the_consumer_neither_blocks_nor_allocates_nor_copies(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        cudaStream_t train = stage_stream(0, cudaStreamNonBlocking),
                     metrics = stage_stream(0, cudaStreamNonBlocking);
        mr_loader_options wanted = stage_options("cuda:0");
        mr_loader *loader = rig_loader(*state, &wanted);
        struct seen *seen = seen_create();
        stage_release_on(stage_next_on(loader, train), train, MR_OK);
        double_mark();
        for (unsigned k = 1; k < 13; k++) {
            mr_batch *batch = stage_next_on(loader, train);
            stage_use(batch, metrics, MR_OK);
            seen_add_on(seen, batch, k % 2 ? &train : &metrics);
            stage_release_on(batch, train, MR_OK);
        }
        struct double_counts own = double_count(double_thread()),
                             all = double_count(DOUBLE_ALL_THREADS);
        assert_true(own.calls > 0);
        assert_int_equal(own.blocking, 0);
        assert_int_equal(own.allocations, 0);
        assert_int_equal(own.copies, 0);
        assert_int_equal(own.pageable, 0);
        assert_int_equal(all.pageable, 0);
        assert_int_equal(all.allocations, 0);
        /*
         * Calls of the copying thread, once a batch: for all 13, since next_on does not wait for
         * it, and for 3 made in advance.
         */
        assert_true(all.blocking <= 16);
        mr_loader_destroy(loader);
        stage_end_stream(train);
        stage_end_stream(metrics);
        seen_free(seen);
        stage_close();
    }
}

/* Take batches on a first stream, and read them on a second one, with mr_batch_use() or without. */
static void read_on_a_second_stream(struct rig *rig, bool use)
{
    cudaStream_t first = stage_stream(0, cudaStreamNonBlocking),
                 second = stage_stream(0, cudaStreamNonBlocking);
    mr_loader_options wanted = stage_options("cuda:0");
    mr_loader *loader = rig_loader(rig, &wanted);
    struct seen *seen = seen_create();
    for (unsigned k = 0; k < 13; k++) {
        mr_batch *batch = stage_next_on(loader, first);
        if (use)
            stage_use(batch, second, MR_OK);
        seen_add_on(seen, batch, &second);
        stage_release_on(batch, first, MR_OK);
    }
    stage_sync(second);
    if (use) {
        struct seen *expected = seen_on_host(rig->dataset, NULL, &wanted, 1);
        seen_expect_same(seen, expected);
        seen_free(expected);
    }
    mr_loader_destroy(loader);
    stage_end_stream(first);
    stage_end_stream(second);
    seen_free(seen);
}

static void a_further_stream_waits_for_the_copy_and_the_release_for_that_stream(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        read_on_a_second_stream(*state, true);
        stage_close();
    }
}

/* Proves that the test above can fail. */
static void the_double_notices_a_stream_that_was_not_named(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        read_on_a_second_stream(*state, false);
        assert_true(double_found(DOUBLE_UNORDERED) > 0);
        assert_int_equal(double_found(DOUBLE_MISUSE), 0);
        double_forget();
        stage_close();
    }
}

/*
 * The caller's own event orders the second stream after the first, and the batch is released only
 * on the second.
 */
static void a_batch_may_be_released_on_another_stream(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        cudaStream_t first = stage_stream(0, cudaStreamNonBlocking),
                     second = stage_stream(0, cudaStreamDefault);
        cudaEvent_t event;
        assert_int_equal(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
        mr_loader_options wanted = stage_options("cuda:0");
        mr_loader *loader = rig_loader(*state, &wanted);
        struct seen *seen = seen_create(),
                    *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
        for (unsigned k = 0; k < 13; k++) {
            mr_batch *batch = stage_next_on(loader, first);
            assert_int_equal(cudaEventRecord(event, first), cudaSuccess);
            assert_int_equal(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
            seen_add_on(seen, batch, &second);
            stage_release_on(batch, second, MR_OK);
        }
        stage_sync(second);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        assert_int_equal(cudaEventDestroy(event), cudaSuccess);
        stage_end_stream(first);
        stage_end_stream(second);
        seen_free(seen);
        seen_free(expected);
        stage_close();
    }
}

static void a_plain_release_waits_for_the_stream_of_next_on(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        mr_loader_options wanted = stage_options("cuda:0");
        mr_loader *loader = rig_loader(*state, &wanted);
        struct seen *seen = seen_create(),
                    *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
        for (unsigned k = 0; k < 13; k++) {
            mr_batch *batch = stage_next_on(loader, stream);
            seen_add_on(seen, batch, &stream);
            stage_release(batch, MR_OK);
        }
        stage_sync(stream);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        seen_free(seen);
        seen_free(expected);
        stage_close();
    }
}

/* No stream waits: a batch that next() returns has arrived. */
static void after_next_the_bytes_have_arrived(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        mr_loader_options wanted = stage_options("cuda:0");
        mr_loader *loader = rig_loader(*state, &wanted);
        struct seen *seen = seen_create(),
                    *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 1);
        seen_epoch(seen, loader);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        seen_free(seen);
        seen_free(expected);
        stage_close();
    }
}

/*
 * The two forms alternate, also across the end of an epoch: each leaves the buffers in the state
 * that the other needs.
 */
static void next_and_next_on_may_alternate(void **state)
{
    struct double_options options = {0};
    for (unsigned p = 0; stage_policy(p, &options); p++) {
        stage_open(&options);
        cudaStream_t stream = stage_stream(0, cudaStreamDefault);
        mr_loader_options wanted = stage_options("cuda:0");
        mr_loader *loader = rig_loader(*state, &wanted);
        struct seen *seen = seen_create(),
                    *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &wanted, 2);
        for (unsigned k = 0; k < 26; k++) {
            if (k == 13)
                assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
            bool on = (k * 5 + p) % 3 > 0, release_on = (k * 7 + p) % 4 > 1;
            mr_batch *batch = on ? stage_next_on(loader, stream) : rig_next(loader);
            if (on)
                seen_add_on(seen, batch, &stream);
            else
                seen_add(seen, batch);
            stage_release_on(batch, release_on ? stream : NULL, MR_OK);
        }
        stage_sync(stream);
        seen_expect_same(seen, expected);
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        seen_free(seen);
        seen_free(expected);
        stage_close();
    }
}

static void a_ninth_stream_is_refused_and_nothing_else_changes(void **state)
{
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = 3});
    cudaStream_t streams[9];
    mr_loader_options wanted = stage_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &wanted);
    for (unsigned i = 0; i < 9; i++)
        streams[i] = stage_stream(0, cudaStreamNonBlocking);
    mr_batch *batch = stage_next_on(loader, streams[0]);
    for (unsigned i = 1; i < 8; i++)
        stage_use(batch, streams[i], MR_OK);
    stage_use(batch, streams[8], MR_ERR_STATE);
    assert_words(mr_batch_error(batch)->text, "8");
    stage_use(batch, streams[5], MR_OK); /* known already */
    stage_release_on(batch, streams[8], MR_ERR_STATE);
    assert_non_null(mr_batch_data(batch, "image")); /* still lent */
    stage_release_on(batch, streams[7], MR_OK);
    batch = stage_next_on(loader, streams[8]); /* the next batch starts without streams */
    assert_int_equal(mr_batch_number(batch), 1);
    stage_release(batch, MR_OK);
    mr_loader_destroy(loader);
    for (unsigned i = 0; i < 9; i++)
        stage_end_stream(streams[i]);
    stage_close();
}

static void a_stream_of_another_device_is_refused_and_no_batch_is_lost(void **state)
{
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = 5, .n_devices = 2});
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking),
                 other = stage_stream(1, cudaStreamNonBlocking);
    mr_loader_options wanted = stage_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &wanted);
    mr_batch *batch = (void *)loader;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, other, &batch), MR_ERR_INVALID);
        assert_null(batch);
        assert_words(mr_loader_error(loader)->text, "cuda:0");
    }
    batch = stage_next_on(loader, stream);
    assert_int_equal(mr_batch_number(batch), 0);
    stage_use(batch, other, MR_ERR_INVALID);
    stage_release_on(batch, other, MR_ERR_INVALID);
    stage_use(batch, stream, MR_OK); /* still lent */
    stage_release(batch, MR_OK);
    int64_t got[100];
    assert_int_equal(rig_drain(loader, false, got, 100), 92);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_end_stream(other);
    stage_close();
}

static void addresses_belong_to_buffers_for_the_loaders_life(void **state)
{
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = 9});
    mr_loader_options wanted = stage_options("cuda:0");
    wanted.n_buffers = 4;
    mr_loader *loader = rig_loader(*state, &wanted);
    void *data[4][PLAIN_ARRAYS] = {{NULL}};
    unsigned n_seen[4] = {0};
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        mr_batch *batch;
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        while (mr_loader_next_on(loader, MR_FOREVER, NULL, &batch) == MR_OK) {
            uint32_t b = mr_batch_buffer(batch);
            assert_true(b < 4);
            for (uint32_t i = 0; i < PLAIN_ARRAYS; i++) {
                const mr_array *array = mr_batch_array_at(batch, i);
                assert_int_equal(double_device_of(array->data), 0);
                if (n_seen[b] == 0)
                    data[b][i] = array->data;
                assert_ptr_equal(array->data, data[b][i]);
            }
            n_seen[b]++;
            stage_release_on(batch, NULL, MR_OK);
        }
    }
    for (unsigned b = 0; b < 4; b++)
        for (unsigned c = 0; c < b; c++)
            assert_true(data[b][0] != data[c][0] || n_seen[b] == 0);
    mr_loader_destroy(loader);
    stage_close();
}

static void when_all_buffers_are_lent_next_says_so(void **state)
{
    stage_open(&(struct double_options){0});
    mr_loader_options wanted = stage_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &wanted);
    mr_batch *lent[3], *batch;
    for (unsigned i = 0; i < 3; i++)
        lent[i] = stage_next_on(loader, NULL);
    assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, NULL, &batch), MR_ERR_STATE);
    assert_words(mr_loader_error(loader)->text, "all 3 buffers are lent");
    stage_release_on(lent[1], NULL, MR_OK);
    batch = stage_next_on(loader, NULL);
    assert_int_equal(mr_batch_number(batch), 3);
    assert_int_equal(mr_batch_buffer(batch), mr_batch_buffer(lent[1]));
    stage_release(lent[0], MR_OK);
    stage_release(lent[2], MR_OK);
    stage_release(batch, MR_OK);
    mr_loader_destroy(loader);
    stage_close();
}

/*
 * Without workers nothing is decoded in advance, so two buffers are still unused when the second
 * batch is copied.
 */
static void a_copy_goes_to_a_buffer_that_no_stream_uses(void **state)
{
    stage_open(&(struct double_options){0});
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    mr_loader_options wanted = rig_options_of(&rig_modes[0]);
    wanted.device = "cuda:0";
    mr_loader *loader = rig_loader(*state, &wanted);
    uint32_t used[3];
    for (unsigned k = 0; k < 3; k++) {
        mr_batch *batch;
        /* arrives, although the batches before it are in use */
        mr_status status = mr_loader_next(loader, 5000, &batch);
        if (status != MR_OK)
            fail_msg("batch %u: %s", k, mr_status_name(status));
        used[k] = mr_batch_buffer(batch);
        stage_use(batch, stream, MR_OK);
        if (k == 0)
            assert_int_equal(double_launch_gate(stream, 1), cudaSuccess);
        stage_release_on(batch, stream, MR_OK);
    }
    assert_true(used[0] != used[1] && used[1] != used[2] && used[0] != used[2]);
    double_open_gate(1);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(epochs_read_on_a_stream_have_the_bytes_of_the_host),
        RIG_TEST(between_two_batches_the_consumer_neither_blocks_nor_allocates_nor_copies),
        RIG_TEST(a_further_stream_waits_for_the_copy_and_the_release_for_that_stream),
        RIG_TEST(the_double_notices_a_stream_that_was_not_named),
        RIG_TEST(a_batch_may_be_released_on_another_stream),
        RIG_TEST(a_plain_release_waits_for_the_stream_of_next_on),
        RIG_TEST(after_next_the_bytes_have_arrived),
        RIG_TEST(next_and_next_on_may_alternate),
        RIG_TEST(a_ninth_stream_is_refused_and_nothing_else_changes),
        RIG_TEST(a_stream_of_another_device_is_refused_and_no_batch_is_lost),
        RIG_TEST(addresses_belong_to_buffers_for_the_loaders_life),
        RIG_TEST(when_all_buffers_are_lent_next_says_so),
        RIG_TEST(a_copy_goes_to_a_buffer_that_no_stream_uses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
