/* SPDX-License-Identifier: Apache-2.0 */
/* Bits of samples found damaged, in shared or private memory. */
#include "loader/damage_map.h"

#include "base/checked.h"

uint64_t mr_damage_map_bytes(int64_t n_samples)
{
    return mr_align_up(((uint64_t)n_samples + 7) / 8, 64);
}

void mr_damage_map_clear(const struct mr_damage_map *map)
{
    if (!map->words)
        return;
    uint64_t n_words = mr_damage_map_bytes(map->n_samples) / sizeof *map->words;
    for (uint64_t i = 0; i < n_words; i++)
        if (atomic_load(&map->words[i]))
            atomic_store(&map->words[i], 0);
}

void mr_damage_map_set(const struct mr_damage_map *map, int64_t index)
{
    if (map->words)
        atomic_fetch_or(&map->words[index / 64], UINT64_C(1) << (index % 64));
}

void mr_damage_map_unset(const struct mr_damage_map *map, int64_t index)
{
    if (map->words)
        atomic_fetch_and(&map->words[index / 64], ~(UINT64_C(1) << (index % 64)));
}

/* The first clear bit in [from, to); to if there is none. */
static int64_t find_clear_bit(const struct mr_damage_map *map, int64_t from, int64_t to)
{
    while (from < to) {
        uint64_t word = atomic_load_explicit(&map->words[from / 64], memory_order_relaxed);
        uint64_t clear = ~word >> (from % 64);
        if (clear) {
            from += __builtin_ctzll(clear);
            return from < to ? from : to;
        }
        from = (from / 64 + 1) * 64;
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
