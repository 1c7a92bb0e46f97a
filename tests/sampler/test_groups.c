/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders that are sorted into batches of one group. The oracle does for each sample what the
 * reference's GroupedBatchSampler does, with lists of lists.
 */
#include "sampler/position.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 700, N_IDS = 8 };

static uint64_t state = 20261128;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* An entry of the reference's dictionaries; `born` is its place in the order of insertion. */
struct entry {
    int64_t all[MOST], buffer[MOST];
    uint64_t n_all, n_buffer, born;
};

/* The batches, one after the other, of the samples of an order. Returns their number. */
static uint64_t sort_slowly(const int64_t *order, uint64_t n, const uint8_t *ids, uint32_t size,
                            int64_t *out)
{
    static struct entry entries[N_IDS];
    uint64_t n_batches = 0, clock = 0;
    memset(entries, 0, sizeof entries);
    for (uint64_t i = 0; i < n; i++) {
        struct entry *e = &entries[ids[order[i]]];
        if (e->n_all == 0)
            e->born = ++clock;
        e->all[e->n_all++] = e->buffer[e->n_buffer++] = order[i];
        if (e->n_buffer < size)
            continue;
        memcpy(out + n_batches++ * size, e->buffer, size * sizeof *out);
        e->n_buffer = 0; /* deleted, and made again by the assertion after it */
        e->born = ++clock;
    }
    while (n_batches < n / size) {
        struct entry *best = NULL;
        for (int g = 0; g < N_IDS; g++) {
            struct entry *e = &entries[g];
            if (e->n_buffer > 0 && (!best || e->n_buffer > best->n_buffer ||
                                    (e->n_buffer == best->n_buffer && e->born < best->born)))
                best = e;
        }
        for (uint64_t k = 0; best->n_buffer < size; k++)
            best->buffer[best->n_buffer++] = best->all[k % best->n_all];
        memcpy(out + n_batches++ * size, best->buffer, size * sizeof *out);
        best->n_buffer = 0;
    }
    return n_batches;
}

static mr_sampler *make_sampler(const mr_sampler_options *o, const uint8_t *ids, uint32_t size)
{
    mr_sampler *sampler;
    struct mr_sampler_parts parts = {0};
    mr_error error;
    if (ids)
        assert_ok(mr_groups_create(ids, (uint64_t)o->n_samples, size, &parts.groups, &error),
                  &error);
    assert_ok(mr_sampler_create_with(o, &parts, &sampler, &error), &error);
    mr_groups_unref(parts.groups);
    return sampler;
}

static void compare_epoch(mr_sampler *sorted, mr_sampler *plain, const uint8_t *ids, uint32_t size)
{
    int64_t order[MOST], want[MOST];
    uint64_t n = (uint64_t)mr_sampler_length(plain);
    for (uint64_t p = 0; p < n; p++)
        order[p] = mr_sampler_at(plain, (int64_t)p);
    uint64_t n_batches = sort_slowly(order, n, ids, size, want);
    assert_int_equal(n_batches, n / size);
    assert_int_equal(mr_sampler_length(sorted), n_batches * size);
    assert_int_equal(mr_sampler_steps(sorted, size, false), n_batches);
    assert_int_equal(mr_sampler_own_steps(sorted, size, true), n_batches);
    for (uint64_t p = 0; p < n_batches * size; p++) {
        assert_int_equal(mr_sampler_at(sorted, (int64_t)p), want[p]);
        assert_int_equal(ids[want[p]], ids[want[p / size * size]]);
    }
}

static mr_sampler_options random_options(double *weights)
{
    mr_sampler_options o = MR_SAMPLER_OPTIONS_INIT;
    uint32_t kind = draw(5);
    o.n_samples = 1 + draw(300);
    o.world_size = 1 + draw(3);
    o.seed = draw(1000);
    o.tail = draw(2) ? MR_TAIL_PAD : MR_TAIL_DROP;
    o.no_shuffle = kind == 0;
    o.order = kind == 1 ? MR_ORDER_KEYED : MR_ORDER_TORCH;
    if (kind == 2) {
        o.weight_values = weights;
        o.n_weight_values = (uint64_t)o.n_samples;
    } else if (kind == 3) {
        o.tail = MR_TAIL_PAD;
        o.repeat = 1 + draw(3);
    }
    return o;
}

static void batches_are_those_of_the_reference_over_every_order(void **unused)
{
    (void)unused;
    double weights[MOST];
    uint8_t ids[MOST];
    mr_error error;
    for (int round = 0; round < 2000; round++) {
        uint32_t size = 1 + draw(round % 3 ? 9 : 40), n_ids = 1 + draw(N_IDS);
        for (int i = 0; i < MOST; i++) {
            ids[i] = (uint8_t)(draw(3) ? draw(n_ids) : 0);
            weights[i] = 1 + draw(9);
        }
        mr_sampler_options o = random_options(weights);
        uint64_t steps = UINT64_MAX;
        for (o.rank = 0; o.rank < o.world_size; o.rank++) {
            mr_sampler *plain = make_sampler(&o, NULL, size), *next;
            mr_sampler *sorted = make_sampler(&o, ids, size);
            compare_epoch(sorted, plain, ids, size);
            assert_true(steps == UINT64_MAX || steps == mr_sampler_steps(sorted, size, false));
            steps = mr_sampler_steps(sorted, size, false);
            assert_int_equal(mr_sampler_set_epoch(plain, 5, &error), MR_OK);
            assert_int_equal(mr_sampler_create_like(sorted, 5, &next, &error), MR_OK);
            assert_int_equal(mr_sampler_set_epoch(sorted, 5, &error), MR_OK);
            compare_epoch(sorted, plain, ids, size);
            compare_epoch(next, plain, ids, size);
            mr_sampler_destroy(next);
            mr_sampler_destroy(sorted);
            mr_sampler_destroy(plain);
        }
    }
}

/* The pairs of index and occurrence decide the draws. */
static void a_sample_that_fills_up_a_batch_has_draws_of_its_own(void **unused)
{
    (void)unused;
    enum { N = 40, SIZE = 8 };
    uint8_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = i < 3 ? 1 : i < 20 ? 2 : 3; /* 3, 1 and 4 are left; 4 are filled up */
    const mr_sampler_options o = {.struct_size = sizeof o, .n_samples = N, .no_shuffle = true};
    mr_sampler *sampler = make_sampler(&o, ids, SIZE);
    unsigned n_again = 0;
    for (int64_t p = 0; p < mr_sampler_length(sampler); p++) {
        uint32_t occurrence = mr_sampler_occurrence(sampler, p);
        n_again += occurrence > 0;
        for (int64_t q = 0; q < p; q++)
            assert_false(mr_sampler_at(sampler, p) == mr_sampler_at(sampler, q) &&
                         occurrence == mr_sampler_occurrence(sampler, q));
    }
    assert_int_equal(mr_sampler_length(sampler), N);
    assert_int_equal(n_again, 4);
    mr_sampler_destroy(sampler);
}

static void an_order_of_the_caller_s_is_not_sorted(void **unused)
{
    (void)unused;
    static const int64_t order[] = {4, 0, 2, 1, 3};
    static const uint8_t ids[] = {0, 1, 0, 1, 0};
    const mr_sampler_options o = {.struct_size = sizeof o, .n_samples = 5};
    mr_sampler *sampler = make_sampler(&o, ids, 2), *plain = make_sampler(&o, NULL, 2);
    mr_error error;
    assert_ok(mr_sampler_set_order(sampler, 0, order, 5, &error), &error);
    assert_true(mr_sampler_has_order(sampler));
    assert_int_equal(mr_sampler_steps(sampler, 2, false), 3);
    assert_int_equal(mr_sampler_own_steps(sampler, 2, false), 2);
    for (int64_t p = 0; p < 5; p++)
        assert_int_equal(mr_sampler_at(sampler, p), order[p]);
    assert_ok(mr_sampler_set_epoch(sampler, 0, &error), &error);
    assert_false(mr_sampler_has_order(sampler));
    compare_epoch(sampler, plain, ids, 2);
    mr_sampler_destroy(sampler);
    mr_sampler_destroy(plain);
}

static void restore(const struct mr_position *position, mr_sampler *sampler, uint32_t size,
                    const char *words)
{
    uint64_t epoch = 0, batches = 0;
    mr_error error = {0};
    mr_status status = mr_position_restore(position, sizeof *position, sampler, size, false, &epoch,
                                           &batches, &error);
    if (words)
        assert_error(status, MR_ERR_INVALID, &error, words);
    else
        assert_ok(status, &error);
    assert_int_equal(batches, words ? 0 : 3);
    mr_sampler_destroy(sampler);
}

static void a_position_continues_with_the_same_ranks_batches_and_groups(void **unused)
{
    (void)unused;
    uint8_t ids[100], other[100];
    struct mr_position position;
    mr_sampler_options o = {.struct_size = sizeof o, .n_samples = 100, .world_size = 2};
    for (int i = 0; i < 100; i++) {
        ids[i] = (uint8_t)(i % 3);
        other[i] = (uint8_t)(i % 4);
    }
    mr_sampler *sampler = make_sampler(&o, ids, 6);
    mr_position_save(sampler, 6, false, 3, &position);
    restore(&position, sampler, 6, NULL);
    restore(&position, make_sampler(&o, ids, 3), 3,
            "saved with world_size 2 and batch_size 6, this loader has 2 and 3");
    restore(&position, make_sampler(&o, other, 6), 6, "saved with other groups of samples");
    restore(&position, make_sampler(&o, NULL, 6), 6, "saved with groups of samples");
    o.world_size = 3;
    restore(&position, make_sampler(&o, ids, 6), 6,
            "saved with world_size 2 and batch_size 6, this loader has 3 and 6");
    sampler = make_sampler(&o, NULL, 6);
    mr_position_save(sampler, 6, false, 3, &position);
    restore(&position, sampler, 6, NULL);
    restore(&position, make_sampler(&o, ids, 6), 6, "saved without groups of samples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_those_of_the_reference_over_every_order),
        cmocka_unit_test(a_sample_that_fills_up_a_batch_has_draws_of_its_own),
        cmocka_unit_test(an_order_of_the_caller_s_is_not_sorted),
        cmocka_unit_test(a_position_continues_with_the_same_ranks_batches_and_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
