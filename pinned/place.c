/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moves of a place. A worker that takes a place sees what was published, and a reader that sees
 * DONE sees the pixels; acquire and release would be enough for that.
 *
 * Invariant: moves are seq_cst. The host cancels a slot and then looks for BUSY words; a worker
 * ends its BUSY word and then checks whether the slot is canceled. At least one of the two must see
 * the other's move.
 */
#include "pinned/place.h"

static uint64_t make_word(enum mr_place_state state, uint32_t blame, uint32_t worker,
                          uint64_t generation)
{
    return (uint64_t)state | (uint64_t)(blame & 63u) << 2 | (uint64_t)(worker & 0xffffu) << 8 |
           generation << 24;
}

static bool swap_word(struct mr_place *place, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong(&place->word, &from, to);
}

void mr_place_open(struct mr_place *place, uint64_t generation)
{
    uint64_t word = make_word(MR_PLACE_OPEN, 0, 0, generation & MR_PLACE_GENERATION_MASK);
    atomic_store_explicit(&place->word, word, memory_order_release);
}

void mr_place_shut(struct mr_place *place, uint64_t generation)
{
    uint64_t word = make_word(MR_PLACE_CLOSED, 0, 0, generation & MR_PLACE_GENERATION_MASK);
    atomic_store_explicit(&place->word, word, memory_order_release);
}

bool mr_place_take(struct mr_place *place, uint64_t seen, uint32_t worker, uint64_t *held_out)
{
    if (mr_place_state(seen) != MR_PLACE_OPEN)
        return false;
    uint64_t held =
        make_word(MR_PLACE_BUSY, mr_place_blame(seen), worker, mr_place_generation(seen));
    if (!swap_word(place, seen, held))
        return false;
    *held_out = held;
    return true;
}

bool mr_place_absolve(struct mr_place *place, uint64_t *held)
{
    uint64_t word = make_word(MR_PLACE_BUSY, 0, mr_place_worker(*held), mr_place_generation(*held));
    if (!swap_word(place, *held, word))
        return false;
    *held = word;
    return true;
}

bool mr_place_finish(struct mr_place *place, uint64_t held)
{
    return swap_word(place, held,
                     make_word(MR_PLACE_DONE, 0, mr_place_worker(held), mr_place_generation(held)));
}

bool mr_place_reopen(struct mr_place *place, uint64_t held, uint32_t blame)
{
    return swap_word(place, held, make_word(MR_PLACE_OPEN, blame, 0, mr_place_generation(held)));
}

bool mr_place_cancel(struct mr_place *place)
{
    uint64_t word = mr_place_load(place);
    while (mr_place_state(word) == MR_PLACE_OPEN) {
        if (swap_word(place, word, make_word(MR_PLACE_CLOSED, 0, 0, mr_place_generation(word))))
            return true;
        word = mr_place_load(place);
    }
    return false;
}

bool mr_place_abandon(struct mr_place *place, uint64_t held)
{
    return swap_word(place, held, make_word(MR_PLACE_CLOSED, 0, 0, mr_place_generation(held)));
}
