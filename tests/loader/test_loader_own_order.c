/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_loader_set_epoch_order(): subsets, repeats, invalid orders, and the return to the sampler's
 * order.
 */
#include "tests/loader/rig.h"
#include "tests/support/assert_words.h"

#include <string.h>
#include <unistd.h>

static void an_order_with_repeats_is_followed_exactly(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t order[21], got[21];
        for (int64_t i = 0; i < 21; i++)
            order[i] = i < 10 ? 99 - i : 7;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch_release(rig_next(loader));
        assert_int_equal(mr_loader_set_epoch_order(loader, 3, order, 21), MR_OK);
        int64_t copied[21];
        memcpy(copied, order, sizeof order);
        memset(order, 0xff, sizeof order); /* the loader has a copy */
        assert_int_equal(mr_loader_epoch(loader), 3);
        assert_int_equal(mr_loader_n_samples(loader), 21);
        assert_int_equal(mr_loader_n_batches(loader), 3);
        assert_int_equal(rig_drain(loader, false, got, 21), 21);
        assert_memory_equal(got, copied, sizeof got);
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
    }
}

static void an_empty_order_is_an_epoch_that_ends_at_once(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_set_epoch_order(loader, 0, NULL, 0), MR_OK);
    assert_int_equal(mr_loader_n_batches(loader), 0);
    assert_int_equal(mr_loader_n_samples(loader), 0);
    rig_expect(loader, MR_END);
    mr_loader_destroy(loader);
}

static void drop_last_applies_to_an_own_order(void **state)
{
    mr_loader_options options = rig_options();
    int64_t got[8];
    options.drop_last = true;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(
        mr_loader_set_epoch_order(loader, 0, (int64_t[]){5, 4, 3, 2, 1, 0, 1, 2, 3}, 9), MR_OK);
    assert_int_equal(rig_drain(loader, false, got, 8), 8);
    assert_int_equal(got[0], 5);
    mr_loader_destroy(loader);
}

static void a_wrong_index_is_named_with_its_position_and_changes_nothing(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t order[50] = {0}, got[100];
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch_release(rig_next(loader));
        order[37] = 100;
        assert_int_equal(mr_loader_set_epoch_order(loader, 4, order, 50), MR_ERR_INVALID);
        assert_words(mr_loader_error(loader)->text, "37");
        assert_words(mr_loader_error(loader)->text, "100");
        order[37] = -1;
        assert_int_equal(mr_loader_set_epoch_order(loader, 4, order, 50), MR_ERR_INVALID);
        assert_words(mr_loader_error(loader)->text, "-1");
        assert_int_equal(mr_loader_set_epoch_order(loader, 4, order, -1), MR_ERR_INVALID);
        assert_int_equal(mr_loader_set_epoch_order(loader, 4, NULL, 3), MR_ERR_INVALID);
        assert_int_equal(mr_loader_epoch(loader), 0);
        assert_int_equal(rig_drain(loader, false, got, 100), 92);
        for (int64_t i = 0; i < 92; i++)
            assert_int_equal(got[i], i + 8);
        assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        assert_int_equal(rig_drain(loader, false, got, 100), 100);
        mr_loader_destroy(loader);
    }
}

static void the_samplers_order_returns(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options();
    int64_t expected[100], got[100];
    options.no_shuffle = false;
    rig_log_capture();
    mr_loader *loader = rig_loader(rig, &options);
    assert_int_equal(rig_drain(loader, false, expected, 100), 100);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(mr_loader_set_epoch_order(loader, 0, (int64_t[]){1, 2, 3}, 3), MR_OK);
        if (round > 0)
            assert_int_equal(rig_drain(loader, false, got, 100), 3);
        assert_int_equal(mr_loader_set_epoch(loader, 0), MR_OK);
        assert_int_equal(mr_loader_n_samples(loader), 100);
        assert_int_equal(rig_drain(loader, false, got, 100), 100);
        assert_memory_equal(got, expected, sizeof got);
    }
    assert_int_equal(rig_log_count("twice"), 0);
    mr_loader_destroy(loader);
    rig_log_end();
}

/* The next epoch's batches are decoded already, in the sampler's order. */
static void an_own_order_for_the_next_epoch_drops_what_was_decoded_for_it(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t got[3];
        options.n_slots = 6;
        atomic_store(&rig->shared->n_gets, 0);
        mr_loader *loader = rig_loader(rig, &options);
        for (int i = 0; i < 13; i++)
            mr_batch_release(rig_next(loader));
        for (int i = 0; i < 4000 && atomic_load(&rig->shared->n_gets) < 148; i++)
            usleep(5000);
        assert_int_equal(mr_loader_set_epoch_order(loader, 1, (int64_t[]){9, 8, 7}, 3), MR_OK);
        assert_int_equal(rig_drain(loader, false, got, 3), 3);
        assert_true(got[0] == 9 && got[1] == 8 && got[2] == 7);
        mr_loader_destroy(loader);
    }
}

static void nothing_is_decoded_beyond_an_own_order(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options();
    options.no_shuffle = false;
    mr_loader *loader = rig_loader(rig, &options);
    for (int i = 0; i < 20; i++) {
        int64_t got[8];
        assert_int_equal(mr_loader_set_epoch_order(loader, (uint64_t)i, (int64_t[]){50, 60, 70}, 3),
                         MR_OK);
        uint32_t before = atomic_load(&rig->shared->gets[50]);
        assert_int_equal(rig_drain(loader, false, got, 8), 3);
        assert_true(atomic_load(&rig->shared->gets[50]) <= before + 1);
    }
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(an_order_with_repeats_is_followed_exactly),
        RIG_TEST(an_empty_order_is_an_epoch_that_ends_at_once),
        RIG_TEST(drop_last_applies_to_an_own_order),
        RIG_TEST(a_wrong_index_is_named_with_its_position_and_changes_nothing),
        RIG_TEST(the_samplers_order_returns),
        RIG_TEST(an_own_order_for_the_next_epoch_drops_what_was_decoded_for_it),
        RIG_TEST(nothing_is_decoded_beyond_an_own_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
