/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Mersenne Twister's published words. C++ requires that the 10000th word of std::mt19937 with
 * its default seed is 4123659995.
 */
#include "base/mt19937.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void known_words_of_known_seeds(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t words[3];
    } known[] = {
        {5489, {3499211612u, 581869302u, 3890346734u}},
        {0, {2357136044u, 2546248239u, 3071714933u}},
        {1, {1791095845u, 4282876139u, 3093770124u}},
        {42, {1608637542u, 3421126067u, 4083286876u}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct mr_mt19937 mt;
        mr_mt19937_init(&mt, known[i].seed);
        for (int w = 0; w < 3; w++)
            assert_int_equal(mr_mt19937_u32(&mt), known[i].words[w]);
    }
}

static void the_10000th_word_is_the_standard_s(void **state)
{
    (void)state;
    struct mr_mt19937 mt;
    mr_mt19937_init(&mt, 5489);
    for (int i = 0; i < 9999; i++)
        mr_mt19937_u32(&mt);
    assert_int_equal(mr_mt19937_u32(&mt), 4123659995u);
}

static void only_the_low_32_bits_of_a_seed_count(void **state)
{
    (void)state;
    struct mr_mt19937 low, high;
    mr_mt19937_init(&low, 42);
    mr_mt19937_init(&high, (UINT64_C(7) << 32) + 42);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(mr_mt19937_u32(&low), mr_mt19937_u32(&high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_words_of_known_seeds),
        cmocka_unit_test(the_10000th_word_is_the_standard_s),
        cmocka_unit_test(only_the_low_32_bits_of_a_seed_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
