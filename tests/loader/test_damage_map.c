/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of damaged samples, compared with a search from sample to sample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "loader/damage_map.h"

enum { MAX_SAMPLES = 200 };

static struct mr_damage_map make_map(int64_t n_samples)
{
    struct mr_damage_map map = {.words = calloc(1, mr_damage_map_bytes(n_samples)),
                                .n_samples = n_samples};
    assert_non_null(map.words);
    return map;
}

static uint32_t walk(const bool *damaged, int64_t n, int64_t want, uint32_t from)
{
    while (from < n && damaged[(want + from) % n])
        from++;
    return from;
}

static void check_all_distances(const struct mr_damage_map *map, const bool *damaged)
{
    for (int64_t want = 0; want < map->n_samples; want++)
        for (uint32_t from = 0; from <= map->n_samples; from++)
            assert_int_equal(mr_damage_map_pass(map, want, from),
                             walk(damaged, map->n_samples, want, from));
}

static void a_pass_skips_damaged_samples(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, MAX_SAMPLES};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct mr_damage_map map = make_map(sizes[k]);
        bool damaged[MAX_SAMPLES] = {false};
        check_all_distances(&map, damaged);
        /* in an order that fills some words before others */
        for (int64_t i = sizes[k] - 1; i >= 0; i--) {
            int64_t index = i * 67 % sizes[k];
            assert_true(mr_damage_map_set(&map, index));
            assert_false(mr_damage_map_set(&map, index));
            damaged[index] = true;
            if (i % 16 == 0)
                check_all_distances(&map, damaged);
        }
        for (int64_t i = 0; i < sizes[k]; i++) {
            mr_damage_map_set(&map, i);
            damaged[i] = true;
        }
        check_all_distances(&map, damaged);
        mr_damage_map_clear(&map);
        assert_int_equal(mr_damage_map_pass(&map, 0, 0), 0);
        free((void *)map.words);
    }
}

/*
 * After one search, each full word of a run points to the run's end, so no place walks through the
 * run again. Words after it that become full are walked through once, and then belong to the run.
 */
static void words_of_a_run_point_to_its_end(void **state)
{
    (void)state;
    enum { N_WORDS = 1000, END = 700, N = 32 * N_WORDS };
    struct mr_damage_map map = make_map(N);
    map.tag = 5;
    mr_damage_map_clear(&map);
    for (int64_t i = 32 * 100; i < N; i++)
        if (i != 32 * END + 3)
            mr_damage_map_set(&map, i);
    assert_int_equal(mr_damage_map_pass(&map, 32 * 100, 1), 32 * (END - 100) + 3);
    for (uint32_t i = 100; i < END; i++)
        assert_true(map.words[i] == ((UINT64_C(5) << 33) | MR_DAMAGE_MAP_FULL | (END - i)));
    mr_damage_map_set(&map, 32 * END + 3);
    assert_int_equal(mr_damage_map_pass(&map, 32 * 99, 0), 0);
    /* from the end to the first */
    assert_int_equal(mr_damage_map_pass(&map, 32 * 100, 0), N - 32 * 100);
    assert_int_equal((uint32_t)map.words[100], N_WORDS - 100);
    assert_int_equal((uint32_t)map.words[101], END - 101);
    assert_int_equal((uint32_t)map.words[END], N_WORDS - END);
    assert_int_equal(mr_damage_map_pass(&map, 32 * 101, 0), N - 32 * 101);
    assert_int_equal((uint32_t)map.words[101], N_WORDS - 101);
    free((void *)map.words);
}

static void a_map_without_words_knows_nothing(void **state)
{
    (void)state;
    struct mr_damage_map map = {.n_samples = 10};
    assert_false(mr_damage_map_set(&map, 3));
    assert_int_equal(mr_damage_map_pass(&map, 3, 0), 0);
    assert_int_equal(mr_damage_map_pass(&map, 3, 7), 7);
    mr_damage_map_clear(&map);
}

/* Like a worker that was stopped in a canceled batch and continues in a later epoch. */
static void a_bit_of_an_earlier_epoch_is_not_set_in_a_later_one(void **state)
{
    (void)state;
    struct mr_damage_map now = make_map(100);
    struct mr_damage_map before = now;
    before.tag = 3;
    now.tag = 5;
    mr_damage_map_clear(&before);
    mr_damage_map_set(&before, 40);
    assert_int_equal(mr_damage_map_pass(&before, 40, 0), 1);
    assert_int_equal(mr_damage_map_pass(&now, 40, 0), 0); /* even before it is cleared */
    mr_damage_map_clear(&now);
    assert_false(mr_damage_map_set(&before, 41));
    for (int64_t i = 0; i < now.n_samples; i++)
        assert_int_equal(mr_damage_map_pass(&now, i, 0), 0);
    mr_damage_map_set(&now, 41);
    assert_int_equal(mr_damage_map_pass(&now, 40, 1), 2);
    free((void *)now.words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_skips_damaged_samples),
        cmocka_unit_test(words_of_a_run_point_to_its_end),
        cmocka_unit_test(a_map_without_words_knows_nothing),
        cmocka_unit_test(a_bit_of_an_earlier_epoch_is_not_set_in_a_later_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
