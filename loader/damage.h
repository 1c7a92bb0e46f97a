/* SPDX-License-Identifier: Apache-2.0 */
/* The damaged samples of batches that were returned. */
#ifndef LOADER_DAMAGE_H
#define LOADER_DAMAGE_H

#include "base/error.h"
#include "dataset/catalog.h"
#include "loader/control.h"

#define MR_DAMAGE_NAMED 1000

struct mr_damage {
    uint64_t n_seen;           /* places whose wanted sample was damaged */
    uint64_t n_distinct;       /* different samples among those */
    struct mr_damage_map seen; /* a bit for each of these; allocated for the first one */
    bool warned_other_size;
    uint32_t n_named;
    mr_error *named; /* the first of these, at most MR_DAMAGE_NAMED; allocated for the first one */
};

void mr_damage_fini(struct mr_damage *damage);

/* Count and list the damage of a filled slot, in the order of places. */
void mr_damage_collect(struct mr_damage *damage, const struct mr_control *control,
                       const struct mr_slot_view *view, const struct mr_catalog *catalog);

/* Has a place neither a sample nor a hole, so that an error takes the batch's place? */
bool mr_damage_has_failure(const struct mr_slot_view *view);

/*
 * The error that takes the batch's place: the first one that is not damage, otherwise the damage of
 * the lowest place. If no sample of the batch or the dataset decodes, the error says how many there
 * are and names the first few. Returns true and sets *error_out if a place has failed.
 */
bool mr_damage_first_failure(const struct mr_control *control, const struct mr_slot_view *view,
                             const struct mr_catalog *catalog, mr_error *error_out);

#endif
