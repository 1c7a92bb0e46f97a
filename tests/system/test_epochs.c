/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs in any order: each equals the same epoch of a fresh loader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

static char *folder;
static mr_dataset *dataset;
static uint32_t n_twice; /* warnings that an epoch is used twice */

static void count_warnings(void *user, mr_log_level level, const char *line)
{
    (void)user;
    n_twice += level == MR_LOG_WARNING && strstr(line, "used twice");
}

static mr_loader *make_loader(uint32_t num_workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.num_workers = num_workers;
    o.seed = 3;
    return mr_test_loader(dataset, "train:32", &o);
}

static uint64_t fresh_digest(uint64_t epoch)
{
    mr_loader *loader = make_loader(MR_NO_WORKERS);
    struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
    assert_int_equal(e.status, MR_END);
    uint64_t digest = e.digest;
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    return digest;
}

static void take(mr_loader *loader, int n)
{
    mr_batch *batch;
    for (int i = 0; i < n; i++) {
        assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
        mr_batch_release(batch);
    }
}

static void check_epoch(mr_loader *loader, uint64_t epoch)
{
    struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
    assert_int_equal(e.status, MR_END);
    assert_true(e.digest == fresh_digest(epoch));
    mr_test_epoch_free(&e);
}

static void jumping_between_epochs_equals_fresh_loaders(void **state)
{
    (void)state;
    static const uint64_t epochs[] = {5, 6, 9, 9};
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 3};
    for (size_t w = 0; w < 3; w++) {
        mr_loader *loader = make_loader(workers[w]);
        n_twice = 0;
        for (size_t i = 0; i < 4; i++)
            check_epoch(loader, epochs[i]);
        assert_int_equal(n_twice, 1); /* for the second 9 */
        mr_loader_destroy(loader);
    }
}

static void leaving_an_epoch_midway_equals_fresh_loaders(void **state)
{
    (void)state;
    mr_loader *loader = make_loader(3);
    for (uint64_t epoch = 0; epoch < 12; epoch += 1 + epoch % 3) {
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        take(loader, (int)(epoch % 5));
        check_epoch(loader, epoch + epoch % 2 + 1);
    }
    mr_loader_destroy(loader);
}

static void leaving_at_once_and_often_loses_nothing(void **state)
{
    (void)state;
    mr_loader *loader = make_loader(3);
    for (uint64_t i = 0; i < 300; i++) {
        assert_int_equal(mr_loader_set_epoch(loader, i * 7 % 13), MR_OK);
        if (i % 10 == 0)
            take(loader, 1);
    }
    check_epoch(loader, 20);
    mr_loader_destroy(loader);
}

static void a_lent_batch_survives_a_change_of_epoch(void **state)
{
    (void)state;
    mr_loader *loader = make_loader(2);
    mr_batch *batch;
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    const mr_array *image = mr_batch_array(mr_batch_part(batch, 0), "image");
    const uint8_t *bytes = mr_test_bytes(image);
    uint64_t sum = 0;
    for (int64_t i = 0; i < image->strides[0] * image->shape[0]; i++)
        sum += bytes[i];
    check_epoch(loader, 4);
    for (int64_t i = 0; i < image->strides[0] * image->shape[0]; i++)
        sum -= bytes[i];
    assert_true(sum == 0);
    mr_batch_release(batch);
    check_epoch(loader, 5);
    mr_loader_destroy(loader);
}

static void the_next_epoch_is_decoded_while_this_one_is_consumed(void **state)
{
    (void)state;
    mr_loader *loader = make_loader(2);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    take(loader, (int)mr_loader_n_batches(loader));
    /*
     * Epoch 1 is not requested, but its first batches fill every slot and every buffer of a device.
     */
    for (int tries = 0; tries < 1000; tries++) {
        mr_loader_get_stats(loader, &stats);
        if (stats.n_ready == stats.n_slots + stats.n_buffers)
            break;
        mr_batch *none;
        assert_int_equal(mr_loader_next(loader, 0, &none), MR_END);
        struct timespec ms = {.tv_nsec = 5000000};
        nanosleep(&ms, NULL);
    }
    assert_int_equal(stats.n_ready, stats.n_slots + stats.n_buffers);
    check_epoch(loader, 1);
    mr_loader_destroy(loader);
}

static int set_up(void **state)
{
    (void)state;
    mr_log_set(count_warnings, NULL);
    folder = mr_test_folder_filled(3, 31);
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
        cmocka_unit_test(jumping_between_epochs_equals_fresh_loaders),
        cmocka_unit_test(leaving_an_epoch_midway_equals_fresh_loaders),
        cmocka_unit_test(leaving_at_once_and_often_loses_nothing),
        cmocka_unit_test(a_lent_batch_survives_a_change_of_epoch),
        cmocka_unit_test(the_next_epoch_is_decoded_while_this_one_is_consumed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
