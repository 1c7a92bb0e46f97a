/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bit for each sample of a dataset: it was found damaged in this epoch. The samples that follow a
 * damaged one are looked through 32 at a time, from the end of the dataset on to its beginning.
 * Runs of full words are skipped at once, so the way through a run of damaged samples costs little,
 * however often it is gone.
 *
 * Invariant: a bit is set together with a look at the tag, in one compare-and-swap. A worker that
 * is still at a canceled batch of an earlier epoch therefore never marks a sample in a later one,
 * whenever it is stopped or dies.
 */
#ifndef LOADER_DAMAGE_MAP_H
#define LOADER_DAMAGE_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A word is tag:31 full:1 bits:32. If full is set, all 32 samples are damaged, and the low half
 * says how many words are full from this one on: at least 1, and perhaps more by now.
 */
struct mr_damage_map {
    _Atomic uint64_t *words; /* NULL: nothing is remembered, and nothing is known */
    int64_t n_samples;
    uint32_t tag; /* of the epoch: its low 31 bits; words of another tag count as empty */
};
#define MR_DAMAGE_MAP_FULL (UINT64_C(1) << 32)

/* Bytes of the words; a multiple of 64. */
uint64_t mr_damage_map_bytes(int64_t n_samples);

/* Begin this tag's epoch: no sample is known to be damaged. */
void mr_damage_map_clear(const struct mr_damage_map *map);

/* Remember one sample. False if it was known, or the words are another epoch's by now. */
bool mr_damage_map_set(const struct mr_damage_map *map, int64_t index);

/*
 * The smallest distance from `want`, at least `from`, at which a sample is not known to be damaged;
 * the number of samples if all are. After the dataset's last sample comes its first. Without words
 * it is `from`.
 */
uint32_t mr_damage_map_pass(const struct mr_damage_map *map, int64_t want, uint32_t from);

#endif
