/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions in mixtures: other numbers of ranks, other weights, more sources, and bytes that were
 * altered.
 */
#include "sampler/position.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

enum { GLOBAL = 12, EPOCH = 100 * GLOBAL, MOST = 40 * EPOCH };

struct saved {
    size_t len;
    union {
        struct mr_position position;
        uint8_t bytes[4096];
    };
};

static const struct mr_mixture_source three[4] = {{50, 0.5}, {7, 0.1}, {230, 0.4}, {31, 0.5}};

static struct mr_mixture_options plain(void)
{
    return (struct mr_mixture_options){
        .sources = three, .n_sources = 3, .seed = 5, .n_samples = EPOCH};
}

static mr_sampler *make(const struct mr_mixture_options *options, uint32_t world, uint32_t rank)
{
    mr_sampler *sampler;
    mr_error error;
    struct mr_sampler_parts parts = {0};
    mr_sampler_options o = MR_SAMPLER_OPTIONS_INIT;
    for (uint32_t k = 0; k < options->n_sources; k++)
        o.n_samples += (int64_t)options->sources[k].n;
    o.seed = options->seed;
    o.world_size = world;
    o.rank = rank;
    o.rank_slices = GLOBAL / world;
    o.order = options->order;
    assert_ok(mr_mixture_create(options, &parts.mixture, &error), &error);
    assert_ok(mr_sampler_create_with(&o, &parts, &sampler, &error), &error);
    mr_mixture_unref(parts.mixture);
    return sampler;
}

static uint32_t batch_of(const mr_sampler *sampler)
{
    return GLOBAL / mr_sampler_resolved(sampler)->world_size;
}

static void save(const mr_sampler *sampler, uint64_t batches, struct saved *out)
{
    out->len = mr_position_size(mr_mixture_n_sources(mr_sampler_get_parts(sampler)->mixture));
    mr_position_save(sampler, batch_of(sampler), false, batches, &out->position);
    assert_int_equal(out->position.len, out->len);
}

static mr_status restore(const struct saved *saved, mr_sampler *sampler, uint64_t *epoch_out,
                         uint64_t *batches_out, mr_error *error)
{
    return mr_position_restore(saved->bytes, saved->len, sampler, batch_of(sampler), false,
                               epoch_out, batches_out, error);
}

/* Write indices and passes of an undisturbed run. */
static void run_whole(const struct mr_mixture_options *options, int64_t *indices, uint32_t *passes)
{
    mr_sampler *sampler = make(options, 1, 0);
    for (int64_t p = 0; p < MOST; p++) {
        assert_int_equal(mr_sampler_set_epoch(sampler, (uint64_t)p / EPOCH, NULL), MR_OK);
        indices[p] = mr_sampler_at(sampler, p % EPOCH);
        passes[p] = mr_sampler_occurrence(sampler, p % EPOCH);
    }
    mr_sampler_destroy(sampler);
}

/*
 * A run of several ranks from a saved position for some steps, compared with the whole run. The
 * position of the last rank is saved.
 */
static uint64_t run_ranks(const struct mr_mixture_options *options, uint32_t world, uint64_t at,
                          uint64_t steps, const int64_t *indices, const uint32_t *passes,
                          struct saved *saved)
{
    const struct saved before = *saved;
    for (uint32_t rank = 0; rank < world; rank++) {
        mr_sampler *sampler = make(options, world, rank);
        uint64_t epoch = 0, batches = 0, p = at;
        mr_error error;
        if (at > 0)
            assert_ok(restore(&before, sampler, &epoch, &batches, &error), &error);
        uint32_t size = batch_of(sampler);
        for (uint64_t step = 0; step < steps; step++, batches++, p += GLOBAL) {
            if (batches == EPOCH / GLOBAL) {
                epoch++;
                batches = 0;
            }
            assert_int_equal(epoch * EPOCH + batches * GLOBAL, p);
            assert_int_equal(mr_sampler_set_epoch(sampler, epoch, NULL), MR_OK);
            for (uint32_t i = 0; i < size; i++) {
                int64_t own = (int64_t)(batches * size + i);
                assert_int_equal(mr_sampler_at(sampler, own), indices[p + rank * size + i]);
                assert_int_equal(mr_sampler_occurrence(sampler, own), passes[p + rank * size + i]);
            }
        }
        assert_int_equal(mr_sampler_set_epoch(sampler, epoch, NULL), MR_OK);
        save(sampler, batches, saved);
        mr_sampler_destroy(sampler);
    }
    return at + steps * GLOBAL;
}

static void a_hundred_stops_with_other_ranks_change_nothing(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 3, 2};
    int64_t *indices = malloc(MOST * sizeof *indices);
    uint32_t *passes = malloc(MOST * sizeof *passes);
    assert_true(indices && passes);
    for (int form = 0; form < 3; form++) {
        struct mr_mixture_options options = plain();
        struct saved saved = {0};
        uint64_t at = 0;
        options.order = form == 1 ? MR_ORDER_KEYED : MR_ORDER_TORCH;
        options.mix_order = form == 2 ? MR_MIX_ORDER_MEGATRON : MR_MIX_ORDER_EVEN;
        run_whole(&options, indices, passes);
        srand(33);
        for (int stop = 0; stop < 100; stop++) {
            uint64_t steps = 1 + (uint64_t)rand() % 70;
            at = at + steps * GLOBAL > MOST ? 0 : at;
            at = run_ranks(&options, worlds[stop % 3], at, steps, indices, passes, &saved);
        }
        /* each sample once per pass of its source: its passes ascend */
        uint32_t next[50 + 7 + 230] = {0};
        for (int p = 0; p < MOST; p++)
            assert_int_equal(passes[p], next[indices[p]]++);
    }
    free(indices);
    free(passes);
}

static uint32_t source_of(const struct mr_mixture_options *options, int64_t index)
{
    uint32_t k = 0;
    for (; index >= (int64_t)options->sources[k].n; k++)
        index -= (int64_t)options->sources[k].n;
    return k;
}

/*
 * After a restore with other weights and one source more: counts go on, and from there on each
 * source is within one sample of its new weight. A second stop changes nothing.
 */
static void weights_change_and_sources_are_added_at_a_checkpoint(void **state)
{
    (void)state;
    enum { BEFORE = 37 };
    struct mr_mixture_source changed[4];
    struct mr_mixture_options old = plain(), new = plain();
    uint32_t uses[50 + 7 + 230 + 31] = {0};
    struct saved saved = {0};
    uint64_t epoch, batches, drawn[4] = {0};
    mr_error error;
    memcpy(changed, three, sizeof changed);
    changed[0].weight = 0.05;
    changed[1].weight = 0.2;
    new.sources = changed;
    new.n_sources = 4;
    mr_sampler *first = make(&old, 1, 0), *second = make(&new, 1, 0), *third = make(&new, 1, 0);
    for (int64_t p = 0; p < BEFORE * GLOBAL; p++)
        uses[mr_sampler_at(first, p)]++;
    save(first, BEFORE, &saved);
    assert_ok(restore(&saved, second, &epoch, &batches, &error), &error);
    assert_int_equal(epoch, 0);
    assert_int_equal(batches, BEFORE);
    double sum = 0;
    for (uint32_t k = 0; k < 4; k++)
        sum += changed[k].weight;
    for (int64_t p = BEFORE * GLOBAL; p < EPOCH; p++) {
        int64_t index = mr_sampler_at(second, p);
        assert_int_equal(mr_sampler_occurrence(second, p), uses[index]++);
        drawn[source_of(&new, index)]++;
        for (uint32_t k = 0; k < 4; k++)
            assert_true(fabs(changed[k].weight / sum * (double)(p + 1 - BEFORE * GLOBAL) -
                             (double)drawn[k]) < 1);
        if ((p + 1) % GLOBAL != 0)
            continue;
        save(second, (uint64_t)(p + 1) / GLOBAL, &saved);
        mr_sampler_destroy(third);
        third = make(&new, 1, 0);
        assert_ok(restore(&saved, third, &epoch, &batches, &error), &error);
        assert_int_equal(batches, (p + 1) / GLOBAL);
        for (int64_t i = 0; i < 5; i++)
            if (p + 1 < EPOCH)
                assert_int_equal(mr_sampler_at(third, p + 1 + i), mr_sampler_at(second, p + 1 + i));
    }
    /* each sample of a source was used as often as any other, or once more */
    for (uint32_t i = 0; i < 50 + 7 + 230 + 31; i++) {
        uint32_t k = source_of(&new, i), base = k == 0 ? 0 : k == 1 ? 50 : k == 2 ? 57 : 287;
        for (uint32_t j = base; j < i; j++)
            assert_in_range(uses[i] + 1 - uses[j], 0, 2);
    }
    /* the next epoch goes on where this one ended */
    assert_int_equal(mr_sampler_set_epoch(second, 1, NULL), MR_OK);
    assert_int_equal(mr_sampler_set_epoch(third, 1, NULL), MR_OK);
    for (int64_t p = 0; p < EPOCH; p++) {
        assert_int_equal(mr_sampler_at(second, p), mr_sampler_at(third, p));
        assert_int_equal(mr_sampler_occurrence(second, p), uses[mr_sampler_at(second, p)]++);
    }
    mr_sampler_destroy(first);
    mr_sampler_destroy(second);
    mr_sampler_destroy(third);
}

/* Another kind of order, too, begins where it is changed, with the counts that there are. */
static void the_kind_of_order_may_change(void **state)
{
    (void)state;
    struct mr_mixture_options old = plain(), new = plain();
    struct saved saved = {0};
    uint64_t epoch, batches;
    mr_error error;
    new.mix_order = MR_MIX_ORDER_MEGATRON;
    mr_sampler *first = make(&old, 1, 0), *second = make(&new, 1, 0), *fresh = make(&new, 1, 0);
    save(first, 11, &saved);
    assert_ok(restore(&saved, second, &epoch, &batches, &error), &error);
    for (int64_t p = 0; p < 500; p++)
        assert_int_equal(source_of(&new, mr_sampler_at(second, 11 * GLOBAL + p)),
                         source_of(&new, mr_sampler_at(fresh, p)));
    mr_sampler_destroy(first);
    mr_sampler_destroy(second);
    mr_sampler_destroy(fresh);
}

static void expect_refused(const struct saved *saved, const struct mr_mixture_options *options,
                           const char *words)
{
    mr_sampler *sampler = make(options, 1, 0), *fresh = make(options, 1, 0);
    uint64_t epoch, batches;
    mr_error error;
    assert_error(restore(saved, sampler, &epoch, &batches, &error), MR_ERR_INVALID, &error, words);
    for (int64_t p = 0; p < 100; p++) /* nothing has changed */
        assert_int_equal(mr_sampler_at(sampler, p), mr_sampler_at(fresh, p));
    mr_sampler_destroy(sampler);
    mr_sampler_destroy(fresh);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    struct mr_mixture_options options = plain();
    struct mr_mixture_source other[3];
    struct saved saved = {0};
    memcpy(other, three, sizeof other);
    mr_sampler *sampler = make(&options, 1, 0);
    save(sampler, 4, &saved);
    mr_sampler_destroy(sampler);
    options.n_sources = 2;
    expect_refused(&saved, &options, "saved with 3 sources, this mixture has 2");
    options.n_sources = 3;
    options.sources = other;
    other[1].n = 8;
    expect_refused(&saved, &options, "7 samples in source 1, this mixture has 8");
    options.sources = three;
    options.seed = 6;
    expect_refused(&saved, &options, "seed 5");
    options.seed = 5;
    saved.position.sources[2].count = UINT64_MAX;
    expect_refused(&saved, &options, "was altered");
    /* also with the right checksum */
    size_t from = offsetof(struct mr_position, flags);
    saved.position.check = (uint32_t)crc32(0, saved.bytes + from, (uInt)(saved.len - from));
    expect_refused(&saved, &options, "draws of source 2");
    saved.position.sources[2].count = 0;
    saved.position.used[0] = 600;
    saved.position.check = (uint32_t)crc32(0, saved.bytes + from, (uInt)(saved.len - from));
    expect_refused(&saved, &options, "in an epoch of 29 in all");
}

static void plain_positions_and_those_of_mixtures_differ(void **state)
{
    (void)state;
    struct mr_mixture_options options = plain();
    mr_sampler_options o = MR_SAMPLER_OPTIONS_INIT;
    struct saved mixed = {0}, other = {0};
    mr_sampler *mixture = make(&options, 1, 0), *sampler;
    uint64_t epoch, batches;
    mr_error error;
    o.n_samples = 50;
    o.seed = 5;
    assert_int_equal(mr_sampler_create(&o, &sampler, NULL), MR_OK);
    save(mixture, 2, &mixed);
    mr_position_save(sampler, GLOBAL, false, 2, &other.position);
    other.len = sizeof other.position;
    assert_int_equal(other.position.version, 1);
    assert_error(restore(&mixed, sampler, &epoch, &batches, &error), MR_ERR_INVALID, &error,
                 "with a mixture, this loader is without one");
    assert_error(restore(&other, mixture, &epoch, &batches, &error), MR_ERR_INVALID, &error,
                 "without a mixture");
    mr_sampler_destroy(mixture);
    mr_sampler_destroy(sampler);
}

/* Any altered or missing byte is found. */
static void altered_bytes_are_refused(void **state)
{
    (void)state;
    struct mr_mixture_options options = plain();
    mr_sampler *sampler = make(&options, 1, 0);
    struct saved good = {0};
    uint64_t epoch, batches;
    mr_error error;
    save(sampler, 2, &good);
    for (size_t i = 0; i < good.len; i++) {
        struct saved bad = good;
        bad.bytes[i] ^= (uint8_t)(1 + i % 255);
        assert_int_equal(restore(&bad, sampler, &epoch, &batches, &error), MR_ERR_INVALID);
        bad = good;
        bad.len = i;
        assert_int_equal(restore(&bad, sampler, &epoch, &batches, &error), MR_ERR_INVALID);
    }
    assert_ok(restore(&good, sampler, &epoch, &batches, &error), &error);
    mr_sampler_destroy(sampler);
}

/* An epoch whose samples do not divide: its end is saved, and the next begins after it. */
static void the_end_of_an_epoch_is_a_position(void **state)
{
    (void)state;
    struct mr_mixture_options options = plain();
    options.n_samples = 5 * GLOBAL + 7;
    mr_sampler *sampler = make(&options, 3, 1), *other = make(&options, 2, 1);
    struct saved saved = {0};
    uint64_t epoch, batches;
    mr_error error;
    assert_int_equal(mr_sampler_set_epoch(sampler, 3, NULL), MR_OK);
    save(sampler, 6, &saved);
    assert_ok(restore(&saved, other, &epoch, &batches, &error), &error);
    assert_int_equal(epoch, 3);
    assert_int_equal(batches, 6);
    mr_sampler *plain_run = make(&options, 2, 1);
    for (uint64_t e = 4; e < 8; e++) {
        assert_int_equal(mr_sampler_set_epoch(other, e, NULL), MR_OK);
        assert_int_equal(mr_sampler_set_epoch(plain_run, e, NULL), MR_OK);
        for (int64_t p = 0; p < mr_sampler_length(other); p++)
            assert_int_equal(mr_sampler_at(other, p), mr_sampler_at(plain_run, p));
    }
    mr_sampler_destroy(sampler);
    mr_sampler_destroy(other);
    mr_sampler_destroy(plain_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_stops_with_other_ranks_change_nothing),
        cmocka_unit_test(weights_change_and_sources_are_added_at_a_checkpoint),
        cmocka_unit_test(the_kind_of_order_may_change),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(plain_positions_and_those_of_mixtures_differ),
        cmocka_unit_test(altered_bytes_are_refused),
        cmocka_unit_test(the_end_of_an_epoch_is_a_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
