/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer, the copying thread and the workers, each when it has nothing to do: none waits for
 * a wake-up that never comes.
 */
#include "tests/loader/stream_rig.h"
#include "tests/support/assert_words.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/loader.h"

enum { SOON_MS = 10000 };

static mr_loader_options small_options(const char *device)
{
    mr_loader_options options = stage_options(device);
    options.batch_size = 8;
    options.n_buffers = 2;
    options.n_slots = 4;
    return options;
}

static void wait_for_ready(mr_loader *loader, uint32_t n)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    for (int i = 0; i < 10000 && stats.n_ready < n; i++) {
        usleep(2000);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    }
    assert_int_equal(stats.n_ready, n);
}

/*
 * All buffers hold dropped batches, and all slots the next epoch: the buffers must become free
 * without a call.
 */
static void an_epoch_that_is_left_early_returns_its_buffers(void **state)
{
    mr_loader_options options = small_options("host:0");
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch;
    for (int i = 0; i < 11; i++) /* of 13; the last two are staged */
        mr_batch_release(rig_next(loader));
    wait_for_ready(loader, 6);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    assert_int_equal(mr_loader_next(loader, SOON_MS, &batch), MR_OK);
    assert_int_equal(mr_batch_epoch(batch), 1);
    assert_int_equal(mr_batch_number(batch), 0);
    rig_check(batch);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

/* The copy that is under way waits for the caller itself. */
static void with_all_buffers_lent_next_on_says_so_while_a_copy_waits_for_its_stream(void **state)
{
    stage_open(&(struct double_options){.n_devices = 1});
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    mr_loader_options options = small_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *first = stage_next_on(loader, stream), *second = stage_next_on(loader, stream), *none;
    assert_int_equal(double_launch_gate(stream, 1), cudaSuccess);
    stage_release_on(first, stream, MR_OK);
    mr_batch *third = stage_next_on(loader, stream);
    mr_status status = MR_PENDING; /* until the fourth is decoded */
    for (int i = 0; i < 1000 && status == MR_PENDING; i++)
        status = mr_loader_next_on(loader, 5, stream, &none);
    assert_int_equal(status, MR_ERR_STATE);
    assert_words(mr_loader_error(loader)->text, "all 2 buffers are lent");
    double_open_gate(1);
    stage_release_on(second, stream, MR_OK);
    stage_release_on(third, stream, MR_OK);
    stage_release_on(stage_next_on(loader, stream), stream, MR_OK);
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_close();
}

static void a_batch_of_one_part_is_the_batch(void **state)
{
    static const char *const two[] = {"host:0", "host:1"};
    struct rig *rig = rig_create(9);
    (void)state;
    mr_loader_options options = rig_options();
    options.devices = two;
    options.n_devices = 2;
    mr_loader *loader = rig_loader(rig, &options);
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_n_parts(batch), 2);
    assert_int_equal(mr_batch_n_arrays(batch), 0);
    mr_batch_release(batch);
    batch = rig_next(loader);
    assert_int_equal(mr_batch_n_parts(batch), 1);
    assert_ptr_equal(mr_batch_part(batch, 0), batch);
    assert_null(mr_batch_part(batch, 1));
    assert_int_equal(mr_batch_size(batch), 1);
    assert_int_equal(mr_batch_n_arrays(batch), 5);
    assert_int_equal(((const int64_t *)mr_batch_data(batch, "index"))[0], 8);
    rig_check(batch);
    assert_int_equal(mr_batch_use(batch, NULL), MR_OK);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    rig_destroy(rig);
}

/* As with slots: decoded batches are delivered before the workers' end is reported. */
static void decoded_batches_come_before_the_end_of_the_workers(void **state)
{
    static const char *const devices[] = {"host", "host:0"};
    for (int d = 0; d < 2; d++) {
        mr_loader_options options = small_options(devices[d]);
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *batch;
        mr_error end;
        unsigned n = 0, n_ready = d ? 6 : 4;
        wait_for_ready(loader, n_ready);
        mr_error_set(&end, MR_ERR_WORKER, "no worker is left");
        mr_host_fail(loader->host, &end);
        mr_status status;
        while ((status = mr_loader_next(loader, SOON_MS, &batch)) == MR_OK) {
            assert_int_equal(mr_batch_number(batch), n++);
            rig_check(batch);
            mr_batch_release(batch);
        }
        assert_int_equal(status, MR_ERR_WORKER);
        assert_int_equal(n, n_ready);
        mr_loader_destroy(loader);
    }
}

/* cuda:local becomes the number that a program needs for cudaSetDevice, before its first batch. */
static void the_resolved_device_has_its_number(void **state)
{
    stage_open(&(struct double_options){.n_devices = 4});
    assert_int_equal(setenv("LOCAL_RANK", "2", 1), 0);
    mr_loader_options options = small_options("cuda:local");
    mr_loader *loader = rig_loader(*state, &options);
    assert_string_equal(mr_loader_resolved(loader)->device, "cuda:2");
    mr_loader_destroy(loader);
    assert_int_equal(unsetenv("LOCAL_RANK"), 0);
    stage_close();
}

static void auto_pads_without_a_gpu_too(void **state)
{
    stage_open(&(struct double_options){.no_device = true});
    mr_loader_options options = small_options("auto");
    options.pad_channels = 4;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_array(batch, "image")->shape[1], 4);
    assert_int_equal(mr_batch_array(batch, "image")->device.kind, MR_DEVICE_HOST);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(an_epoch_that_is_left_early_returns_its_buffers),
        RIG_TEST(with_all_buffers_lent_next_on_says_so_while_a_copy_waits_for_its_stream),
        RIG_TEST(a_batch_of_one_part_is_the_batch),
        RIG_TEST(decoded_batches_come_before_the_end_of_the_workers),
        RIG_TEST(the_resolved_device_has_its_number),
        RIG_TEST(auto_pads_without_a_gpu_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
