/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every backend has to do alike: all collectives with all dtypes, operations, counts and
 * roots, against an oracle. All ranks run the suite together; each looks at its own results.
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
    const struct contract_memory *memory; /* NULL: the host's */
    void *user;
    /*
     * One collective, which has ended when this returns; number, stream and, with a send or a recv,
     * in or out are 0.
     */
    mr_status (*call)(void *user, const struct mr_collective *collective);
};

#define CONTRACT_WORDS 400

/* Returns how many cases went wrong here; words_out then tells of the first. */
uint32_t contract_collectives_run(const struct contract_subject *subject,
                                  char words_out[CONTRACT_WORDS]);

/*
 * The same over the public interface, by turns with and without work handles. In contract_group.c.
 */
uint32_t contract_group_run(mr_group *group, const struct contract_memory *memory,
                            char words_out[CONTRACT_WORDS]);

#endif
