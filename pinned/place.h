/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One word per place of a slot: the only truth about who holds a sample. If the rows of a batch are
 * mixed, a second word says which worker mixes the row; it makes the same moves.
 *
 *   CLOSED -> OPEN    the host publishes a batch, with a new generation
 *   OPEN   -> BUSY    a worker begins to decode; second word: to mix, once the first words of the
 *                     row and of its partner are DONE
 *   BUSY   -> DONE    the same worker has written the sample, or the mixed row
 *   BUSY   -> OPEN    the supervisor, after that worker is certainly dead; blame grows, except in
 *                     the second word
 *   OPEN   -> CLOSED  the host cancels the batch
 *   BUSY   -> CLOSED  the supervisor, after a death in a cancelled batch
 *   DONE   -> OPEN    the host publishes the next batch in this slot
 *
 * Every move is a compare-and-swap on the whole word, so a move by a process that slept through a
 * generation fails.
 */
#ifndef PINNED_PLACE_H
#define PINNED_PLACE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum mr_place_state { MR_PLACE_CLOSED, MR_PLACE_OPEN, MR_PLACE_BUSY, MR_PLACE_DONE };

/* state:2 blame:6 worker:16 generation:40; CAS with seq_cst. */
struct mr_place {
    _Atomic uint64_t word;
};
static_assert(sizeof(struct mr_place) == 8, "a place is one word");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words shared between processes must be lock-free");

#define MR_PLACE_GENERATION_MASK ((UINT64_C(1) << 40) - 1)
/*
 * At this blame a sample counts as damaged. A crash or a time limit adds 10, a SIGKILL that this
 * library did not send adds 1.
 */
#define MR_BLAME_LIMIT 20u
#define MR_BLAME_CRASH 10u
#define MR_BLAME_KILL 1u

static inline enum mr_place_state mr_place_state(uint64_t word)
{
    return (enum mr_place_state)(word & 3u);
}
static inline uint32_t mr_place_blame(uint64_t word)
{
    return (uint32_t)(word >> 2) & 63u;
}
static inline uint32_t mr_place_worker(uint64_t word)
{
    return (uint32_t)(word >> 8) & 0xffffu;
}
static inline uint64_t mr_place_generation(uint64_t word)
{
    return word >> 24;
}

static inline uint64_t mr_place_load(const struct mr_place *place)
{
    return atomic_load_explicit(&place->word, memory_order_acquire);
}

/* Publish: the host only, while no worker can hold the place. */
void mr_place_open(struct mr_place *place, uint64_t generation);
void mr_place_shut(struct mr_place *place, uint64_t generation);

/* OPEN -> BUSY for worker, if the word is still `seen`. On success *held_out is the new word. */
bool mr_place_take(struct mr_place *place, uint64_t seen, uint32_t worker, uint64_t *held_out);
/*
 * Clear the blame of a place that the caller holds, because its candidate changes; *held becomes
 * the new word.
 */
bool mr_place_absolve(struct mr_place *place, uint64_t *held);
/* BUSY -> DONE, if the word is still `held`. */
bool mr_place_finish(struct mr_place *place, uint64_t held);
/* BUSY -> OPEN with this blame, after the holder's death. */
bool mr_place_reopen(struct mr_place *place, uint64_t held, uint32_t blame);
/* OPEN -> CLOSED, whatever the blame; false when it was not OPEN. */
bool mr_place_cancel(struct mr_place *place);
/* BUSY -> CLOSED after the holder's death in a cancelled slot. */
bool mr_place_abandon(struct mr_place *place, uint64_t held);

#endif
