/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders and batches by length. The oracles are transformers and fairseq themselves
 * (tests/data/make_lengths.py); what ranks get follows from the batches of one rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "sampler/position.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

enum { MOST = 400 };

static int64_t number_of(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static mr_sampler *make_sampler(const mr_sampler_options *o, struct mr_buckets_options buckets,
                                const uint32_t *lengths)
{
    struct mr_sampler_parts parts = {0};
    mr_sampler *sampler;
    mr_error error;
    buckets.n = (uint64_t)o->n_samples;
    assert_ok(mr_buckets_create(&buckets, &parts.buckets, &error), &error);
    memcpy(parts.buckets->lengths, lengths, buckets.n * sizeof *lengths);
    assert_ok(mr_buckets_check(parts.buckets, &error), &error);
    assert_ok(mr_sampler_create_with(o, &parts, &sampler, &error), &error);
    mr_buckets_unref(parts.buckets);
    return sampler;
}

static mr_sampler_options read_case(const json_t *row, uint32_t lengths_out[MOST])
{
    mr_sampler_options o = MR_SAMPLER_OPTIONS_INIT;
    const json_t *lengths = json_object_get(row, "lengths");
    o.n_samples = (int64_t)json_array_size(lengths);
    o.seed = (uint64_t)number_of(row, "seed");
    assert_in_range(o.n_samples, 1, MOST);
    for (size_t i = 0; i < json_array_size(lengths); i++)
        lengths_out[i] = (uint32_t)json_integer_value(json_array_get(lengths, i));
    return o;
}

static void check_order(const mr_sampler_options *o, uint32_t group, const uint32_t *lengths,
                        const json_t *want)
{
    mr_sampler *sampler =
        make_sampler(o, (struct mr_buckets_options){.group = group, .multiple = 1}, lengths);
    assert_int_equal(mr_sampler_length(sampler), json_array_size(want));
    for (size_t p = 0; p < json_array_size(want); p++)
        assert_int_equal(mr_sampler_at(sampler, (int64_t)p),
                         json_integer_value(json_array_get(want, p)));
    mr_sampler_destroy(sampler);
}

static void orders_are_those_of_transformers(void **state)
{
    const json_t *cases = json_object_get(*state, "grouped");
    assert_int_equal(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *shards = json_object_get(row, "shards"), *of;
        uint32_t lengths[MOST], group = (uint32_t)number_of(row, "batch_size");
        mr_sampler_options o = read_case(row, lengths);
        check_order(&o, group, lengths, json_object_get(row, "order"));
        const char *world;
        json_object_foreach((json_t *)shards, world, of)
        {
            o.tail = json_is_true(json_object_get(row, "drop")) ? MR_TAIL_DROP : MR_TAIL_PAD;
            o.world_size = (uint32_t)json_array_size(of);
            o.seed = (uint64_t)number_of(row, "seed") - 3;
            o.epoch = 3;
            for (o.rank = 0; o.rank < o.world_size; o.rank++)
                check_order(&o, group, lengths, json_array_get(of, o.rank));
        }
    }
}

static void batches_are_those_of_fairseq(void **state)
{
    const json_t *cases = json_object_get(*state, "cut");
    assert_int_equal(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *sizes = json_object_get(row, "sizes");
        uint32_t lengths[MOST], batch_size = (uint32_t)number_of(row, "batch_size");
        const mr_sampler_options o = read_case(row, lengths);
        const struct mr_buckets_options buckets = {.batch_size = batch_size,
                                                   .multiple = (uint32_t)number_of(row, "multiple"),
                                                   .max_tokens =
                                                       (uint64_t)number_of(row, "max_tokens")};
        mr_sampler *sampler = make_sampler(&o, buckets, lengths), *plain;
        assert_ok(mr_sampler_create(&o, &plain, NULL), NULL);
        uint64_t n = mr_sampler_steps(sampler, batch_size, false), end = 0, first;
        assert_int_equal(n, json_array_size(sizes));
        for (uint64_t b = 0; b < n; b++) {
            assert_int_equal(mr_sampler_batch(sampler, b, batch_size, &first),
                             json_integer_value(json_array_get(sizes, b)));
            assert_int_equal(first, end);
            end += (uint64_t)json_integer_value(json_array_get(sizes, b));
        }
        assert_int_equal(end, o.n_samples);
        for (int64_t p = 0; p < o.n_samples; p++)
            assert_int_equal(mr_sampler_at(sampler, p), mr_sampler_at(plain, p));
        mr_sampler_destroy(sampler);
        mr_sampler_destroy(plain);
    }
}

enum { N = 100, SIZE = 6 };

static const struct mr_buckets_options cut = {
    .batch_size = SIZE, .multiple = 2, .max_tokens = 70, .group = 12};

static mr_sampler *make_cut(uint32_t world, uint32_t rank, mr_tail tail, uint64_t epoch)
{
    mr_sampler_options o = MR_SAMPLER_OPTIONS_INIT;
    uint32_t lengths[N];
    for (uint32_t i = 0; i < N; i++)
        lengths[i] = i * 37 % 29;
    o.n_samples = N;
    o.world_size = world;
    o.rank = rank;
    o.tail = tail;
    o.epoch = epoch;
    return make_sampler(&o, cut, lengths);
}

/* Batch b of a sampler is batch `of` of all; of none: it is empty. */
static void check_batch(const mr_sampler *sampler, uint64_t b, const mr_sampler *all, uint64_t of,
                        bool is_none)
{
    uint64_t first, from, n = mr_sampler_batch(sampler, b, SIZE, &first);
    uint64_t want = mr_sampler_batch(all, of, SIZE, &from);
    assert_int_equal(n, is_none ? 0 : want);
    for (uint64_t k = 0; k < n; k++)
        assert_int_equal(mr_sampler_at(sampler, (int64_t)(first + k)),
                         mr_sampler_at(all, (int64_t)(from + k)));
}

static void ranks_take_batches_by_turns(void **state)
{
    (void)state;
    static const mr_tail tails[] = {MR_TAIL_PAD, MR_TAIL_DROP, MR_TAIL_EXACT};
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        mr_sampler *all = make_cut(1, 0, MR_TAIL_PAD, epoch);
        uint64_t n_all = mr_sampler_steps(all, SIZE, false);
        for (uint32_t world = 1; world <= 40; world++)
            for (uint32_t rank = 0; rank < world; rank++)
                for (size_t t = 0; t < 3; t++) {
                    mr_sampler *sampler = make_cut(world, rank, tails[t], epoch);
                    uint64_t n =
                        tails[t] == MR_TAIL_DROP ? n_all / world : (n_all + world - 1) / world;
                    assert_int_equal(mr_sampler_steps(sampler, SIZE, false), n);
                    for (uint64_t b = 0; b < n; b++) {
                        uint64_t of = b * world + rank;
                        check_batch(sampler, b, all, of % n_all,
                                    of >= n_all && tails[t] == MR_TAIL_EXACT);
                    }
                    mr_sampler_destroy(sampler);
                }
        mr_sampler_destroy(all);
    }
}

/* After 6 steps of 2 ranks, 1, 3 and 4 ranks go on with batch 12. */
static void another_world_size_goes_on_with_the_next_batch(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 2, 3, 4};
    mr_sampler *two = make_cut(2, 1, MR_TAIL_PAD, 4), *all = make_cut(1, 0, MR_TAIL_PAD, 4);
    struct mr_position saved;
    mr_error error;
    uint64_t epoch, batches;
    mr_position_save(two, SIZE, false, 6, &saved);
    for (size_t i = 0; i < 4; i++) {
        mr_sampler *sampler = make_cut(worlds[i], worlds[i] - 1, MR_TAIL_PAD, 0);
        assert_ok(mr_position_restore(&saved, sizeof saved, sampler, SIZE, false, &epoch, &batches,
                                      &error),
                  &error);
        assert_int_equal(epoch, 4);
        assert_int_equal(batches, 12 / worlds[i]);
        assert_ok(mr_sampler_set_epoch(sampler, epoch, &error), &error);
        check_batch(sampler, batches, all, 12 + worlds[i] - 1, false);
        mr_sampler_destroy(sampler);
    }
    mr_sampler *five = make_cut(5, 0, MR_TAIL_PAD, 0);
    assert_int_equal(
        mr_position_restore(&saved, sizeof saved, five, SIZE, false, &epoch, &batches, &error),
        MR_ERR_INVALID);
    assert_words(error.text, "12 batches were used, which is not a multiple of world_size 5");
    mr_position_save(two, SIZE, false, mr_sampler_steps(two, SIZE, false), &saved);
    assert_ok(
        mr_position_restore(&saved, sizeof saved, five, SIZE, false, &epoch, &batches, &error),
        &error);
    assert_true(batches >= mr_sampler_steps(all, SIZE, false)); /* the end, in any epoch */
    mr_sampler_destroy(five);
    mr_sampler_destroy(two);
    mr_sampler_destroy(all);
}

static void other_lengths_or_options_are_another_order(void **state)
{
    (void)state;
    mr_sampler_options o = MR_SAMPLER_OPTIONS_INIT;
    uint32_t lengths[N] = {0};
    struct mr_position saved;
    mr_error error;
    uint64_t epoch, batches;
    o.n_samples = N;
    mr_sampler *first = make_sampler(&o, cut, lengths), *plain;
    assert_ok(mr_sampler_create(&o, &plain, &error), &error);
    mr_position_save(first, SIZE, false, 2, &saved);
    for (int k = 0; k < 6; k++) {
        struct mr_buckets_options other = cut;
        other.max_tokens -= k == 1;
        other.group += k == 2;
        other.multiple += k == 3;
        other.batch_size -= k == 4;
        lengths[7] = k == 5;
        mr_sampler *sampler = make_sampler(&o, other, lengths);
        mr_status status = mr_position_restore(&saved, sizeof saved, sampler, SIZE, false, &epoch,
                                               &batches, &error);
        assert_int_equal(status, k == 0 ? MR_OK : MR_ERR_INVALID);
        if (k > 0)
            assert_words(error.text, "saved with other lengths, or another batch_size");
        mr_sampler_destroy(sampler);
    }
    assert_int_equal(
        mr_position_restore(&saved, sizeof saved, plain, SIZE, false, &epoch, &batches, &error),
        MR_ERR_INVALID);
    assert_words(error.text, "saved with group_by_length or max_tokens, this loader is without");
    mr_sampler_destroy(first);
    mr_sampler_destroy(plain);
}

static void a_sample_above_max_tokens_is_named(void **state)
{
    (void)state;
    struct mr_buckets *buckets;
    mr_error error;
    struct mr_buckets_options options = cut;
    options.n = 10;
    assert_ok(mr_buckets_create(&options, &buckets, &error), &error);
    buckets->lengths[4] = 70;
    assert_ok(mr_buckets_check(buckets, &error), &error);
    buckets->lengths[9] = 71;
    assert_error(mr_buckets_check(buckets, &error), MR_ERR_INVALID, &error,
                 "sample 9 has length 71, which is above max_tokens 70");
    mr_buckets_unref(buckets);
    options.n = UINT64_C(1) << 32;
    assert_int_equal(mr_buckets_create(&options, &buckets, &error), MR_ERR_INVALID);
    assert_null(buckets);
}

static int load_cases(void **state)
{
    json_error_t where;
    *state = json_load_file(MR_TEST_DATA "/lengths.json", 0, &where);
    if (!*state)
        fprintf(stderr, "%s: %s\n", where.source, where.text);
    return *state ? 0 : -1;
}

static int free_cases(void **state)
{
    json_decref(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_those_of_transformers),
        cmocka_unit_test(batches_are_those_of_fairseq),
        cmocka_unit_test(ranks_take_batches_by_turns),
        cmocka_unit_test(another_world_size_goes_on_with_the_next_batch),
        cmocka_unit_test(other_lengths_or_options_are_another_order),
        cmocka_unit_test(a_sample_above_max_tokens_is_named),
    };
    return cmocka_run_group_tests(tests, load_cases, free_cases);
}
