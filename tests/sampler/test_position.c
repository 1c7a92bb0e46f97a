/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved positions have one property: the samples before the save and those after the restore are
 * together one epoch, also with another world size and batch size.
 */
#include "sampler/position.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct world {
    uint32_t size;
    uint32_t batch;
};

static mr_sampler *make(mr_sampler_options options, uint32_t world_size, uint32_t rank)
{
    options.world_size = world_size;
    options.rank = rank;
    mr_sampler *sampler;
    mr_error error;
    assert_ok(mr_sampler_create(&options, &sampler, &error), &error);
    return sampler;
}

/* Count the indices that all ranks get in the steps from .. to - 1. */
static void give(mr_sampler_options options, struct world world, bool drop_last, uint64_t from,
                 uint64_t to, unsigned *counts)
{
    for (uint32_t rank = 0; rank < world.size; rank++) {
        mr_sampler *sampler = make(options, world.size, rank);
        int64_t length = mr_sampler_length(sampler);
        assert_true(to <= mr_sampler_steps(sampler, world.batch, drop_last));
        for (uint64_t p = from * world.batch; p < to * world.batch && (int64_t)p < length; p++)
            counts[mr_sampler_at(sampler, (int64_t)p)]++;
        mr_sampler_destroy(sampler);
    }
}

static void check_counts(const mr_sampler_options *options, struct world after, bool drop_last,
                         const unsigned *counts)
{
    uint64_t n_left_out = 0, n_repeated = 0;
    for (int64_t i = 0; i < options->n_samples; i++) {
        n_left_out += counts[i] == 0;
        n_repeated += counts[i] > 1 ? counts[i] - 1 : 0;
    }
    uint64_t most_left_out = (options->tail == MR_TAIL_DROP ? after.size - 1 : 0) +
                             (drop_last ? after.batch * after.size - 1 : 0);
    assert_true(n_left_out <= most_left_out);
    assert_true(n_repeated < (options->tail == MR_TAIL_PAD ? after.size : 1));
}

/*
 * Save after each step of `before`, restore with `after`, and continue to the end. Returns how
 * often the restore was allowed.
 */
static unsigned check_change(mr_sampler_options options, struct world before, struct world after,
                             bool drop_last)
{
    mr_sampler *saver = make(options, before.size, before.size - 1);
    options.epoch = 0; /* a new loader is at another epoch */
    mr_sampler *restorer = make(options, after.size, 0);
    options.epoch = 7;
    uint64_t steps = mr_sampler_steps(saver, before.batch, drop_last);
    uint64_t steps_after = mr_sampler_steps(restorer, after.batch, drop_last);
    unsigned n_allowed = 0;
    for (uint64_t k = 0; k <= steps; k++) {
        struct mr_position position;
        uint64_t epoch = 0, batches = 0;
        mr_error error;
        mr_position_save(saver, before.batch, drop_last, k, &position);
        mr_status status = mr_position_restore(&position, sizeof position, restorer, after.batch,
                                               drop_last, &epoch, &batches, &error);
        uint64_t used = k * before.size * before.batch;
        bool divides = used % (after.size * after.batch) == 0;
        assert_int_equal(status, k == steps || divides ? MR_OK : MR_ERR_INVALID);
        if (status != MR_OK)
            continue;
        assert_int_equal(epoch, 7);
        if (k == steps) {
            assert_int_equal(batches, steps_after);
            continue;
        }
        n_allowed++;
        assert_int_equal(batches * after.size * after.batch, used);
        unsigned *counts = calloc((size_t)options.n_samples, sizeof *counts);
        assert_non_null(counts);
        give(options, before, drop_last, 0, k, counts);
        give(options, after, drop_last, batches, steps_after, counts);
        check_counts(&options, after, drop_last, counts);
        free(counts);
    }
    mr_sampler_destroy(saver);
    mr_sampler_destroy(restorer);
    return n_allowed;
}

static void an_epoch_goes_on_with_the_same_samples(void **state)
{
    (void)state;
    static const struct world worlds[] = {{1, 1}, {1, 4}, {2, 2}, {2, 3},
                                          {3, 2}, {4, 1}, {5, 1}, {7, 2}};
    enum { N_WORLDS = sizeof worlds / sizeof *worlds };
    unsigned n_allowed = 0;
    for (int tail = MR_TAIL_PAD; tail <= MR_TAIL_EXACT; tail++)
        for (int kind = 0; kind < 3; kind++)
            for (int64_t n = 25; n <= 36; n += 11)
                for (int pair = 0; pair < N_WORLDS * N_WORLDS; pair++) {
                    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
                    options.n_samples = n;
                    options.tail = (mr_tail)tail;
                    options.no_shuffle = kind == 0;
                    options.order = kind == 2 ? MR_ORDER_KEYED : MR_ORDER_TORCH;
                    options.epoch = 7;
                    struct world before = worlds[pair / N_WORLDS], after = worlds[pair % N_WORLDS];
                    n_allowed += check_change(options, before, after, false);
                    if (tail != MR_TAIL_EXACT)
                        n_allowed += check_change(options, before, after, true);
                }
    assert_true(n_allowed > 1000);
}

/*
 * Drawn and repeated orders have an index several times. Both parts together have it as often as
 * one run without a break.
 */
static void check_counted(mr_sampler_options options, struct world before, struct world after)
{
    mr_sampler *saver = make(options, before.size, 0), *restorer = make(options, after.size, 0);
    uint64_t steps = mr_sampler_steps(saver, before.batch, false),
             end = mr_sampler_steps(restorer, after.batch, false);
    for (uint64_t used = 0; used < steps; used++) {
        unsigned counts[300] = {0}, whole[300] = {0};
        struct mr_position position;
        uint64_t epoch, batches;
        mr_position_save(saver, before.batch, false, used, &position);
        if (mr_position_restore(&position, sizeof position, restorer, after.batch, false, &epoch,
                                &batches, NULL) != MR_OK)
            continue;
        give(options, before, false, 0, used, counts);
        if (batches > end)
            continue;
        give(options, after, false, batches, end, counts);
        give(options, after, false, 0, end, whole);
        assert_memory_equal(counts, whole, sizeof whole);
    }
    mr_sampler_destroy(saver);
    mr_sampler_destroy(restorer);
}

static void drawn_and_repeated_orders_go_on(void **state)
{
    (void)state;
    double weights[300];
    for (int i = 0; i < 300; i++)
        weights[i] = i % 7;
    for (int kind = 0; kind < 3; kind++) {
        mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
        options.n_samples = 300;
        options.seed = 4;
        options.repeat = kind == 0 ? 3 : 0;
        options.weight_values = kind == 0 ? NULL : weights;
        options.n_weight_values = kind == 0 ? 0 : 300;
        options.n_draws = kind == 0 ? 0 : 240;
        options.no_replacement = kind == 2;
        check_counted(options, (struct world){4, 2}, (struct world){2, 4});
        check_counted(options, (struct world){1, 6}, (struct world){3, 2});
        check_counted(options, (struct world){2, 5}, (struct world){5, 2});
    }
}

static mr_sampler_options usual(void)
{
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = 1000;
    options.seed = 3;
    options.epoch = 2;
    return options;
}

static void expect_refused(const struct mr_position *position, mr_sampler_options options,
                           uint32_t world_size, uint32_t batch_size, bool drop_last,
                           const char *text)
{
    mr_sampler *sampler = make(options, world_size, 0);
    uint64_t epoch = 77, batches = 88;
    mr_error error;
    assert_int_equal(mr_position_restore(position, sizeof *position, sampler, batch_size, drop_last,
                                         &epoch, &batches, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, text);
    assert_int_equal(epoch, 77);
    assert_int_equal(batches, 88);
    mr_sampler_destroy(sampler);
}

static void what_differs_is_named(void **state)
{
    (void)state;
    mr_sampler_options saved = usual(), other;
    mr_sampler *sampler = make(saved, 2, 1);
    struct mr_position position;
    mr_position_save(sampler, 32, false, 3, &position);
    mr_sampler_destroy(sampler);

    other = saved, other.seed = 4;
    expect_refused(&position, other, 2, 32, false,
                   "the position was saved with seed 3, this loader has 4");
    other = saved, other.n_samples = 999;
    expect_refused(&position, other, 2, 32, false,
                   "the position was saved with 1000 samples, this loader has 999");
    other = saved, other.no_shuffle = true;
    expect_refused(&position, other, 2, 32, false,
                   "the position was saved with shuffling, this loader is without it");
    other = saved, other.tail = MR_TAIL_EXACT;
    expect_refused(&position, other, 2, 32, false,
                   "the position was saved with tail pad, this loader has exact");
    other = saved, other.order = MR_ORDER_KEYED;
    expect_refused(&position, other, 2, 32, false,
                   "the position was saved with order torch, this loader has keyed");
    expect_refused(&position, saved, 2, 32, true,
                   "the position was saved with drop_last false, this loader has true");
    expect_refused(
        &position, saved, 5, 32, false,
        "192 samples were used, which is not a multiple of world_size 5 x batch_size 32");
}

static void missing_and_altered_bytes_are_noticed(void **state)
{
    (void)state;
    mr_sampler *sampler = make(usual(), 2, 0);
    struct mr_position good;
    unsigned char bytes[sizeof good + 1] = {0};
    uint64_t epoch, batches;
    mr_error error;
    mr_position_save(sampler, 32, false, 3, &good);
    for (size_t bit = 0; bit < 8 * sizeof good; bit++) {
        memcpy(bytes, &good, sizeof good);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(
            mr_position_restore(bytes, sizeof good, sampler, 32, false, &epoch, &batches, &error),
            MR_ERR_INVALID);
        assert_words(error.text, bit < 32   ? "not a saved position"
                                 : bit < 64 ? "this library reads versions 1 and 2"
                                 : bit < 96 ? "was it cut?"
                                            : "was altered");
    }
    memcpy(bytes, &good, sizeof good);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        mr_status status =
            mr_position_restore(bytes, len, sampler, 32, false, &epoch, &batches, &error);
        assert_int_equal(status, len == sizeof good ? MR_OK : MR_ERR_INVALID);
        if (status != MR_OK)
            assert_words(error.text, len < 12 ? "not a saved position" : "was it cut?");
    }
    assert_int_equal(batches, 3);
    mr_sampler_destroy(sampler);
}

static void a_position_survives_the_order_option_of_a_sequential_loader(void **state)
{
    (void)state;
    mr_sampler_options options = usual();
    options.no_shuffle = true;
    mr_sampler *torch = make(options, 1, 0);
    options.order = MR_ORDER_KEYED;
    mr_sampler *keyed = make(options, 1, 0);
    struct mr_position position;
    uint64_t epoch, batches;
    mr_position_save(torch, 10, false, 5, &position);
    assert_int_equal(
        mr_position_restore(&position, sizeof position, keyed, 10, false, &epoch, &batches, NULL),
        MR_OK);
    assert_int_equal(batches, 5);
    mr_sampler_destroy(torch);
    mr_sampler_destroy(keyed);
}

static void a_restore_does_not_mind_an_order_of_the_callers_own(void **state)
{
    (void)state;
    mr_sampler *sampler = make(usual(), 1, 0);
    struct mr_position position;
    uint64_t epoch, batches;
    static const int64_t mine[] = {1, 2, 3};
    /* the end: 15 whole batches and a short one */
    mr_position_save(sampler, 64, false, 16, &position);
    assert_int_equal(mr_sampler_set_order(sampler, 5, mine, 3, NULL), MR_OK);
    assert_int_equal(mr_position_restore(&position, sizeof position, sampler, 100, false, &epoch,
                                         &batches, NULL),
                     MR_OK);
    assert_int_equal(epoch, 2);
    assert_int_equal(batches, 10);
    mr_sampler_destroy(sampler);
}

static void the_bytes_of_a_position_stay_as_they_are(void **state)
{
    (void)state;
    mr_sampler *sampler = make(usual(), 2, 1);
    struct mr_position position;
    mr_position_save(sampler, 32, false, 3, &position);
    assert_int_equal(sizeof position, 80);
    assert_memory_equal(&position, "MRPS\1\0\0\0P\0\0\0", 12);
    assert_memory_equal(&position.flags,
                        "\0\0\0\0\2\0\0\0 \0\0\0\1\0\0\0"
                        "\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\350\3\0\0\0\0\0\0"
                        "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\300\0\0\0\0\0\0\0",
                        64);
    mr_sampler_destroy(sampler);
}

#define OTHER_WEIGHTS                                                                              \
    "the position was saved with other weights or another n_draws than this loader's"

static void positions_of_other_draws_are_refused(void **state)
{
    (void)state;
    double weights[300] = {1, 2};
    struct mr_position position;
    mr_sampler_options saved = MR_SAMPLER_OPTIONS_INIT;
    saved.n_samples = 300;
    mr_sampler_options other = saved;
    saved.repeat = 3;
    mr_sampler *sampler = make(saved, 1, 0);
    mr_position_save(sampler, 8, false, 2, &position);
    mr_sampler_destroy(sampler);
    expect_refused(&position, other, 1, 8, false,
                   "the position was saved with repeat 3, this loader has 0; 0 is none");
    other.repeat = 3;
    other.repeat_form = MR_REPEAT_TIMM;
    expect_refused(&position, other, 1, 8, false,
                   "the position was saved with repeat 3, this loader has 3 of timm; 0 is none");
    saved.repeat = 0;
    saved.weight_values = weights;
    saved.n_weight_values = 300;
    sampler = make(saved, 1, 0);
    mr_position_save(sampler, 8, false, 2, &position);
    mr_sampler_destroy(sampler);
    other = saved;
    other.weight_values = NULL;
    expect_refused(&position, other, 1, 8, false,
                   "the position was saved with weights, this loader is without them");
    other = saved;
    other.n_draws = 299;
    expect_refused(&position, other, 1, 8, false, OTHER_WEIGHTS);
    double others[300] = {2, 1};
    other = saved;
    other.weight_values = others;
    expect_refused(&position, other, 1, 8, false, OTHER_WEIGHTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_goes_on_with_the_same_samples),
        cmocka_unit_test(drawn_and_repeated_orders_go_on),
        cmocka_unit_test(positions_of_other_draws_are_refused),
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(missing_and_altered_bytes_are_noticed),
        cmocka_unit_test(a_position_survives_the_order_option_of_a_sequential_loader),
        cmocka_unit_test(a_restore_does_not_mind_an_order_of_the_callers_own),
        cmocka_unit_test(the_bytes_of_a_position_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
