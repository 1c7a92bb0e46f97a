/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of samples found damaged, in shared or private memory: 32 of them to a word, below the tag of their epoch. */
#include "loader/damage_map.h"

#include "base/checked.h"

enum { BITS = 32 };

static uint64_t empty_word(const struct mr_damage_map *map)
{
    return (uint64_t)map->tag << BITS;
}

/* The bits of a word; none if they are another epoch's. */
static uint32_t bits_of(const struct mr_damage_map *map, uint64_t word)
{
    return word >> BITS == map->tag ? (uint32_t)word : 0;
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

void mr_damage_map_set(const struct mr_damage_map *map, int64_t index)
{
    if (!map->words)
        return;
    _Atomic uint64_t *word = &map->words[index / BITS];
    uint64_t seen = atomic_load(word);
    while (seen >> BITS == map->tag && !atomic_compare_exchange_weak(word, &seen, seen | UINT64_C(1) << (index % BITS)))
        continue;
}

/* The first clear bit in [from, to); to if there is none. */
static int64_t find_clear_bit(const struct mr_damage_map *map, int64_t from, int64_t to)
{
    while (from < to) {
        uint64_t word = atomic_load_explicit(&map->words[from / BITS], memory_order_relaxed);
        uint32_t clear = ~bits_of(map, word) >> (from % BITS);
        if (clear) {
            from += __builtin_ctz(clear);
            return from < to ? from : to;
        }
        from = (from / BITS + 1) * BITS;
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
