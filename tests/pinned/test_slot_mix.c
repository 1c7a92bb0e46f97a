/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second word of a place: when a row can be mixed, and what a death or a cancellation does to
 * it. Then threads play workers that make samples, mix rows and "die" while doing either, while the
 * host publishes, cancels and collects. Each row of a filled generation must come from the samples
 * of that generation, and no wake-up may be lost.
 */
#include "tests/pinned/plain_columns.h"
#include "tests/pinned/slot_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void make_stage(struct stage *s, uint32_t rule)
{
    stage_make(s, (struct mr_slot_shape){.columns = PLAIN_COLUMNS(16, 8),
                                         .mixes = true,
                                         .mix_rule = rule,
                                         .source_bytes = 8});
}

static uint64_t take(struct mr_place *word, uint32_t worker)
{
    uint64_t held;
    assert_true(mr_place_take(word, mr_place_load(word), worker, &held));
    return held;
}

static void make(struct stage *s, uint32_t i)
{
    assert_true(mr_place_finish(&s->view.places[i], take(&s->view.places[i], 0)));
}

static void a_row_can_be_mixed_when_both_samples_are_made(void **state)
{
    (void)state;
    struct stage s;
    uint64_t seen;
    make_stage(&s, MR_MIX_FLOATS);
    stage_publish(&s, 1, 5);
    make(&s, 0);
    for (uint32_t i = 0; i < STAGE_BATCH; i++)
        assert_false(mr_slot_can_mix(&s.view, i, &seen));
    make(&s, 4);
    assert_true(mr_slot_can_mix(&s.view, 0, &seen)); /* once the last of the five is made */
    assert_false(mr_slot_can_mix(&s.view, 1, &seen));
    assert_false(mr_slot_can_mix(&s.view, 4, &seen));
    for (uint32_t i = 1; i < 4; i++)
        make(&s, i);
    assert_false(mr_slot_is_filled(&s.view));
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(mr_slot_can_mix(&s.view, i, &seen));
        assert_true(mr_place_finish(&s.view.mixes[i], take(&s.view.mixes[i], 1)));
        assert_false(mr_slot_can_mix(&s.view, i, &seen));
        assert_true(mr_slot_count_down(&s.view) == (i == 4));
    }
    assert_true(mr_slot_is_filled(&s.view));
    stage_drop(&s);
}

static void samples_of_another_generation_are_not_mixed(void **state)
{
    (void)state;
    struct stage s;
    uint64_t seen, late;
    make_stage(&s, MR_MIX_BYTES);
    stage_publish(&s, 1, 2);
    make(&s, 0);
    make(&s, 1);
    assert_true(mr_slot_can_mix(&s.view, 0, &late));
    mr_slot_cancel(&s.view);
    assert_false(mr_slot_can_mix(&s.view, 0, &seen));
    mr_slot_move(s.view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    stage_publish(&s, 2, 2);
    assert_false(mr_slot_can_mix(&s.view, 0, &seen));
    /* by a worker that slept meanwhile */
    assert_false(mr_place_take(&s.view.mixes[0], late, 0, &seen));
    /* One word has the old DONE and the other the new OPEN, as in the middle of publishing. */
    make(&s, 0);
    make(&s, 1);
    mr_place_open(&s.view.mixes[0], 3);
    assert_false(mr_slot_can_mix(&s.view, 0, &seen));
    stage_drop(&s);
}

static void a_death_in_mixing_opens_the_row_without_blame(void **state)
{
    (void)state;
    struct stage s;
    uint64_t seen;
    make_stage(&s, MR_MIX_FLOATS);
    stage_publish(&s, 1, 2);
    make(&s, 0);
    make(&s, 1);
    for (int i = 0; i < 30; i++) { /* more often than a sample may kill a worker */
        take(&s.view.mixes[0], 2);
        assert_true(mr_slot_is_busy(&s.view));
        assert_int_equal(stage_bury(&s, 1), 0);
        assert_true(mr_slot_is_busy(&s.view));
        assert_int_equal(stage_bury(&s, 2), 0);
        assert_true(mr_slot_can_mix(&s.view, 0, &seen));
        assert_int_equal(mr_place_blame(seen), 0);
    }
    assert_int_equal(s.view.slot->n_errors, 0);
    take(&s.view.mixes[1], 2);
    mr_slot_cancel(&s.view);
    assert_true(mr_slot_is_busy(&s.view));
    stage_bury(&s, 2);
    assert_false(mr_slot_is_busy(&s.view));
    stage_drop(&s);
}

/* Samples and rows are not atomic on purpose, so that TSan detects unordered writes. */
static void mix_row(struct player *p, uint32_t i)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t seen, held, row[2];
    if (!mr_slot_can_mix(view, i, &seen) || !mr_place_take(&view->mixes[i], seen, p->id, &held))
        return;
    uint32_t fate = stage_draw(&p->random) % 128;
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    uint32_t partner = mr_mix_partner(view->mix_rule, i, n);
    memcpy(&row[0], view->source + i * view->source_bytes, sizeof *row);
    memcpy(&row[1], view->source + partner * view->source_bytes, sizeof *row);
    memcpy(view->data + i * sizeof row, row, fate == 0 ? sizeof *row : sizeof row);
    if (fate == 0) { /* in the middle */
        stage_die(p);
        return;
    }
    if (!mr_place_finish(&view->mixes[i], held))
        atomic_fetch_add(&p->stage->wrong, 1);
    if (fate == 1)
        stage_die(p);
    else if (mr_slot_count_down(view))
        stage_wake_host(p->stage);
}

static void make_sample(struct player *p, uint32_t i)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t held;
    if (!mr_place_take(&view->places[i], mr_place_load(&view->places[i]), p->id, &held))
        return;
    uint32_t fate = stage_draw(&p->random) % 128;
    uint64_t sequence = atomic_load_explicit(&view->slot->sequence, memory_order_relaxed);
    if (fate == 0) {
        stage_die(p);
        return;
    }
    memcpy(view->source + i * view->source_bytes, &sequence, sizeof sequence);
    if (!mr_place_finish(&view->places[i], held))
        atomic_fetch_add(&p->stage->wrong, 1);
    if (mr_slot_is_canceled(view))
        stage_wake_host(p->stage);
    if (fate == 1) /* before it checks the rows */
        stage_die(p);
}

static bool try_place(struct player *p, uint32_t i)
{
    const struct mr_slot_view *view = &p->stage->view;
    uint64_t unused;
    bool is_open = mr_place_state(mr_place_load(&view->places[i])) == MR_PLACE_OPEN;
    if (is_open)
        make_sample(p, i);
    bool can_mix = mr_slot_can_mix(view, i, &unused);
    if (can_mix)
        mix_row(p, i);
    return is_open || can_mix;
}

static void check_row(struct stage *s, uint32_t i, uint64_t sequence)
{
    uint64_t row[2];
    memcpy(row, s->view.data + i * sizeof row, sizeof row);
    assert_int_equal(row[0], sequence);
    assert_int_equal(row[1], sequence);
}

static void rows_come_from_the_samples_of_their_generation(void **state)
{
    (void)state;
    static const struct stage_script script = {.try_place = try_place, .check_place = check_row};
    static const uint32_t rules[] = {MR_MIX_FLOATS, MR_MIX_BYTES};
    static struct stage stage;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        make_stage(&stage, rules[i]);
        stage_play(&stage, &script, 1000);
        stage_drop(&stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_can_be_mixed_when_both_samples_are_made),
        cmocka_unit_test(samples_of_another_generation_are_not_mixed),
        cmocka_unit_test(a_death_in_mixing_opens_the_row_without_blame),
        cmocka_unit_test(rows_come_from_the_samples_of_their_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
