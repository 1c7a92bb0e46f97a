/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bits of samples found damaged, in shared or private memory: 32 per word, with the tag of their
 * epoch in the high bits.
 */
#include "loader/damage_map.h"

#include "base/checked.h"

enum { BITS = 32 };

static uint64_t empty_word(const struct mr_damage_map *map)
{
    return (uint64_t)map->tag << (BITS + 1);
}

static bool is_ours(const struct mr_damage_map *map, uint64_t word)
{
    return (word ^ empty_word(map)) >> (BITS + 1) == 0;
}

/* The bits of a word; 0 if the word belongs to another epoch. */
static uint32_t bits_of(const struct mr_damage_map *map, uint64_t word)
{
    if (!is_ours(map, word))
        return 0;
    return word & MR_DAMAGE_MAP_FULL ? UINT32_MAX : (uint32_t)word;
}

uint64_t mr_damage_map_bytes(int64_t n_samples)
{
    return mr_align_up(((uint64_t)n_samples + BITS - 1) / BITS * sizeof(uint64_t), 64);
}

void mr_damage_map_clear(const struct mr_damage_map *map)
{
    if (!map->words)
        return;
    uint64_t n_words = mr_damage_map_bytes(map->n_samples) / sizeof *map->words;
    for (uint64_t i = 0; i < n_words; i++)
        if (atomic_load(&map->words[i]) != empty_word(map))
            atomic_store(&map->words[i], empty_word(map));
}

bool mr_damage_map_set(const struct mr_damage_map *map, int64_t index)
{
    if (!map->words)
        return false;
    _Atomic uint64_t *word = &map->words[index / BITS];
    uint32_t bit = UINT32_C(1) << (index % BITS);
    uint64_t seen = atomic_load(word), next;
    do {
        if (!is_ours(map, seen) || bits_of(map, seen) & bit)
            return false;
        next = seen | bit;
        if ((uint32_t)next == UINT32_MAX)
            next = empty_word(map) | MR_DAMAGE_MAP_FULL | 1;
    } while (!atomic_compare_exchange_weak(word, &seen, next));
    return true;
}

/* How many words from this one on are known to be full; 0 if this one is not. */
static uint32_t count_full(const struct mr_damage_map *map, uint64_t word)
{
    return is_ours(map, word) && word & MR_DAMAGE_MAP_FULL ? (uint32_t)word : 0;
}

/*
 * The first word from `first` on that is not full. Every word on the way is updated to point there.
 * Otherwise each search for a substitute would walk through the rest of the run, and a run would
 * cost the square of its length.
 */
static int64_t skip_full(const struct mr_damage_map *map, int64_t first)
{
    int64_t n_words = (map->n_samples + BITS - 1) / BITS;
    int64_t end = first;
    uint32_t n;
    while (end < n_words &&
           (n = count_full(map, atomic_load_explicit(&map->words[end], memory_order_relaxed))) > 0)
        end += n;
    for (int64_t i = first; i < end; i += n) {
        uint64_t seen = atomic_load_explicit(&map->words[i], memory_order_relaxed);
        n = count_full(map, seen);
        if (n == 0) /* it belongs to another epoch by now */
            break;
        if (n < end - i)
            atomic_compare_exchange_strong(&map->words[i], &seen, seen - n + (uint64_t)(end - i));
    }
    return end;
}

/* The first clear bit in [from, to); to if there is none. */
static int64_t find_clear_bit(const struct mr_damage_map *map, int64_t from, int64_t to)
{
    while (from < to) {
        int64_t i = skip_full(map, from / BITS);
        if (i > from / BITS) {
            from = i * BITS;
            continue;
        }
        uint64_t word = atomic_load_explicit(&map->words[i], memory_order_relaxed);
        uint32_t clear = ~bits_of(map, word) >> (from % BITS);
        if (clear) {
            from += __builtin_ctz(clear);
            return from < to ? from : to;
        }
        from = (i + 1) * BITS;
    }
    return to;
}

uint32_t mr_damage_map_pass(const struct mr_damage_map *map, int64_t want, uint32_t from)
{
    int64_t n = map->n_samples;
    int64_t at = want + from;
    if (!map->words || from >= n)
        return from;
    if (at < n) {
        int64_t found = find_clear_bit(map, at, n);
        if (found < n)
            return (uint32_t)(found - want);
        at = n;
    }
    return (uint32_t)(find_clear_bit(map, at - n, want) + n - want);
}
