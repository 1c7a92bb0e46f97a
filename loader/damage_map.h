/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bit per sample of a dataset, set if the sample was found damaged in this epoch. The search
 * for a sample that is not damaged checks 32 at a time; after the end of the dataset it continues
 * at the beginning. It jumps over runs of full words, so crossing a long run of damaged samples is
 * cheap even if it happens often.
 *
 * Invariant: one compare-and-swap checks the tag and sets the bit. A worker that is still busy with
 * a canceled batch of an earlier epoch therefore never marks a sample in a later one, whenever it
 * is stopped or dies.
 */
#ifndef LOADER_DAMAGE_MAP_H
#define LOADER_DAMAGE_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A word is tag:31 full:1 bits:32. With full set, all 32 samples are damaged, and the low half is a
 * lower bound on the number of full words from this one on, at least 1.
 */
struct mr_damage_map {
    _Atomic uint64_t *words; /* NULL: nothing is recorded */
    int64_t n_samples;
    uint32_t tag; /* low 31 bits of the epoch; words with another tag count as empty */
};
#define MR_DAMAGE_MAP_FULL (UINT64_C(1) << 32)

/* Bytes of the words; a multiple of 64. */
uint64_t mr_damage_map_bytes(int64_t n_samples);

/* Begin the epoch of this tag: clear all bits. */
void mr_damage_map_clear(const struct mr_damage_map *map);

/* Mark one sample. False if it was marked before, or the word belongs to another epoch by now. */
bool mr_damage_map_set(const struct mr_damage_map *map, int64_t index);

/*
 * The smallest distance from `want`, at least `from`, to a sample that is not marked; the number of
 * samples if all are marked. After the dataset's last sample comes its first. Without words it is
 * `from`.
 */
uint32_t mr_damage_map_pass(const struct mr_damage_map *map, int64_t want, uint32_t from);

#endif
