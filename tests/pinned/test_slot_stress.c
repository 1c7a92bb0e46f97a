/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads play workers over the words of one slot while another thread plays the host, which publishes, cancels, lets
 * workers "die" and publishes again. Every sample of a filled generation was made exactly once in it, none is ever
 * written in a wrong generation, and the host is never left waiting: it relies on the wake-ups alone.
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
    _Atomic uint32_t wake; /* the host sleeps on it */
    _Atomic uint32_t work; /* workers sleep on it */
    _Atomic uint32_t stop;
    _Atomic uint32_t wrong; /* takes whose fields were of another generation */
    pthread_mutex_t lock;   /* as the core's: recovery and cancelling exclude each other */
};

struct player {
    struct stage *stage;
    uint32_t id;
    uint32_t random;
    uint64_t n_deaths;
};

static uint32_t draw(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

static void describe(void *user, int64_t index, mr_error *error_out)
{
    (void)user, (void)index;
    mr_error_set(error_out, MR_ERR_DAMAGED, "given up");
}

static void wake_host(struct stage *s)
{
    atomic_fetch_add(&s->wake, 1);
    mr_futex_wake(&s->wake, 1);
}

/* The worker vanishes, and the supervisor gives its word back. */
static void die(struct player *p)
{
    struct stage *s = p->stage;
    struct mr_death death = {.worker = p->id, .blame = MR_BLAME_KILL, .n_samples = INT64_MAX, .describe = describe};
    pthread_mutex_lock(&s->lock);
    mr_slot_recover(&s->view, BATCH, &death);
    pthread_mutex_unlock(&s->lock);
    p->n_deaths++;
    wake_host(s);
}

/* One held place: the sample is its sequence and place, not atomic on purpose, so that TSan sees who writes when. */
static void make_sample(struct player *p, uint32_t place, uint64_t held)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t sequence = atomic_load_explicit(&view->slot->sequence, memory_order_relaxed);
    uint64_t sample[2];
    memcpy(sample, view->data + place * sizeof sample, sizeof sample);
    if ((mr_place_generation(held) & 0xffff) != (sequence & 0xffff))
        atomic_fetch_add(&p->stage->wrong, 1);
    sample[1] = sample[0] == sequence ? sample[1] + 1 : 1; /* how often it was made in this generation */
    sample[0] = sequence;
    memcpy(view->data + place * sizeof sample, sample, sizeof sample);
}

static void try_place(struct player *p, uint32_t place)
{
    struct mr_slot_view *view = &p->stage->view;
    uint64_t held;
    uint64_t seen = mr_place_load(&view->places[place]);
    if (!mr_place_take(&view->places[place], seen, p->id, &held))
        return;
    uint32_t fate = draw(&p->random) % 512;
    if (fate == 0) { /* before it has written anything */
        die(p);
        return;
    }
    make_sample(p, place, held);
    if (!mr_place_finish(&view->places[place], held)) {
        atomic_fetch_add(&p->stage->wrong, 1);
        return;
    }
    if (fate == 1) /* between DONE and the count */
        die(p);
    else if (mr_slot_count_down(view))
        wake_host(p->stage);
}

static void *work(void *arg)
{
    struct player *p = arg;
    struct stage *s = p->stage;
    while (!atomic_load(&s->stop)) {
        uint32_t seen = atomic_load(&s->work), first = draw(&p->random);
        bool any = false;
        for (uint32_t i = 0; i < BATCH; i++) {
            uint32_t place = (first + i) % BATCH;
            if (mr_place_state(mr_place_load(&s->view.places[place])) != MR_PLACE_OPEN)
                continue;
            any = true;
            try_place(p, place);
        }
        if (!any)
            mr_futex_wait(&s->work, seen, 1);
    }
    return NULL;
}

static bool is_over(const struct stage *s, bool canceled)
{
    return canceled ? !mr_slot_is_busy(&s->view) : mr_slot_is_filled(&s->view);
}

/* Wait for the end of a generation by the wake-ups alone; false when one was lost. */
static bool await(struct stage *s, bool canceled)
{
    for (;;) {
        uint32_t seen = atomic_load(&s->wake);
        if (is_over(s, canceled))
            return true;
        if (mr_futex_wait(&s->wake, seen, LOST_WAKE_UP_MS) != 0 && atomic_load(&s->wake) == seen)
            return false;
    }
}

static void publish(struct stage *s, uint64_t sequence, uint32_t n_places)
{
    for (uint32_t i = 0; i < n_places; i++)
        atomic_store_explicit(&s->view.want[i], (int64_t)i, memory_order_relaxed);
    pthread_mutex_lock(&s->lock);
    mr_slot_publish(&s->view, BATCH, sequence, 0, sequence, n_places);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->work, 1);
    mr_futex_wake(&s->work, UINT32_MAX);
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

/* A filled slot is the host's alone: every sample was made once, in this generation. */
static void collect(struct stage *s, uint64_t sequence, uint32_t n_places)
{
    assert_true(await(s, false));
    mr_slot_move(s->view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(s->view.slot, MR_SLOT_FILLED, MR_SLOT_LENT);
    for (uint32_t i = 0; i < n_places; i++) {
        uint64_t sample[2];
        memcpy(sample, s->view.data + i * sizeof sample, sizeof sample);
        assert_int_equal(sample[0], sequence);
        assert_int_equal(sample[1], 1);
        memset(s->view.data + i * sizeof sample, 0, sizeof sample);
    }
    mr_slot_move(s->view.slot, MR_SLOT_LENT, MR_SLOT_FREE);
}

static void make_stage(struct stage *s)
{
    mr_error error;
    memset(s, 0, sizeof *s);
    assert_int_equal(
        mr_slot_layout_init(
            &s->layout,
            &(struct mr_slot_shape){
                .n_slots = 1, .n_workers = N_WORKERS, .batch_size = BATCH, .sample_bytes = 16, .label_bytes = 8},
            &error),
        MR_OK);
    void *memory = aligned_alloc(4096, s->layout.slab_bytes);
    assert_non_null(memory);
    memset(memory, 0, s->layout.slab_bytes);
    s->view = mr_slot_at(&s->layout, memory, 0);
    pthread_mutex_init(&s->lock, NULL);
}

static void every_sample_is_made_once_in_its_generation(void **state)
{
    (void)state;
    static struct stage stage;
    struct player players[N_WORKERS];
    pthread_t threads[N_WORKERS];
    uint64_t n_filled = 0, n_canceled = 0, n_deaths = 0;
    uint32_t random = 2463534242u;
    make_stage(&stage);
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        players[i] = (struct player){.stage = &stage, .id = i, .random = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &players[i]), 0);
    }
    uint64_t end = mr_clock_now_ns() + MAX_SECONDS * UINT64_C(1000000000);
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
    assert_true(n_filled > 100 && n_canceled > 20 && n_deaths > 0);
    pthread_mutex_destroy(&stage.lock);
    free(stage.view.slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_made_once_in_its_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
