/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The word of a place: every move from every state against a table, the packing of its fields, and
 * moves by a process that slept through a generation.
 */
#include "pinned/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { N_STATES = 4 };

/* The packing that the header states, written here a second time. */
static uint64_t word(unsigned state, uint64_t blame, uint64_t worker, uint64_t generation)
{
    return state | blame << 2 | worker << 8 | generation << 24;
}

static struct mr_place make_place(uint64_t content)
{
    struct mr_place place;
    atomic_init(&place.word, content);
    return place;
}

static void assert_word(const struct mr_place *place, uint64_t expected)
{
    assert_int_equal(mr_place_load(place), expected);
}

static void each_field_is_read_back_at_its_limits(void **state)
{
    (void)state;
    const uint64_t workers[] = {0, 1, 1023, 65535}, blames[] = {0, 1, 19, 63};
    const uint64_t generations[] = {0, 1, UINT64_C(1) << 32, MR_PLACE_GENERATION_MASK};
    for (unsigned s = 0; s < N_STATES; s++)
        for (unsigned b = 0; b < 4; b++)
            for (unsigned w = 0; w < 4; w++)
                for (unsigned g = 0; g < 4; g++) {
                    uint64_t x = word(s, blames[b], workers[w], generations[g]);
                    assert_int_equal(mr_place_state(x), s);
                    assert_int_equal(mr_place_blame(x), blames[b]);
                    assert_int_equal(mr_place_worker(x), workers[w]);
                    assert_int_equal(mr_place_generation(x), generations[g]);
                }
}

static void a_life_goes_open_busy_done(void **state)
{
    (void)state;
    struct mr_place place = make_place(0);
    uint64_t held = 0;
    mr_place_open(&place, 7);
    assert_word(&place, word(MR_PLACE_OPEN, 0, 0, 7));
    assert_true(mr_place_take(&place, mr_place_load(&place), 65535, &held));
    assert_int_equal(held, word(MR_PLACE_BUSY, 0, 65535, 7));
    assert_word(&place, held);
    assert_true(mr_place_finish(&place, held));
    assert_int_equal(mr_place_state(mr_place_load(&place)), MR_PLACE_DONE);
    assert_int_equal(mr_place_generation(mr_place_load(&place)), 7);
    mr_place_open(&place, 8);
    assert_word(&place, word(MR_PLACE_OPEN, 0, 0, 8));
}

static void only_an_open_place_is_taken(void **state)
{
    (void)state;
    for (unsigned s = 0; s < N_STATES; s++) {
        uint64_t before = word(s, 3, 0, 5), held = 99;
        struct mr_place place = make_place(before);
        bool taken = mr_place_take(&place, before, 12, &held);
        assert_int_equal(taken, s == MR_PLACE_OPEN);
        assert_word(&place, taken ? word(MR_PLACE_BUSY, 3, 12, 5) : before);
        assert_int_equal(held, taken ? word(MR_PLACE_BUSY, 3, 12, 5) : 99);
    }
}

static void only_an_open_place_is_canceled(void **state)
{
    (void)state;
    for (unsigned s = 0; s < N_STATES; s++) {
        uint64_t before = word(s, 10, 4, 5);
        struct mr_place place = make_place(before);
        bool canceled = mr_place_cancel(&place);
        assert_int_equal(canceled, s == MR_PLACE_OPEN);
        assert_word(&place, canceled ? word(MR_PLACE_CLOSED, 0, 0, 5) : before);
    }
}

typedef bool (*move_fn)(struct mr_place *place, uint64_t held);

static bool reopen_with_ten(struct mr_place *place, uint64_t held)
{
    return mr_place_reopen(place, held, 10);
}

/* The moves out of BUSY, and the state and the blame of the word after each. */
static const struct {
    move_fn move;
    enum mr_place_state to;
    uint64_t blame;
} out_of_busy[] = {{mr_place_finish, MR_PLACE_DONE, 0},
                   {reopen_with_ten, MR_PLACE_OPEN, 10},
                   {mr_place_abandon, MR_PLACE_CLOSED, 0}};

static void a_busy_place_moves_for_its_holder(void **state)
{
    (void)state;
    for (unsigned m = 0; m < 3; m++) {
        uint64_t held = word(MR_PLACE_BUSY, 5, 9, 5);
        struct mr_place place = make_place(held);
        assert_true(out_of_busy[m].move(&place, held));
        uint64_t after = mr_place_load(&place);
        assert_int_equal(mr_place_state(after), out_of_busy[m].to);
        assert_int_equal(mr_place_blame(after), out_of_busy[m].blame);
        assert_int_equal(mr_place_generation(after), 5);
    }
}

static void a_busy_place_moves_only_for_its_holder(void **state)
{
    (void)state;
    const uint64_t present[] = {word(MR_PLACE_BUSY, 5, 9, 6), word(MR_PLACE_BUSY, 5, 8, 5),
                                word(MR_PLACE_BUSY, 6, 9, 5), word(MR_PLACE_OPEN, 5, 9, 5),
                                word(MR_PLACE_DONE, 5, 9, 5), word(MR_PLACE_CLOSED, 5, 9, 5),
                                word(MR_PLACE_OPEN, 10, 0, 5)};
    for (unsigned m = 0; m < 3; m++)
        for (unsigned i = 0; i < sizeof present / sizeof *present; i++) {
            struct mr_place place = make_place(present[i]);
            assert_false(out_of_busy[m].move(&place, word(MR_PLACE_BUSY, 5, 9, 5)));
            assert_word(&place, present[i]);
        }
}

static void a_place_seen_in_an_earlier_generation_is_not_taken(void **state)
{
    (void)state;
    struct mr_place place = make_place(0);
    uint64_t held = 0;
    mr_place_open(&place, 41);
    uint64_t seen = mr_place_load(&place);
    assert_true(mr_place_cancel(&place));
    mr_place_open(&place, 42);
    assert_false(mr_place_take(&place, seen, 1, &held));
    assert_word(&place, word(MR_PLACE_OPEN, 0, 0, 42));
}

static void a_place_seen_before_a_death_is_not_taken(void **state)
{
    (void)state;
    struct mr_place place = make_place(0);
    uint64_t held, late = 0;
    mr_place_open(&place, 1);
    uint64_t seen = mr_place_load(&place);
    assert_true(mr_place_take(&place, seen, 1, &held));
    assert_true(mr_place_reopen(&place, held, MR_BLAME_KILL));
    assert_false(mr_place_take(&place, seen, 2, &late));
    assert_true(mr_place_take(&place, mr_place_load(&place), 2, &late));
    assert_int_equal(mr_place_blame(late), MR_BLAME_KILL);
    assert_false(mr_place_finish(&place, held));
    assert_true(mr_place_finish(&place, late));
}

static void the_limit_of_blame_fits_its_field(void **state)
{
    (void)state;
    /* The largest sum that is stored, and the largest that is computed. */
    assert_true(MR_BLAME_LIMIT - 1 <= 63);
    assert_true(MR_BLAME_LIMIT - 1 + MR_BLAME_CRASH <= 63);
    struct mr_place place = make_place(word(MR_PLACE_BUSY, 0, 65535, 1));
    assert_true(mr_place_reopen(&place, mr_place_load(&place), 63));
    assert_word(&place, word(MR_PLACE_OPEN, 63, 0, 1));
}

static void the_generation_wraps_at_two_to_the_forty(void **state)
{
    (void)state;
    struct mr_place place = make_place(0);
    uint64_t held = 0;
    mr_place_open(&place, MR_PLACE_GENERATION_MASK);
    assert_int_equal(mr_place_generation(mr_place_load(&place)), MR_PLACE_GENERATION_MASK);
    uint64_t seen = mr_place_load(&place);
    mr_place_open(&place, MR_PLACE_GENERATION_MASK + 1);
    assert_word(&place, word(MR_PLACE_OPEN, 0, 0, 0));
    assert_false(mr_place_take(&place, seen, 1, &held));
    mr_place_shut(&place, MR_PLACE_GENERATION_MASK + 2);
    assert_word(&place, word(MR_PLACE_CLOSED, 0, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_is_read_back_at_its_limits),
        cmocka_unit_test(a_life_goes_open_busy_done),
        cmocka_unit_test(only_an_open_place_is_taken),
        cmocka_unit_test(only_an_open_place_is_canceled),
        cmocka_unit_test(a_busy_place_moves_for_its_holder),
        cmocka_unit_test(a_busy_place_moves_only_for_its_holder),
        cmocka_unit_test(a_place_seen_in_an_earlier_generation_is_not_taken),
        cmocka_unit_test(a_place_seen_before_a_death_is_not_taken),
        cmocka_unit_test(the_limit_of_blame_fits_its_field),
        cmocka_unit_test(the_generation_wraps_at_two_to_the_forty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
