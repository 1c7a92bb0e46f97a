/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bit for each sample of a dataset: it was found damaged in this epoch. The samples that follow a damaged one are
 * looked through 32 at a time, from the end of the dataset on to its beginning.
 *
 * Invariant: a bit is set together with a look at the tag, in one compare-and-swap. A worker that is still at a
 * canceled batch of an earlier epoch therefore never marks a sample in a later one, whenever it is stopped or dies.
 */
#ifndef LOADER_DAMAGE_MAP_H
#define LOADER_DAMAGE_MAP_H

#include <stdatomic.h>
#include <stdint.h>

struct mr_damage_map {
    _Atomic uint64_t *words; /* NULL: nothing is remembered, and nothing is known */
    int64_t n_samples;
    uint32_t tag; /* of the epoch: its low bits; words of another tag count as empty */
};

/* Bytes of the words; a multiple of 64. */
uint64_t mr_damage_map_bytes(int64_t n_samples);

/* Begin this tag's epoch: no sample is known to be damaged. */
void mr_damage_map_clear(const struct mr_damage_map *map);

/* Remember one sample, unless the words are another epoch's by now. */
void mr_damage_map_set(const struct mr_damage_map *map, int64_t index);

/*
 * The smallest distance from `want`, at least `from`, at which a sample is not known to be damaged; the number of
 * samples if all are. After the dataset's last sample comes its first. Without words it is `from`.
 */
uint32_t mr_damage_map_pass(const struct mr_damage_map *map, int64_t want, uint32_t from);

#endif
