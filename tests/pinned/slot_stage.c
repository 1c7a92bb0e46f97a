/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/pinned/slot_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"

enum { LOST_WAKE_UP_MS = 5000, MIN_FILLED = 100, MIN_CANCELED = 20 };

void stage_make(struct stage *s, struct mr_slot_shape shape)
{
    mr_error error;
    shape.n_slots = 1;
    shape.n_workers = STAGE_WORKERS;
    shape.batch_size = STAGE_BATCH;
    memset(s, 0, sizeof *s);
    assert_int_equal(mr_slot_layout_init(&s->layout, &shape, &error), MR_OK);
    void *memory = aligned_alloc(4096, s->layout.slab_bytes);
    assert_non_null(memory);
    memset(memory, 0, s->layout.slab_bytes);
    s->view = mr_slot_at(&s->layout, memory, 0);
    pthread_mutex_init(&s->lock, NULL);
}

void stage_drop(struct stage *s)
{
    pthread_mutex_destroy(&s->lock);
    free(s->view.slot);
}

void stage_publish(struct stage *s, uint64_t sequence, uint32_t n_places)
{
    for (uint32_t i = 0; i < n_places; i++)
        atomic_store_explicit(&s->view.want[i], (int64_t)i, memory_order_relaxed);
    pthread_mutex_lock(&s->lock);
    mr_slot_publish(&s->view, STAGE_BATCH, sequence, 0, sequence, n_places);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&s->work, 1);
    mr_futex_wake(&s->work, UINT32_MAX);
}

static void describe(void *user, int64_t index, mr_error *error_out)
{
    (void)user, (void)index;
    mr_error_set(error_out, MR_ERR_DAMAGED, "given up");
}

uint32_t stage_bury(struct stage *s, uint32_t worker)
{
    struct mr_death death = {
        .worker = worker, .blame = MR_BLAME_CRASH, .n_samples = INT64_MAX, .describe = describe};
    pthread_mutex_lock(&s->lock);
    uint32_t n = mr_slot_recover(&s->view, STAGE_BATCH, &death);
    pthread_mutex_unlock(&s->lock);
    return n;
}

uint32_t stage_draw(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

void stage_wake_host(struct stage *s)
{
    atomic_fetch_add(&s->wake, 1);
    mr_futex_wake(&s->wake, 1);
}

void stage_die(struct player *p)
{
    stage_bury(p->stage, p->id);
    atomic_fetch_add(&p->stage->n_deaths, 1);
    stage_wake_host(p->stage);
}

static void *work(void *arg)
{
    struct player *p = arg;
    struct stage *s = p->stage;
    while (!atomic_load(&s->stop)) {
        uint32_t seen = atomic_load(&s->work), first = stage_draw(&p->random);
        bool any = false;
        for (uint32_t k = 0; k < STAGE_BATCH; k++)
            any = s->script->try_place(p, (first + k) % STAGE_BATCH) || any;
        if (!any)
            mr_futex_wait(&s->work, seen, 1);
    }
    return NULL;
}

/* Wait for the end of a generation, relying only on the wake-ups. */
static void await(struct stage *s, bool canceled)
{
    for (;;) {
        uint32_t seen = atomic_load(&s->wake);
        if (canceled ? !mr_slot_is_busy(&s->view) : mr_slot_is_filled(&s->view))
            return;
        if (mr_futex_wait(&s->wake, seen, LOST_WAKE_UP_MS) != 0 && atomic_load(&s->wake) == seen)
            fail_msg("no wake-up within %d ms", LOST_WAKE_UP_MS);
    }
}

static void cancel(struct stage *s)
{
    pthread_mutex_lock(&s->lock);
    mr_slot_cancel(&s->view);
    pthread_mutex_unlock(&s->lock);
    await(s, true);
    pthread_mutex_lock(&s->lock);
    mr_slot_move(s->view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    pthread_mutex_unlock(&s->lock);
}

/* Only the host uses a filled slot. */
static void collect(struct stage *s, uint64_t sequence, uint32_t n_places)
{
    await(s, false);
    mr_slot_move(s->view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(s->view.slot, MR_SLOT_FILLED, MR_SLOT_LENT);
    for (uint32_t i = 0; i < n_places; i++)
        s->script->check_place(s, i, sequence);
    mr_slot_move(s->view.slot, MR_SLOT_LENT, MR_SLOT_FREE);
}

void stage_play(struct stage *s, const struct stage_script *script, uint32_t ms)
{
    struct player players[STAGE_WORKERS];
    pthread_t threads[STAGE_WORKERS];
    uint32_t n_filled = 0, n_canceled = 0, random = 2463534242u;
    s->script = script;
    for (uint32_t i = 0; i < STAGE_WORKERS; i++) {
        players[i] = (struct player){.stage = s, .id = i, .random = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &players[i]), 0);
    }
    uint64_t sequence = 0, end = mr_clock_now_ns() + ms * UINT64_C(1000000);
    while (mr_clock_now_ns() < end || n_filled < MIN_FILLED || n_canceled < MIN_CANCELED ||
           atomic_load(&s->n_deaths) == 0) {
        uint32_t n_places = 1 + stage_draw(&random) % STAGE_BATCH;
        stage_publish(s, ++sequence, n_places);
        if (stage_draw(&random) % 4 == 0) {
            for (uint32_t spin = stage_draw(&random) % 2000; spin > 0; spin--)
                atomic_load(&s->wake);
            cancel(s);
            n_canceled++;
        } else {
            collect(s, sequence, n_places);
            n_filled++;
        }
    }
    atomic_store(&s->stop, 1);
    for (uint32_t i = 0; i < STAGE_WORKERS; i++)
        pthread_join(threads[i], NULL);
    print_message("%u filled, %u canceled, %u deaths\n", n_filled, n_canceled,
                  atomic_load(&s->n_deaths));
    assert_int_equal(atomic_load(&s->wrong), 0);
}
