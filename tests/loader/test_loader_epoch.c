/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_loader_set_epoch(): what changes and what does not, the warning, leaving early, and n_epochs.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"

#include <string.h>
#include <time.h>

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

static mr_loader_options shuffled(const struct rig_mode *mode)
{
    mr_loader_options options = rig_options_of(mode);
    options.no_shuffle = false;
    options.seed = 3;
    return options;
}

/* The order of an epoch, from a new loader without workers. */
static void fresh(struct rig *rig, uint64_t epoch, int64_t *indices_out)
{
    mr_loader_options options = shuffled(&rig_modes[0]);
    options.epoch = epoch;
    mr_loader *loader = rig_loader(rig, &options);
    assert_int_equal(rig_drain(loader, false, indices_out, 100), 100);
    mr_loader_destroy(loader);
}

static void take(mr_loader *loader, unsigned n_batches)
{
    for (unsigned i = 0; i < n_batches; i++)
        mr_batch_release(rig_next(loader));
}

static void expect_epoch(struct rig *rig, mr_loader *loader, uint64_t epoch)
{
    int64_t expected[100], got[100];
    fresh(rig, epoch, expected);
    assert_int_equal(mr_loader_epoch(loader), epoch);
    assert_int_equal(rig_drain(loader, false, got, 100), 100);
    assert_memory_equal(got, expected, sizeof got);
}

static void the_first_epoch_again_before_its_first_batch_changes_nothing(void **state)
{
    struct rig *rig = *state;
    rig_log_capture();
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = shuffled(&rig_modes[m]);
        options.epoch = 5;
        options.n_epochs = 1;
        options.n_slots = 16;
        memset(rig->shared->gets, 0, sizeof rig->shared->gets);
        mr_loader *loader = rig_loader(rig, &options);
        for (int i = 0; i < 5; i++)
            assert_int_equal(mr_loader_set_epoch(loader, 5), MR_OK);
        int64_t got[100];
        assert_int_equal(rig_drain(loader, false, got, 100), 100);
        for (int64_t i = 0; i < 100; i++)
            assert_int_equal(atomic_load(&rig->shared->gets[i]), 1);
        mr_loader_destroy(loader);
    }
    assert_int_equal(rig_log_count("used twice"), 0);
    rig_log_end();
}

static void epochs_in_any_sequence_equal_fresh_loaders(void **state)
{
    static const uint64_t sequence[] = {5, 6, 9, 9, 8, 0, 1, UINT64_MAX, 0};
    rig_log_capture();
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = shuffled(&rig_modes[m]);
        mr_loader *loader = rig_loader(*state, &options);
        for (unsigned i = 0; i < sizeof sequence / sizeof *sequence; i++) {
            assert_int_equal(mr_loader_set_epoch(loader, sequence[i]), MR_OK);
            expect_epoch(*state, loader, sequence[i]);
        }
        mr_loader_destroy(loader);
    }
    rig_log_end();
}

static void an_epoch_left_early_leaves_nothing_behind(void **state)
{
    rig_log_capture();
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = shuffled(&rig_modes[m]);
        options.n_slots = 4;
        mr_loader *loader = rig_loader(*state, &options);
        for (unsigned i = 0; i < 30; i++) {
            assert_int_equal(mr_loader_set_epoch(loader, i * 7 % 11), MR_OK);
            take(loader, i % 13);
        }
        mr_batch *lent = rig_next(loader);
        assert_int_equal(mr_loader_set_epoch(loader, 20), MR_OK);
        rig_check(lent);
        expect_epoch(*state, loader, 20);
        rig_check(lent);
        mr_batch_release(lent);
        mr_loader_destroy(loader);
    }
    rig_log_end();
}

static void the_next_epoch_is_decoded_before_it_is_set(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = shuffled(&rig_modes[m]);
        options.n_slots = 6;
        options.n_buffers = 3;
        uint32_t n_ahead = 48; /* six slots of 8, after the 100 */
        if (mr_test_copies())
            n_ahead += 24; /* and three buffers */
        atomic_store(&rig->shared->n_gets, 0);
        mr_loader *loader = rig_loader(rig, &options);
        take(loader, 13);
        for (int i = 0; i < 1000 && atomic_load(&rig->shared->n_gets) < 100 + n_ahead; i++)
            pause_ms(5);
        assert_int_equal(atomic_load(&rig->shared->n_gets), 100 + n_ahead);
        assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        expect_epoch(rig, loader, 1);
        mr_loader_destroy(loader);
    }
}

static void nothing_is_decoded_beyond_the_last_epoch(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = shuffled(&rig_modes[m]);
        options.epoch = 4;
        options.n_epochs = 2;
        atomic_store(&rig->shared->n_gets, 0);
        mr_loader *loader = rig_loader(rig, &options);
        take(loader, 13);
        assert_int_equal(mr_loader_set_epoch(loader, 5), MR_OK);
        take(loader, 13);
        rig_expect(loader, MR_END);
        pause_ms(60);
        assert_int_equal(atomic_load(&rig->shared->n_gets), 200);
        mr_loader_destroy(loader);
    }
}

static void n_epochs_of_one_decodes_each_sample_once(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = shuffled(&rig_modes[m]);
        options.n_epochs = 1;
        options.n_slots = 32;
        memset(rig->shared->gets, 0, sizeof rig->shared->gets);
        mr_loader *loader = rig_loader(rig, &options);
        take(loader, 13);
        pause_ms(60);
        for (int64_t i = 0; i < 100; i++)
            assert_int_equal(atomic_load(&rig->shared->gets[i]), 1);
        mr_loader_destroy(loader);
    }
}

/* Use an epoch twice, three times over. Returns how often that was warned about. */
static unsigned warnings_of(struct rig *rig, const mr_loader_options *options)
{
    rig_log_capture();
    mr_loader *loader = rig_loader(rig, options);
    for (int i = 0; i < 3; i++) {
        take(loader, 2);
        assert_int_equal(mr_loader_set_epoch(loader, 0), MR_OK);
    }
    unsigned n = rig_log_count("2 epoch 0 is used twice"); /* 2: a warning */
    assert_int_equal(n, rig_log_count("twice"));
    mr_loader_destroy(loader);
    rig_log_end();
    return n;
}

static void the_same_epoch_twice_warns_once_while_shuffling(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[1]);
    assert_int_equal(warnings_of(*state, &options), 1);
    options.allow_same_epoch = true;
    assert_int_equal(warnings_of(*state, &options), 0);
    options.allow_same_epoch = false;
    options.no_shuffle = true;
    assert_int_equal(warnings_of(*state, &options), 0);
}

static void another_epoch_causes_no_warning(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[1]);
    rig_log_capture();
    mr_loader *loader = rig_loader(*state, &options);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        take(loader, 3);
    }
    assert_int_equal(rig_log_count("twice"), 0);
    mr_loader_destroy(loader);
    rig_log_end();
}

static void work_dropped_with_an_epoch_is_neither_counted_nor_listed(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        mr_error error;
        options.on_error = MR_ON_ERROR_ZERO;
        for (int64_t i = 16; i < 100; i++)
            rig->shared->fails[i] = true;
        mr_loader *loader = rig_loader(rig, &options);
        take(loader, 2);
        pause_ms(30); /* the damaged samples are decoded by now */
        assert_int_equal(mr_loader_set_epoch_order(loader, 1, (int64_t[]){0, 1, 2}, 3), MR_OK);
        take(loader, 1);
        rig_expect(loader, MR_END);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        assert_int_equal(stats.n_damaged, 0);
        assert_int_equal(mr_loader_damaged(loader, 0, &error), MR_END);
        mr_loader_destroy(loader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(the_first_epoch_again_before_its_first_batch_changes_nothing),
        RIG_TEST(epochs_in_any_sequence_equal_fresh_loaders),
        RIG_TEST(an_epoch_left_early_leaves_nothing_behind),
        RIG_TEST(the_next_epoch_is_decoded_before_it_is_set),
        RIG_TEST(nothing_is_decoded_beyond_the_last_epoch),
        RIG_TEST(n_epochs_of_one_decodes_each_sample_once),
        RIG_TEST(the_same_epoch_twice_warns_once_while_shuffling),
        RIG_TEST(another_epoch_causes_no_warning),
        RIG_TEST(work_dropped_with_an_epoch_is_neither_counted_nor_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
