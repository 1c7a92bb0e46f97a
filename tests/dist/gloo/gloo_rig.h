/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gloo module alone: its table, a store that threads and forked processes share (a mutex and a
 * list of keys), and ranks as threads or processes.
 */
#ifndef TESTS_DIST_GLOO_GLOO_RIG_H
#define TESTS_DIST_GLOO_GLOO_RIG_H

#include "dist/group/engine_table.h"

#include <sys/types.h>

#define RIG_RANKS 20

struct rig_store;

/* What a rank's function is given. */
struct rig_rank {
    const struct mr_engine_table *table;
    struct mr_engine_setup setup;
    void *user;
};

/* The module's table. Ends the test program if the module cannot be opened. */
const struct mr_engine_table *rig_table(void);

/* Creates a store in memory that children share. */
struct rig_store *rig_store_create(void);
void rig_store_destroy(struct rig_store *store);
/* From now on every get fails, as if a rank had disconnected. */
void rig_store_break(struct rig_store *store);
/* Tell the test that this rank is so far; wait until n ranks have said so. After 60 s aborts. */
void rig_store_say(struct rig_store *store, const char *word);
void rig_store_await(struct rig_store *store, const char *word, uint32_t n);

/* The setup of one of world_size ranks, which must connect within timeout_ms. */
struct rig_rank rig_rank_of(struct rig_store *store, uint32_t rank, uint32_t world_size,
                            uint32_t timeout_ms);

/* Run main() in n threads, one for each rank. Returns how many did not return 0. */
uint32_t rig_threads(uint32_t n, int (*main)(struct rig_rank *rank), void *user);

/* Fork a child that exits with main()'s result. It is killed when the test program dies. */
pid_t rig_child(struct rig_rank *rank, int (*main)(struct rig_rank *rank));
/*
 * Wait for a child. Returns its exit status, or 128 + the signal. After 60 s kills it and returns
 * 200.
 */
int rig_wait(pid_t child);

uint64_t rig_now_ns(void);
#define RIG_MS 1000000ull

/* Call run of the table with a deadline from now. */
int32_t rig_run(const struct mr_engine_table *table, void *engine,
                const struct mr_collective *collective, uint32_t timeout_ms,
                const volatile uint32_t *stop, mr_error *error);

#endif
