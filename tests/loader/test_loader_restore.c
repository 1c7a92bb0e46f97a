/* SPDX-License-Identifier: Apache-2.0 */
/* Saved positions in the loader: after a restore come the batches that would have come. */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <string.h>
#include <unistd.h>

static mr_loader_options shuffled(const struct rig_mode *mode)
{
    mr_loader_options options = rig_options_of(mode);
    options.no_shuffle = false;
    options.seed = 12;
    return options;
}

static void take(mr_loader *loader, unsigned n_batches)
{
    for (unsigned i = 0; i < n_batches; i++)
        mr_batch_release(rig_next(loader));
}

struct saved {
    uint8_t bytes[MR_LOADER_STATE_MAX];
    size_t len;
};

static struct saved save(mr_loader *loader)
{
    struct saved position;
    memset(&position, 0xa5, sizeof position);
    assert_int_equal(mr_loader_save(loader, position.bytes, sizeof position.bytes, &position.len),
                     MR_OK);
    assert_int_equal(position.len, mr_loader_state_size(loader));
    return position;
}

static mr_status restore(mr_loader *loader, const struct saved *position)
{
    return mr_loader_restore(loader, position->bytes, position->len);
}

static void the_rest_of_an_epoch_is_the_same_after_a_restore(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        for (unsigned used = 0; used <= 13; used++) {
            mr_loader_options options = shuffled(&rig_modes[m]);
            int64_t expected[120], got[120];
            options.epoch = 2;
            mr_loader *loader = rig_loader(*state, &options);
            take(loader, used);
            struct saved position = save(loader);
            unsigned n = rig_drain(loader, true, expected, 120);
            mr_loader_destroy(loader);

            options.epoch = 0;
            options.num_workers = 1;
            loader = rig_loader(*state, &options);
            take(loader, used % 3);
            assert_int_equal(restore(loader, &position), MR_OK);
            assert_int_equal(mr_loader_epoch(loader), 2);
            assert_int_equal(rig_drain(loader, true, got, 120), n);
            assert_memory_equal(got, expected, n * sizeof *got);
            /* and the epoch after it */
            assert_int_equal(mr_loader_set_epoch(loader, 3), MR_OK);
            assert_int_equal(rig_drain(loader, false, got, 120), 100);
            mr_loader_destroy(loader);
        }
    }
}

/* The next epoch's first batches are decoded already, and are not the wanted ones. */
static void a_restore_into_the_middle_of_the_next_epoch_skips_what_was_decoded_for_it(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = shuffled(&rig_modes[1]);
    int64_t expected[120], got[120];
    options.n_slots = 6;
    options.epoch = 1;
    mr_loader *loader = rig_loader(rig, &options);
    take(loader, 4);
    struct saved position = save(loader);
    unsigned n = rig_drain(loader, true, expected, 120);
    mr_loader_destroy(loader);

    options.epoch = 0;
    atomic_store(&rig->shared->n_gets, 0);
    loader = rig_loader(rig, &options);
    take(loader, 13);
    for (int i = 0; i < 4000 && atomic_load(&rig->shared->n_gets) < 148; i++)
        usleep(5000);
    assert_int_equal(restore(loader, &position), MR_OK);
    assert_int_equal(rig_drain(loader, true, got, 120), n);
    assert_memory_equal(got, expected, n * sizeof *got);
    mr_loader_destroy(loader);
}

static void the_batches_keep_their_numbers(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[1]);
    mr_loader *loader = rig_loader(*state, &options);
    take(loader, 5);
    struct saved position = save(loader);
    take(loader, 4);
    rig_log_capture();
    assert_int_equal(restore(loader, &position), MR_OK);
    assert_int_equal(rig_log_count("twice"), 0);
    rig_log_end();
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_number(batch), 5);
    assert_int_equal(mr_batch_epoch(batch), 0);
    mr_batch_release(batch);
    assert_int_equal(mr_loader_n_batches(loader), 13);
    mr_loader_destroy(loader);
}

static void read_ahead_is_not_part_of_the_position(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = shuffled(&rig_modes[1]);
    mr_loader_options none = shuffled(&rig_modes[0]);
    mr_loader *loader = rig_loader(rig, &options), *lazy = rig_loader(rig, &none);
    take(loader, 3);
    take(lazy, 3);
    mr_batch *batch = rig_next(loader); /* a lent batch counts as returned */
    mr_batch *other = rig_next(lazy);
    struct saved a = save(loader), b = save(lazy);
    assert_memory_equal(&a, &b, sizeof a);
    mr_batch_release(batch);
    mr_batch_release(other);
    mr_loader_destroy(loader);
    mr_loader_destroy(lazy);
}

static void continue_as_two_ranks(struct rig *rig, bool rank_slices)
{
    mr_loader_options options = shuffled(&rig_modes[1]);
    options.rank_slices = rank_slices;
    unsigned counts[100] = {0};
    int64_t rest[100];
    mr_loader *loader = rig_loader(rig, &options);
    for (int i = 0; i < 6; i++) {
        mr_batch *batch = rig_next(loader);
        for (unsigned k = 0; k < 8; k++)
            counts[((int64_t *)mr_test_data(batch, "index"))[k]]++;
        mr_batch_release(batch);
    }
    struct saved position = save(loader); /* 48 samples: divisible by 2 x 4 x 6 */
    mr_loader_destroy(loader);
    for (uint32_t rank = 0; rank < 2; rank++) {
        options.world_size = 2;
        options.rank = rank;
        options.batch_size = 4;
        loader = rig_loader(rig, &options);
        assert_int_equal(restore(loader, &position), MR_OK);
        unsigned n = rig_drain(loader, false, rest, 100);
        assert_int_equal(n, 26);
        for (unsigned i = 0; i < n; i++)
            counts[rest[i]]++;
        mr_loader_destroy(loader);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(counts[i], 1);
}

static void another_world_and_batch_size_continue_if_they_divide(void **state)
{
    continue_as_two_ranks(*state, false);
    continue_as_two_ranks(*state, true);
}

#define REFUSED(field, value, words)                                                               \
    do {                                                                                           \
        mr_loader_options other_ = shuffled(&rig_modes[0]);                                        \
        other_.field = value;                                                                      \
        mr_loader *loader_ = rig_loader(*state, &other_);                                          \
        assert_int_equal(restore(loader_, &position), MR_ERR_INVALID);                             \
        if (!strstr(mr_loader_error(loader_)->text, words))                                        \
            fail_msg("'%s' lacks '%s'", mr_loader_error(loader_)->text, words);                    \
        mr_batch *first_ = rig_next(loader_);                                                      \
        assert_int_equal(mr_batch_number(first_), 0);                                              \
        mr_batch_release(first_);                                                                  \
        mr_loader_destroy(loader_);                                                                \
    } while (0)

static void a_difference_is_named_and_the_loader_stays_where_it_was(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[0]);
    mr_loader *loader = rig_loader(*state, &options);
    take(loader, 5);
    struct saved position = save(loader);
    mr_loader_destroy(loader);
    REFUSED(seed, 13, "seed 12");
    REFUSED(no_shuffle, true, "shuffling");
    REFUSED(drop_last, true, "drop_last");
    REFUSED(tail, MR_TAIL_DROP, "tail");
    REFUSED(order, MR_ORDER_KEYED, "order");
    REFUSED(batch_size, 7, "batch_size 7");
    REFUSED(world_size, 3, "world_size 3");
    position.bytes[20] ^= 1;
    REFUSED(nice, 0, "altered");
    position.len--;
    REFUSED(nice, 0, "79 bytes, not 80");
    position.bytes[0] ^= 1;
    REFUSED(nice, 0, "not a saved position");
    memset(position.bytes, 0, sizeof position.bytes);
    REFUSED(nice, 0, "not a saved position");
    position.len = 0;
    REFUSED(nice, 0, "these 0 bytes are not a saved position");
}

static void memory_that_is_too_small_is_refused(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[0]);
    mr_loader *loader = rig_loader(*state, &options);
    uint8_t bytes[100] = {0xa5};
    size_t len = 3, size = mr_loader_state_size(loader);
    assert_int_equal(mr_loader_save(loader, bytes, size - 1, &len), MR_ERR_INVALID);
    assert_words(mr_loader_error(loader)->text, "80 bytes, and there is room for 79");
    assert_int_equal(bytes[0], 0xa5);
    assert_int_equal(len, 3);
    assert_int_equal(mr_loader_save(loader, bytes, size, &len), MR_OK);
    assert_int_equal(len, size);
    mr_loader_destroy(loader);
}

static void a_dataset_of_another_size_is_refused(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[0]);
    mr_loader *loader = rig_loader(*state, &options);
    struct saved position = save(loader);
    mr_loader_destroy(loader);
    struct rig *smaller = rig_create(99);
    loader = rig_loader(smaller, &options);
    assert_int_equal(restore(loader, &position), MR_ERR_INVALID);
    assert_words(mr_loader_error(loader)->text, "100 samples");
    mr_loader_destroy(loader);
    rig_destroy(smaller);
}

static void an_own_order_has_no_position(void **state)
{
    mr_loader_options options = shuffled(&rig_modes[1]);
    struct saved position, before;
    mr_loader *loader = rig_loader(*state, &options);
    take(loader, 2);
    before = save(loader);
    assert_int_equal(mr_loader_set_epoch_order(loader, 1, (int64_t[]){1, 2}, 2), MR_OK);
    position = before;
    assert_int_equal(mr_loader_save(loader, position.bytes, sizeof position.bytes, &position.len),
                     MR_ERR_UNSUPPORTED);
    assert_words(mr_loader_error(loader)->text, "in the caller's own order");
    assert_memory_equal(&position, &before, sizeof position); /* it is written on success only */
    assert_int_equal(restore(loader, &before), MR_OK); /* but a restore from there is possible */
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_number(batch), 2);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void a_batch_that_was_reported_damaged_counts_as_returned(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options();
    rig->shared->fails[3] = true;
    mr_loader *loader = rig_loader(rig, &options);
    rig_expect(loader, MR_ERR_DAMAGED);
    struct saved position = save(loader);
    mr_loader_destroy(loader);
    loader = rig_loader(rig, &options);
    assert_int_equal(restore(loader, &position), MR_OK);
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_number(batch), 1);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void going_back_to_a_saved_start_causes_no_warning(void **state)
{
    mr_loader_options options = rig_options();
    options.no_shuffle = false;
    mr_loader *loader = rig_loader(*state, &options);
    struct saved start = save(loader);
    rig_log_capture();
    mr_batch_release(rig_next(loader));
    assert_int_equal(restore(loader, &start), MR_OK);
    assert_int_equal(rig_log_count("used twice"), 0);
    rig_log_end();
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_number(batch), 0);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(the_rest_of_an_epoch_is_the_same_after_a_restore),
        RIG_TEST(a_restore_into_the_middle_of_the_next_epoch_skips_what_was_decoded_for_it),
        RIG_TEST(the_batches_keep_their_numbers),
        RIG_TEST(read_ahead_is_not_part_of_the_position),
        RIG_TEST(another_world_and_batch_size_continue_if_they_divide),
        RIG_TEST(a_difference_is_named_and_the_loader_stays_where_it_was),
        RIG_TEST(memory_that_is_too_small_is_refused),
        RIG_TEST(a_dataset_of_another_size_is_refused),
        RIG_TEST(an_own_order_has_no_position),
        RIG_TEST(going_back_to_a_saved_start_causes_no_warning),
        RIG_TEST(a_batch_that_was_reported_damaged_counts_as_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
