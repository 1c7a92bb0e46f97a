/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of every backend: all collectives with all dtypes, operations, counts and roots,
 * against an oracle. All ranks run the suite together; each checks its own results.
 */
#ifndef TESTS_DIST_GROUP_CONTRACT_COLLECTIVES_H
#define TESTS_DIST_GROUP_CONTRACT_COLLECTIVES_H

#include "dist/group/engine_table.h"

/* Memory of the backend's kind. */
struct contract_memory {
    void *user;
    void *(*take)(void *user, size_t n_bytes);
    void (*give_back)(void *user, void *memory);
    void (*fill)(void *user, void *memory, const void *host, size_t n_bytes);
    void (*read)(void *user, void *host, const void *memory, size_t n_bytes);
};

struct contract_subject {
    uint32_t rank;
    uint32_t world_size;
    const struct contract_memory *memory; /* NULL: host memory */
    void *user;
    /*
     * Runs one collective to its end. number and stream are 0; in is NULL for a recv, out for a
     * send.
     */
    mr_status (*call)(void *user, const struct mr_collective *collective);
};

#define CONTRACT_WORDS 400

/* Returns the number of wrong cases on this rank; words_out describes the first. */
uint32_t contract_collectives_run(const struct contract_subject *subject,
                                  char words_out[CONTRACT_WORDS]);

/*
 * The same over the public interface, alternately with and without work handles. In
 * contract_group.c.
 */
uint32_t contract_group_run(mr_group *group, const struct contract_memory *memory,
                            char words_out[CONTRACT_WORDS]);

#endif
