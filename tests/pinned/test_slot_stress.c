/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads play workers on the words of one slot: every sample of a filled generation was made
 * exactly once in it, none is ever written in a wrong generation, and the host never waits for
 * ever.
 */
#include "tests/pinned/plain_columns.h"
#include "tests/pinned/slot_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/*
 * One held place. The sample is its sequence and place; it is not atomic on purpose, so that TSan
 * detects unordered writes.
 */
static void make_sample(struct player *p, uint32_t place, uint64_t held)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t sequence = atomic_load_explicit(&view->slot->sequence, memory_order_relaxed);
    uint64_t sample[2];
    memcpy(sample, view->data + place * sizeof sample, sizeof sample);
    if ((mr_place_generation(held) & 0xffff) != (sequence & 0xffff))
        atomic_fetch_add(&p->stage->wrong, 1);
    /* how often it was made in this generation */
    sample[1] = sample[0] == sequence ? sample[1] + 1 : 1;
    sample[0] = sequence;
    memcpy(view->data + place * sizeof sample, sample, sizeof sample);
}

static bool try_place(struct player *p, uint32_t place)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t held;
    uint64_t seen = mr_place_load(&view->places[place]);
    if (mr_place_state(seen) != MR_PLACE_OPEN)
        return false;
    if (!mr_place_take(&view->places[place], seen, p->id, &held))
        return true;
    uint32_t fate = stage_draw(&p->random) % 512;
    if (fate == 0) { /* before it has written anything */
        stage_die(p);
        return true;
    }
    make_sample(p, place, held);
    if (!mr_place_finish(&view->places[place], held))
        atomic_fetch_add(&p->stage->wrong, 1);
    else if (fate == 1) /* between DONE and the count */
        stage_die(p);
    else if (mr_slot_count_down(view))
        stage_wake_host(p->stage);
    return true;
}

static void check_place(struct stage *s, uint32_t place, uint64_t sequence)
{
    uint64_t sample[2];
    memcpy(sample, s->view.data + place * sizeof sample, sizeof sample);
    assert_int_equal(sample[0], sequence);
    assert_int_equal(sample[1], 1);
    memset(s->view.data + place * sizeof sample, 0, sizeof sample);
}

static void every_sample_is_made_once_in_its_generation(void **state)
{
    (void)state;
    static const struct stage_script script = {.try_place = try_place, .check_place = check_place};
    static struct stage stage;
    stage_make(&stage, (struct mr_slot_shape){.columns = PLAIN_COLUMNS(16, 8)});
    stage_play(&stage, &script, 2000);
    stage_drop(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_made_once_in_its_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
