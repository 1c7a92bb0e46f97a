/* SPDX-License-Identifier: Apache-2.0 */
/* The list of damaged samples of batches that were returned. */
#ifndef LOADER_DAMAGE_H
#define LOADER_DAMAGE_H

#include "base/error.h"
#include "dataset/catalog.h"
#include "loader/control.h"

#define MR_DAMAGE_KEPT 1000

struct mr_damage {
    uint64_t n_seen;           /* places whose wanted sample was damaged */
    uint32_t n_kept;           /* distinct indices, at most MR_DAMAGE_KEPT */
    mr_error *kept;            /* grows */
    struct mr_damage_map seen; /* the distinct indices; its words are made when first needed */
    uint64_t n_distinct;
    bool warned; /* of memory that was lacking */
};

void mr_damage_fini(struct mr_damage *damage);

/* Count and list the damage of a filled slot, in the order of places. n_samples: of the dataset. */
void mr_damage_collect(struct mr_damage *damage, int64_t n_samples, const struct mr_slot_view *view);

/* Has a place no sample and no hole, so that an error takes the batch's place? */
bool mr_damage_has_failure(const struct mr_slot_view *view);

/*
 * The error that takes the batch's place: the first one that is not damage, else the damage of the lowest place; where
 * nothing decodes, it counts and names the first few. True with *error_out when a place has failed.
 */
bool mr_damage_first_failure(const struct mr_control *control, const struct mr_slot_view *view,
                             const struct mr_catalog *catalog, mr_error *error_out);

#endif
