/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bit for each sample of a dataset: it was found damaged. The samples that follow a damaged one are looked through 64
 * at a time, from the end of the dataset on to its beginning.
 */
#ifndef LOADER_DAMAGE_MAP_H
#define LOADER_DAMAGE_MAP_H

#include <stdatomic.h>
#include <stdint.h>

struct mr_damage_map {
    _Atomic uint64_t *words; /* NULL: nothing is remembered, and nothing is known */
    int64_t n_samples;
};

/* Bytes of the words; a multiple of 64. */
uint64_t mr_damage_map_bytes(int64_t n_samples);

/* Forget all; seq_cst: whoever sets a bit after it also sees what the caller did before it. */
void mr_damage_map_clear(const struct mr_damage_map *map);

/* Remember, or forget, one sample; seq_cst. */
void mr_damage_map_set(const struct mr_damage_map *map, int64_t index);
void mr_damage_map_unset(const struct mr_damage_map *map, int64_t index);

/*
 * The smallest distance from `want`, at least `from`, at which a sample is not known to be damaged; the number of
 * samples if all are. After the dataset's last sample comes its first. Without words it is `from`.
 */
uint32_t mr_damage_map_pass(const struct mr_damage_map *map, int64_t want, uint32_t from);

#endif
