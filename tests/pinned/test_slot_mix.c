/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second word of a place: when a row can be mixed, and what a death or a cancellation does to it. Then threads play
 * workers that make samples, mix rows and "die" of both, while the host publishes, cancels and collects: each row of a
 * filled generation comes of the samples of that generation, and no wake-up is lost.
 */
#include "pinned/slot.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"

enum { N_WORKERS = 3, BATCH = 12, MAX_SECONDS = 2, GENERATIONS = 200000, LOST_WAKE_UP_MS = 5000 };

struct stage {
    struct mr_slot_layout layout;
    struct mr_slot_view view;
    _Atomic uint32_t wake, work, stop, wrong;
    pthread_mutex_t lock;
};

struct player {
    struct stage *stage;
    uint32_t id, random;
    uint64_t n_deaths;
};

static void make_stage(struct stage *s, uint32_t rule)
{
    mr_error error;
    const struct mr_slot_shape shape = {.n_slots = 1,
                                        .n_workers = N_WORKERS,
                                        .batch_size = BATCH,
                                        .sample_bytes = 16,
                                        .label_bytes = 8,
                                        .mixes = true,
                                        .mix_rule = rule,
                                        .n_classes = 3,
                                        .source_bytes = 8};
    memset(s, 0, sizeof *s);
    assert_int_equal(mr_slot_layout_init(&s->layout, &shape, &error), MR_OK);
    void *memory = aligned_alloc(4096, s->layout.slab_bytes);
    assert_non_null(memory);
    memset(memory, 0, s->layout.slab_bytes);
    s->view = mr_slot_at(&s->layout, memory, 0);
    pthread_mutex_init(&s->lock, NULL);
}

static void drop_stage(struct stage *s)
{
    pthread_mutex_destroy(&s->lock);
    free(s->view.slot);
}

static void publish(struct stage *s, uint64_t sequence, uint32_t n_places)
{
    pthread_mutex_lock(&s->lock);
    mr_slot_publish(&s->view, BATCH, sequence, 0, sequence, n_places);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->work, 1);
    mr_futex_wake(&s->work, UINT32_MAX);
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

static void describe(void *user, int64_t index, mr_error *error_out)
{
    (void)user, (void)index;
    mr_error_set(error_out, MR_ERR_DAMAGED, "given up");
}

static uint32_t bury(struct stage *s, uint32_t worker)
{
    struct mr_death death = {.worker = worker, .blame = MR_BLAME_CRASH, .n_samples = INT64_MAX, .describe = describe};
    pthread_mutex_lock(&s->lock);
    uint32_t n = mr_slot_recover(&s->view, BATCH, &death);
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void a_row_can_be_mixed_when_both_samples_are_made(void **state)
{
    (void)state;
    struct stage s;
    uint64_t seen;
    make_stage(&s, MR_MIX_FLOATS);
    publish(&s, 1, 5);
    make(&s, 0);
    for (uint32_t i = 0; i < BATCH; i++)
        assert_false(mr_slot_can_mix(&s.view, i, &seen));
    make(&s, 4);
    assert_true(mr_slot_can_mix(&s.view, 0, &seen)); /* with the last of the five */
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
    drop_stage(&s);
}

static void samples_of_another_generation_are_not_mixed(void **state)
{
    (void)state;
    struct stage s;
    uint64_t seen, late;
    make_stage(&s, MR_MIX_BYTES);
    publish(&s, 1, 2);
    make(&s, 0);
    make(&s, 1);
    assert_true(mr_slot_can_mix(&s.view, 0, &late));
    mr_slot_cancel(&s.view);
    assert_false(mr_slot_can_mix(&s.view, 0, &seen));
    mr_slot_move(s.view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    publish(&s, 2, 2);
    assert_false(mr_slot_can_mix(&s.view, 0, &seen));
    assert_false(mr_place_take(&s.view.mixes[0], late, 0, &seen)); /* by a worker that slept meanwhile */
    /* The old DONE of one word beside the new OPEN of the other, as in the middle of a publication. */
    make(&s, 0);
    make(&s, 1);
    mr_place_open(&s.view.mixes[0], 3);
    assert_false(mr_slot_can_mix(&s.view, 0, &seen));
    drop_stage(&s);
}

static void a_death_in_mixing_opens_the_row_without_blame(void **state)
{
    (void)state;
    struct stage s;
    uint64_t seen;
    make_stage(&s, MR_MIX_FLOATS);
    publish(&s, 1, 2);
    make(&s, 0);
    make(&s, 1);
    for (int i = 0; i < 30; i++) { /* more often than a sample may kill */
        take(&s.view.mixes[0], 2);
        assert_true(mr_slot_is_busy(&s.view));
        assert_int_equal(bury(&s, 1), 0);
        assert_true(mr_slot_is_busy(&s.view));
        assert_int_equal(bury(&s, 2), 0);
        assert_true(mr_slot_can_mix(&s.view, 0, &seen));
        assert_int_equal(mr_place_blame(seen), 0);
    }
    assert_int_equal(s.view.slot->n_records, 0);
    take(&s.view.mixes[1], 2);
    mr_slot_cancel(&s.view);
    assert_true(mr_slot_is_busy(&s.view));
    bury(&s, 2);
    assert_false(mr_slot_is_busy(&s.view));
    drop_stage(&s);
}

static uint32_t draw(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

static void wake_host(struct stage *s)
{
    atomic_fetch_add(&s->wake, 1);
    mr_futex_wake(&s->wake, 1);
}

static void die(struct player *p)
{
    bury(p->stage, p->id);
    p->n_deaths++;
    wake_host(p->stage);
}

/* The samples and rows are not atomic on purpose, so that TSan sees who writes when. */
static void mix_row(struct player *p, uint32_t i)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t seen, held, row[2];
    if (!mr_slot_can_mix(view, i, &seen) || !mr_place_take(&view->mixes[i], seen, p->id, &held))
        return;
    uint32_t fate = draw(&p->random) % 128;
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    uint32_t partner = mr_mix_partner(view->mix_rule, i, n);
    memcpy(&row[0], view->source + i * view->source_bytes, sizeof *row);
    memcpy(&row[1], view->source + partner * view->source_bytes, sizeof *row);
    memcpy(view->data + i * sizeof row, row, fate == 0 ? sizeof *row : sizeof row);
    if (fate == 0) { /* in the middle */
        die(p);
        return;
    }
    if (!mr_place_finish(&view->mixes[i], held))
        atomic_fetch_add(&p->stage->wrong, 1);
    if (fate == 1)
        die(p);
    else if (mr_slot_count_down(view))
        wake_host(p->stage);
}

static void make_sample(struct player *p, uint32_t i)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t held;
    if (!mr_place_take(&view->places[i], mr_place_load(&view->places[i]), p->id, &held))
        return;
    uint32_t fate = draw(&p->random) % 128;
    uint64_t sequence = atomic_load_explicit(&view->slot->sequence, memory_order_relaxed);
    if (fate == 0) {
        die(p);
        return;
    }
    memcpy(view->source + i * view->source_bytes, &sequence, sizeof sequence);
    if (!mr_place_finish(&view->places[i], held))
        atomic_fetch_add(&p->stage->wrong, 1);
    if (mr_slot_is_canceled(view))
        wake_host(p->stage);
    if (fate == 1) /* before it looks at the rows */
        die(p);
}

static void *work(void *arg)
{
    struct player *p = arg;
    struct stage *s = p->stage;
    while (!atomic_load(&s->stop)) {
        uint32_t seen = atomic_load(&s->work), first = draw(&p->random);
        uint64_t unused;
        bool any = false;
        for (uint32_t k = 0; k < BATCH; k++) {
            uint32_t i = (first + k) % BATCH;
            if (mr_place_state(mr_place_load(&s->view.places[i])) == MR_PLACE_OPEN) {
                any = true;
                make_sample(p, i);
            }
            if (mr_slot_can_mix(&s->view, i, &unused)) {
                any = true;
                mix_row(p, i);
            }
        }
        if (!any)
            mr_futex_wait(&s->work, seen, 1);
    }
    return NULL;
}

/* Wait for the end of a generation by the wake-ups alone; false when one was lost. */
static bool await(struct stage *s, bool canceled)
{
    for (;;) {
        uint32_t seen = atomic_load(&s->wake);
        if (canceled ? !mr_slot_is_busy(&s->view) : mr_slot_is_filled(&s->view))
            return true;
        if (mr_futex_wait(&s->wake, seen, LOST_WAKE_UP_MS) != 0 && atomic_load(&s->wake) == seen)
            return false;
    }
}

static void cancel(struct stage *s)
{
    pthread_mutex_lock(&s->lock);
    mr_slot_cancel(&s->view);
    pthread_mutex_unlock(&s->lock);
    assert_true(await(s, true));
    pthread_mutex_lock(&s->lock);
    mr_slot_move(s->view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    pthread_mutex_unlock(&s->lock);
}

static void collect(struct stage *s, uint64_t sequence, uint32_t n_places)
{
    assert_true(await(s, false));
    mr_slot_move(s->view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(s->view.slot, MR_SLOT_FILLED, MR_SLOT_LENT);
    for (uint32_t i = 0; i < n_places; i++) {
        uint64_t row[2];
        memcpy(row, s->view.data + i * sizeof row, sizeof row);
        assert_int_equal(row[0], sequence);
        assert_int_equal(row[1], sequence);
    }
    mr_slot_move(s->view.slot, MR_SLOT_LENT, MR_SLOT_FREE);
}

static void play(uint32_t rule)
{
    static struct stage stage;
    struct player players[N_WORKERS];
    pthread_t threads[N_WORKERS];
    uint64_t n_filled = 0, n_canceled = 0, n_deaths = 0;
    uint32_t random = 2463534242u;
    make_stage(&stage, rule);
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        players[i] = (struct player){.stage = &stage, .id = i, .random = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &players[i]), 0);
    }
    uint64_t end = mr_clock_now_ns() + MAX_SECONDS * UINT64_C(1000000000) / 2;
    for (uint64_t sequence = 1; sequence <= GENERATIONS && mr_clock_now_ns() < end; sequence++) {
        uint32_t n_places = 1 + draw(&random) % BATCH;
        publish(&stage, sequence, n_places);
        if (draw(&random) % 4 == 0) {
            for (uint32_t spin = draw(&random) % 2000; spin > 0; spin--)
                atomic_load(&stage.wake);
            cancel(&stage);
            n_canceled++;
        } else {
            collect(&stage, sequence, n_places);
            n_filled++;
        }
    }
    atomic_store(&stage.stop, 1);
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        pthread_join(threads[i], NULL);
        n_deaths += players[i].n_deaths;
    }
    print_message("%llu filled, %llu canceled, %llu deaths\n", (unsigned long long)n_filled,
                  (unsigned long long)n_canceled, (unsigned long long)n_deaths);
    assert_int_equal(atomic_load(&stage.wrong), 0);
    assert_true(n_filled > 20 && n_canceled > 5 && n_deaths > 0);
    drop_stage(&stage);
}

static void rows_are_of_the_samples_of_their_generation(void **state)
{
    (void)state;
    play(MR_MIX_FLOATS);
    play(MR_MIX_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_can_be_mixed_when_both_samples_are_made),
        cmocka_unit_test(samples_of_another_generation_are_not_mixed),
        cmocka_unit_test(a_death_in_mixing_opens_the_row_without_blame),
        cmocka_unit_test(rows_are_of_the_samples_of_their_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
