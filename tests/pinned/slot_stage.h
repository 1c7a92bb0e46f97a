/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slot with threads that play workers on it, and a host that publishes, cancels, lets workers
 * "die" and publishes again. The host relies only on the wake-ups: a lost one fails the test.
 */
#ifndef TESTS_PINNED_SLOT_STAGE_H
#define TESTS_PINNED_SLOT_STAGE_H

#include "pinned/slot.h"

#include <pthread.h>

enum { STAGE_WORKERS = 3, STAGE_BATCH = 12 };

struct stage;

struct player {
    struct stage *stage;
    uint32_t id;
    uint32_t random;
};

/* The part of a play that differs between tests. */
struct stage_script {
    /* returns true if there was work for this place */
    bool (*try_place)(struct player *player, uint32_t place);
    /* checks a place of a filled generation */
    void (*check_place)(struct stage *stage, uint32_t place, uint64_t sequence);
};

struct stage {
    struct mr_slot_layout layout;
    struct mr_slot_view view;
    const struct stage_script *script;
    _Atomic uint32_t wake; /* the host sleeps on it */
    _Atomic uint32_t work; /* workers sleep on it */
    _Atomic uint32_t stop;
    _Atomic uint32_t wrong; /* counted by the script */
    _Atomic uint32_t n_deaths;
    pthread_mutex_t lock; /* like the loader's: recovery and cancelling exclude each other */
};

/* The stage sets the shape's numbers of slots, workers and places. */
void stage_make(struct stage *stage, struct mr_slot_shape shape);
void stage_drop(struct stage *stage);

void stage_publish(struct stage *stage, uint64_t sequence, uint32_t n_places);
/* Act as the supervisor after a crash; returns the result of mr_slot_recover(). */
uint32_t stage_bury(struct stage *stage, uint32_t worker);

uint32_t stage_draw(uint32_t *random);
void stage_wake_host(struct stage *stage);
/* The worker disappears, and the supervisor recovers its word. */
void stage_die(struct player *player);

/* Play generations for about ms, and until some were filled, some cancelled and a worker died. */
void stage_play(struct stage *stage, const struct stage_script *script, uint32_t ms);

#endif
