/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws of a sample: Random123's published answers, reproducible streams, ranges, and the replay of
 * torch's stream.
 */
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/*
 * Random123's kat_vectors, "philox4x64 10". No function sets words 2 and 3 of the counter, so the
 * test sets the fields.
 */
static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t counter[4], key[2], words[4];
    } known[] = {
        {{0, 0, 0, 0},
         {0, 0},
         {0x16554d9eca36314c, 0xdb20fe9d672d0fdc, 0xd7e772cee186176b, 0x7e68b68aec7ba23b}},
        {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
         {UINT64_MAX, UINT64_MAX},
         {0x87b092c3013fe90b, 0x438c3c67be8d0224, 0x9cc7d7c69cd777b6, 0xa09caebf594f0ba0}},
        {{0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89},
         {0x452821e638d01377, 0xbe5466cf34e90c6c},
         {0xa528f45403e61d95, 0x38c72dbd566e9788, 0xa5a1610e72fd18b5, 0x57bd43b5e52b7fe6}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct mr_rng rng;
        mr_rng_init(&rng, known[i].key[0], known[i].key[1], known[i].counter[0]);
        for (int w = 1; w < 4; w++)
            rng.counter[w] = known[i].counter[w];
        for (int w = 0; w < 4; w++) {
            uint64_t low = mr_rng_u32(&rng), high = mr_rng_u32(&rng);
            assert_int_equal(high << 32 | low, known[i].words[w]);
        }
    }
}

static void a_stream_depends_on_seed_epoch_and_index_alone(void **state)
{
    (void)state;
    for (uint64_t which = 0; which < 4; which++) {
        struct mr_rng a, b;
        mr_rng_init(&a, 1, 2, 3);
        mr_rng_init(&b, which == 1 ? 9 : 1, which == 2 ? 9 : 2, which == 3 ? 9 : 3);
        int n_equal = 0;
        for (int i = 0; i < 100; i++)
            n_equal += mr_rng_u32(&a) == mr_rng_u32(&b);
        assert_in_range(n_equal, which == 0 ? 100 : 0, which == 0 ? 100 : 1);
    }
}

static void an_occurrence_has_draws_of_its_own(void **state)
{
    (void)state;
    struct mr_rng first, same, second, places[2];
    mr_rng_init(&first, 1, 2, 3);
    mr_rng_init(&same, 1, 2, 3);
    mr_rng_init(&second, 1, 2, 3);
    mr_rng_set_occurrence(&same, 0);
    mr_rng_set_occurrence(&second, 1);
    mr_rng_init_place(&places[0], &first, 1);
    mr_rng_init_place(&places[1], &second, 1);
    int n_equal = 0;
    for (int i = 0; i < 100; i++) {
        uint32_t word = mr_rng_u32(&first);
        assert_int_equal(word, mr_rng_u32(&same));
        n_equal += word == mr_rng_u32(&second);
        n_equal += mr_rng_u32(&places[0]) == mr_rng_u32(&places[1]);
    }
    assert_in_range(n_equal, 0, 1);
}

/* They do not depend on draws before them, and do not change the generator. */
static void a_place_has_draws_of_its_own(void **state)
{
    (void)state;
    struct mr_rng shared, same, places[4];
    mr_rng_init(&shared, 1, 2, 3);
    mr_rng_init(&same, 1, 2, 3);
    mr_rng_init_place(&places[0], &shared, 1);
    mr_rng_init_place(&places[1], &shared, 2);
    for (int i = 0; i < 11; i++)
        assert_int_equal(mr_rng_u32(&shared), mr_rng_u32(&same));
    mr_rng_init_place(&places[2], &shared, 1);
    mr_rng_init(&places[3], 1, 2, 3);
    int n_equal = 0;
    for (int i = 0; i < 100; i++) {
        uint32_t word = mr_rng_u32(&places[0]);
        assert_int_equal(word, mr_rng_u32(&places[2]));
        n_equal += (word == mr_rng_u32(&places[1])) + (word == mr_rng_u32(&places[3]));
    }
    assert_in_range(n_equal, 0, 1);
}

static void blocks_of_a_stream_do_not_repeat(void **state)
{
    (void)state;
    struct mr_rng rng;
    mr_rng_init(&rng, 0, 0, 0);
    uint32_t words[64];
    for (int i = 0; i < 64; i++) {
        words[i] = mr_rng_u32(&rng);
        for (int j = 0; j < i; j++)
            assert_true(words[i] != words[j]);
    }
}

static void uniform_stays_in_its_range_with_its_moments(void **state)
{
    (void)state;
    enum { DRAWS = 100000 };
    struct mr_rng rng;
    mr_rng_init(&rng, 3, 1, 4);
    double sum = 0, squares = 0;
    for (int i = 0; i < DRAWS; i++) {
        float x = mr_rng_uniform(&rng, -2.0f, 6.0f);
        if (x < -2.0f || x >= 6.0f)
            fail_msg("draw %d is %.9g", i, (double)x);
        sum += (double)x;
        squares += ((double)x - 2.0) * ((double)x - 2.0);
    }
    assert_true(fabs(sum / DRAWS - 2.0) < 5 * 8 / sqrt(12.0 * DRAWS));
    assert_true(fabs(squares / DRAWS - 64.0 / 12) < 0.12);
}

static void below_is_uniform_and_below(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1, 2, 3, 7, 100};
    enum { DRAWS = 50000 };
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        struct mr_rng rng;
        mr_rng_init(&rng, l, 0, 0);
        uint32_t counts[100] = {0};
        for (int i = 0; i < DRAWS; i++) {
            uint32_t x = mr_rng_below(&rng, limits[l]);
            assert_true(x < limits[l]);
            counts[x]++;
        }
        double expected = (double)DRAWS / limits[l];
        for (uint32_t v = 0; v < limits[l]; v++)
            assert_true(fabs(counts[v] - expected) <= 5 * sqrt(expected));
    }
}

static void chance_is_never_always_and_half(void **state)
{
    (void)state;
    struct mr_rng rng;
    mr_rng_init(&rng, 0, 0, 0);
    int n_half = 0;
    for (int i = 0; i < 10000; i++) {
        assert_false(mr_rng_chance(&rng, 0.0));
        assert_true(mr_rng_chance(&rng, 1.0));
        n_half += mr_rng_chance(&rng, 0.5);
    }
    assert_in_range(n_half, 4750, 5250);
}

static void torch_s_stream_is_replayed(void **state)
{
    (void)state;
    struct mr_mt19937 played, reference;
    mr_mt19937_init(&played, 42);
    mr_mt19937_init(&reference, 42);
    struct mr_rng rng;
    mr_rng_init_torch(&rng, &played);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(mr_rng_u32(&rng), mr_mt19937_u32(&reference));
    mr_mt19937_init(&played, 42);
    assert_true(fabsf(mr_rng_uniform(&rng, 0.0f, 1.0f) - 0.8822692633f) <
                1e-7f); /* torch.manual_seed(42); torch.rand(1) */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(a_stream_depends_on_seed_epoch_and_index_alone),
        cmocka_unit_test(an_occurrence_has_draws_of_its_own),
        cmocka_unit_test(a_place_has_draws_of_its_own),
        cmocka_unit_test(blocks_of_a_stream_do_not_repeat),
        cmocka_unit_test(uniform_stays_in_its_range_with_its_moments),
        cmocka_unit_test(below_is_uniform_and_below),
        cmocka_unit_test(chance_is_never_always_and_half),
        cmocka_unit_test(torch_s_stream_is_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
