/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards, tails, steps, options and the caller's own orders, against properties that any order must
 * have.
 */
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static mr_sampler *make(const mr_sampler_options *options)
{
    mr_sampler *sampler;
    mr_error error;
    assert_ok(mr_sampler_create(options, &sampler, &error), &error);
    return sampler;
}

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 64, 65, 100};
static const uint32_t worlds[] = {1, 2, 3, 5, 8, 101};

/* Call check for every order, size and world size with that tail. */
static void over_all(mr_tail tail, void (*check)(mr_sampler_options options))
{
    for (int kind = 0; kind < 3; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t w = 0; w < sizeof worlds / sizeof *worlds; w++) {
                mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
                options.no_shuffle = kind == 0;
                options.order = kind == 2 ? MR_ORDER_KEYED : MR_ORDER_TORCH;
                options.n_samples = sizes[s];
                options.world_size = worlds[w];
                options.seed = 5;
                options.epoch = 3;
                options.tail = tail;
                check(options);
            }
}

/*
 * How often each index comes over all ranks; the caller frees the counts. Every shard must have
 * this length.
 */
static unsigned *count_all(mr_sampler_options options, int64_t shortest, int64_t longest)
{
    unsigned *counts = calloc((size_t)options.n_samples + 1, sizeof *counts);
    assert_non_null(counts);
    for (options.rank = 0; options.rank < options.world_size; options.rank++) {
        mr_sampler *sampler = make(&options);
        int64_t length = mr_sampler_length(sampler);
        assert_in_range(length, shortest, longest);
        for (int64_t p = 0; p < length; p++) {
            int64_t index = mr_sampler_at(sampler, p);
            assert_in_range(index, 0, options.n_samples - 1);
            counts[index]++;
        }
        assert_int_equal(mr_sampler_at(sampler, length), MR_NO_INDEX);
        assert_int_equal(mr_sampler_at(sampler, -1), MR_NO_INDEX);
        mr_sampler_destroy(sampler);
    }
    return counts;
}

static void check_exact(mr_sampler_options options)
{
    int64_t shortest = options.n_samples / options.world_size;
    int64_t longest = (options.n_samples + options.world_size - 1) / options.world_size;
    unsigned *counts = count_all(options, shortest, longest);
    for (int64_t i = 0; i < options.n_samples; i++)
        assert_int_equal(counts[i], 1);
    free(counts);
}

static void exact_gives_each_index_once_over_all_ranks(void **state)
{
    (void)state;
    over_all(MR_TAIL_EXACT, check_exact);
}

static void check_pad(mr_sampler_options options)
{
    int64_t length = (options.n_samples + options.world_size - 1) / options.world_size;
    unsigned *counts = count_all(options, length, length);
    unsigned fewest =
        options.n_samples ? (unsigned)(length * options.world_size / options.n_samples) : 0;
    for (int64_t i = 0; i < options.n_samples; i++)
        assert_in_range(counts[i], fewest, fewest + 1);
    free(counts);
}

static void pad_repeats_from_the_start_and_wraps(void **state)
{
    (void)state;
    over_all(MR_TAIL_PAD, check_pad);
}

static void check_drop(mr_sampler_options options)
{
    int64_t length = options.n_samples / options.world_size, n_left_out = 0;
    unsigned *counts = count_all(options, length, length);
    for (int64_t i = 0; i < options.n_samples; i++) {
        assert_in_range(counts[i], 0, 1);
        n_left_out += counts[i] == 0;
    }
    assert_int_equal(n_left_out, options.n_samples % options.world_size);
    free(counts);
}

static void drop_leaves_out_fewer_than_world_size(void **state)
{
    (void)state;
    over_all(MR_TAIL_DROP, check_drop);
}

/* The ranks together have the order of one rank, position by position. */
static void check_interleaved(mr_sampler_options options)
{
    mr_sampler_options whole = options;
    whole.world_size = 1;
    mr_sampler *all = make(&whole);
    for (options.rank = 0; options.rank < options.world_size; options.rank++) {
        mr_sampler *sampler = make(&options);
        for (int64_t p = 0; p < mr_sampler_length(sampler); p++)
            assert_int_equal(mr_sampler_at(sampler, p),
                             mr_sampler_at(all, options.rank + p * options.world_size));
        mr_sampler_destroy(sampler);
    }
    mr_sampler_destroy(all);
}

static void ranks_interleave_one_order(void **state)
{
    (void)state;
    over_all(MR_TAIL_EXACT, check_interleaved);
    over_all(MR_TAIL_DROP, check_interleaved);
}

/*
 * The oracle cuts the padded order of one rank: global batches of world_size slices, and of the
 * last, smaller one numpy.array_split's parts.
 */
static void check_sliced(mr_sampler_options options)
{
    mr_sampler_options whole = options;
    whole.world_size = 1;
    mr_sampler *all = make(&whole);
    int64_t n = options.n_samples, world = options.world_size, slice = 3;
    int64_t total = options.tail == MR_TAIL_PAD    ? (n + world - 1) / world * world
                    : options.tail == MR_TAIL_DROP ? n / world * world
                                                   : n;
    mr_sampler **ranks = calloc((size_t)world, sizeof *ranks);
    int64_t *taken = calloc((size_t)world, sizeof *taken);
    assert_true(ranks && taken);
    options.rank_slices = (uint32_t)slice;
    for (options.rank = 0; options.rank < world; options.rank++)
        ranks[options.rank] = make(&options);
    for (int64_t at = 0; at < total;) {
        int64_t left = total - at < world * slice ? total - at : world * slice;
        for (int64_t rank = 0; rank < world; rank++)
            for (int64_t i = 0; i < left / world + (rank < left % world); i++)
                assert_int_equal(mr_sampler_at(ranks[rank], taken[rank]++),
                                 mr_sampler_at(all, at++ % n));
    }
    for (int64_t rank = 0; rank < world; rank++) {
        assert_int_equal(mr_sampler_length(ranks[rank]), taken[rank]);
        mr_sampler_destroy(ranks[rank]);
    }
    free(ranks);
    free(taken);
    mr_sampler_destroy(all);
}

static void ranks_take_slices_of_global_batches(void **state)
{
    (void)state;
    over_all(MR_TAIL_PAD, check_sliced);
    over_all(MR_TAIL_DROP, check_sliced);
    over_all(MR_TAIL_EXACT, check_sliced);
}

static void check_steps(mr_sampler_options options)
{
    for (uint32_t batch = 1; batch <= 9; batch += 4) {
        uint64_t steps = 0, n_ranks_with_most = 0;
        for (options.rank = 0; options.rank < options.world_size; options.rank++) {
            mr_sampler *sampler = make(&options);
            uint64_t own = ((uint64_t)mr_sampler_length(sampler) + batch - 1) / batch;
            uint64_t said = mr_sampler_steps(sampler, batch, false);
            if (options.rank == 0)
                steps = said;
            assert_int_equal(said, steps); /* collectives stay in step */
            assert_true(own <= steps);
            n_ranks_with_most += own == steps;
            mr_sampler_destroy(sampler);
        }
        assert_true(n_ranks_with_most > 0); /* and no step is empty on every rank */
    }
}

static void all_ranks_take_the_same_number_of_steps(void **state)
{
    (void)state;
    over_all(MR_TAIL_EXACT, check_steps);
    over_all(MR_TAIL_PAD, check_steps);
    over_all(MR_TAIL_DROP, check_steps);
}

static void a_dropped_last_batch_is_no_step(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = 65;
    mr_sampler *sampler = make(&options);
    assert_int_equal(mr_sampler_steps(sampler, 64, true), 1);
    assert_int_equal(mr_sampler_steps(sampler, 64, false), 2);
    assert_int_equal(mr_sampler_steps(sampler, 65, true), 1);
    assert_int_equal(mr_sampler_steps(sampler, 66, true), 0);
    mr_sampler_destroy(sampler);
}

static void assert_same_order(const mr_sampler *a, const mr_sampler *b)
{
    assert_int_equal(mr_sampler_length(a), mr_sampler_length(b));
    for (int64_t p = 0; p < mr_sampler_length(a); p++)
        assert_int_equal(mr_sampler_at(a, p), mr_sampler_at(b, p));
}

static void set_epoch_equals_a_fresh_sampler(void **state)
{
    (void)state;
    static const uint64_t epochs[] = {5, 6, 9, 9, 0, UINT64_MAX};
    for (int order = MR_ORDER_TORCH; order <= MR_ORDER_KEYED; order++) {
        mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
        options.n_samples = 1000;
        options.world_size = 3;
        options.rank = 1;
        options.order = (mr_order)order;
        mr_sampler *moved = make(&options);
        for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
            options.epoch = epochs[i];
            mr_sampler *fresh = make(&options);
            assert_int_equal(mr_sampler_set_epoch(moved, epochs[i], NULL), MR_OK);
            assert_same_order(moved, fresh);
            mr_sampler_destroy(fresh);
        }
        mr_sampler_destroy(moved);
    }
}

static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    for (int order = MR_ORDER_TORCH; order <= MR_ORDER_KEYED; order++) {
        mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
        options.n_samples = 1000;
        options.order = (mr_order)order;
        mr_sampler *zero = make(&options);
        for (uint64_t i = 1; i < 5; i++) {
            options.epoch = i % 2 ? i : 0;
            options.seed = i % 2 ? 0 : i;
            mr_sampler *other = make(&options);
            int n_equal = 0;
            for (int64_t p = 0; p < 1000; p++)
                n_equal += mr_sampler_at(zero, p) == mr_sampler_at(other, p);
            assert_in_range(n_equal, 0, 8); /* 1 is expected of unrelated permutations */
            mr_sampler_destroy(other);
        }
        mr_sampler_destroy(zero);
    }
}

static void expect_refused(const mr_sampler_options *options, const char *text)
{
    mr_sampler *sampler = (mr_sampler *)&sampler;
    mr_error error;
    assert_int_equal(mr_sampler_create(options, &sampler, &error), MR_ERR_INVALID);
    assert_null(sampler);
    assert_string_equal(error.text, text);
    assert_int_equal(mr_sampler_create(options, &sampler, NULL), MR_ERR_INVALID);
}

static void wrong_options_are_refused_in_one_line(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = 10;
    options.rank = 4;
    options.world_size = 4;
    expect_refused(&options, "rank 4 is not below world_size 4");
    options.world_size = 0;
    expect_refused(&options, "rank 4 is not below world_size 1");
    options.rank = 0;
    options.n_samples = -1;
    expect_refused(&options, "n_samples -1 is not between 0 and 2^40");
    options.n_samples = (INT64_C(1) << 40) + 1;
    expect_refused(&options, "n_samples 1099511627777 is not between 0 and 2^40");
    options.n_samples = 10;
    options.tail = (mr_tail)3;
    expect_refused(&options, "tail 3 is not an mr_tail");
    options.tail = MR_TAIL_PAD;
    options.order = (mr_order)2;
    expect_refused(&options, "order 2 is not an mr_order");
    options.order = MR_ORDER_TORCH;
    options.weights = "w.npy";
    options.rank_slices = 1;
    expect_refused(&options, "rank_slices and weights exclude each other");
    options.struct_size = 0;
    expect_refused(
        &options,
        "struct_size of the mr_sampler_options is 0: initialise it with MR_SAMPLER_OPTIONS_INIT");
}

static void world_size_0_means_1(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = 10;
    mr_sampler *sampler = make(&options);
    assert_int_equal(mr_sampler_length(sampler), 10);
    assert_int_equal(mr_sampler_resolved(sampler)->world_size, 1);
    mr_sampler_destroy(sampler);
}

static void an_order_too_large_for_memory_is_an_error(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = INT64_C(1) << 40;
    mr_sampler *sampler;
    mr_error error;
    assert_int_equal(mr_sampler_create(&options, &sampler, &error), MR_ERR_NO_MEMORY);
    assert_string_equal(
        error.text, "cannot allocate 8796093022208 bytes for an order of 1099511627776 samples");
}

static void the_largest_keyed_sampler_gives_each_rank_its_share(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = INT64_C(1) << 40;
    options.order = MR_ORDER_KEYED;
    options.world_size = UINT32_MAX;
    options.rank = UINT32_MAX - 1;
    mr_sampler *sampler = make(&options);
    assert_int_equal(mr_sampler_length(sampler), 257); /* ceil(2^40 / (2^32 - 1)) */
    for (int64_t p = 0; p < 257; p++)
        assert_in_range(mr_sampler_at(sampler, p), 0, options.n_samples - 1);
    mr_sampler_destroy(sampler);
}

static void an_order_of_the_callers_own_is_taken_as_it_is(void **state)
{
    (void)state;
    static const int64_t mine[] = {9, 0, 0, 3, 9};
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = 10;
    options.world_size = 2;
    mr_sampler *sampler = make(&options), *fresh = make(&options);
    assert_int_equal(mr_sampler_set_order(sampler, 4, mine, 5, NULL), MR_OK);
    assert_true(mr_sampler_has_order(sampler));
    assert_int_equal(mr_sampler_resolved(sampler)->epoch, 4);
    assert_int_equal(mr_sampler_length(sampler), 5);
    for (int64_t p = 0; p < 5; p++) {
        assert_int_equal(mr_sampler_at(sampler, p), mine[p]);
        assert_int_equal(mr_sampler_occurrence(sampler, p), p == 2 || p == 4);
    }
    assert_int_equal(mr_sampler_steps(sampler, 2, false), 3);
    assert_int_equal(mr_sampler_own_steps(sampler, 2, true), 2);
    assert_int_equal(mr_sampler_set_order(sampler, 5, NULL, 0, NULL), MR_OK);
    assert_int_equal(mr_sampler_length(sampler), 0);
    assert_int_equal(mr_sampler_steps(sampler, 2, false), 0);

    /* and it ends with its epoch */
    assert_int_equal(mr_sampler_set_epoch(sampler, 0, NULL), MR_OK);
    assert_false(mr_sampler_has_order(sampler));
    assert_same_order(sampler, fresh);
    mr_sampler_destroy(sampler);
    mr_sampler_destroy(fresh);
}

static void a_wrong_index_in_an_order_is_named_and_changes_nothing(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = 10;
    mr_sampler *sampler = make(&options), *fresh = make(&options);
    mr_error error;
    const int64_t high[] = {1, 10}, low[] = {1, 2, -1};
    assert_int_equal(mr_sampler_set_order(sampler, 4, high, 2, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "index 10 at position 1 of the order is not in 0 .. 9");
    assert_int_equal(mr_sampler_set_order(sampler, 4, low, 3, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "index -1 at position 2 of the order is not in 0 .. 9");
    assert_int_equal(mr_sampler_set_order(sampler, 4, low, -1, &error), MR_ERR_INVALID);
    assert_int_equal(mr_sampler_set_order(sampler, 4, NULL, 1, &error), MR_ERR_INVALID);
    assert_int_equal(mr_sampler_resolved(sampler)->epoch, 0);
    assert_same_order(sampler, fresh);
    mr_sampler_destroy(sampler);
    mr_sampler_destroy(fresh);
}

static void a_null_argument_is_an_error(void **state)
{
    (void)state;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    mr_error error;
    assert_int_equal(mr_sampler_create(&options, NULL, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "sampler_out is NULL");
    assert_int_equal(mr_sampler_set_epoch(NULL, 1, &error), MR_ERR_INVALID);
    assert_int_equal(mr_sampler_length(NULL), 0);
    assert_int_equal(mr_sampler_at(NULL, 0), MR_NO_INDEX);
    mr_sampler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_gives_each_index_once_over_all_ranks),
        cmocka_unit_test(pad_repeats_from_the_start_and_wraps),
        cmocka_unit_test(drop_leaves_out_fewer_than_world_size),
        cmocka_unit_test(ranks_interleave_one_order),
        cmocka_unit_test(ranks_take_slices_of_global_batches),
        cmocka_unit_test(all_ranks_take_the_same_number_of_steps),
        cmocka_unit_test(a_dropped_last_batch_is_no_step),
        cmocka_unit_test(set_epoch_equals_a_fresh_sampler),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(wrong_options_are_refused_in_one_line),
        cmocka_unit_test(a_null_argument_is_an_error),
        cmocka_unit_test(world_size_0_means_1),
        cmocka_unit_test(an_order_too_large_for_memory_is_an_error),
        cmocka_unit_test(the_largest_keyed_sampler_gives_each_rank_its_share),
        cmocka_unit_test(an_order_of_the_callers_own_is_taken_as_it_is),
        cmocka_unit_test(a_wrong_index_in_an_order_is_named_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
