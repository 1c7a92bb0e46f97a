/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gloo module by itself: its table, a store of a mutex and a list of keys that threads and
 * forked processes share, and ranks as either.
 */
#ifndef TESTS_DIST_GLOO_GLOO_RIG_H
#define TESTS_DIST_GLOO_GLOO_RIG_H

#include "dist/group/engine_table.h"

#include <sys/types.h>

#define RIG_RANKS 20

struct rig_store;

/* What a rank gets to know. */
struct rig_rank {
    const struct mr_engine_table *table;
    struct mr_engine_setup setup;
    void *user;
};

/* The module's table; ends the test program where the module cannot be opened. */
const struct mr_engine_table *rig_table(void);

/* In memory that children share. */
struct rig_store *rig_store_create(void);
void rig_store_destroy(struct rig_store *store);
/* From now on every get fails as if a rank had broken. */
void rig_store_break(struct rig_store *store);

/* setup for one of world_size ranks, that must be connected in timeout_ms. */
struct rig_rank rig_rank_of(struct rig_store *store, uint32_t rank, uint32_t world_size,
                            uint32_t timeout_ms);

/* main() of n threads, one for each rank; returns how many returned something else than 0. */
uint32_t rig_threads(uint32_t n, int (*main)(struct rig_rank *rank), void *user);

/* A child that runs main() and exits with what it returns; it dies with the test program. */
pid_t rig_child(struct rig_rank *rank, int (*main)(struct rig_rank *rank));
/*
 * Its exit status, or 128 and the signal; kills it and returns 200 when it has not ended in 60 s.
 */
int rig_wait(pid_t child);

uint64_t rig_now_ns(void);
#define RIG_MS 1000000ull

/* One call of the table, with a deadline from now. */
int32_t rig_run(const struct mr_engine_table *table, void *engine,
                const struct mr_collective *collective, uint32_t timeout_ms,
                const volatile uint32_t *stop, mr_error *error);

#endif
