/* SPDX-License-Identifier: Apache-2.0 */
/* All collectives of an engine against sums of doubles. */
#ifndef TESTS_DIST_MPI_MPI_ORACLE_H
#define TESTS_DIST_MPI_MPI_ORACLE_H

#include "dist/group/engine_table.h"

struct oracle {
    const struct mr_engine_table *table;
    void *engine;
    uint32_t rank;
    uint32_t n;
    uint64_t number;    /* of the next collective */
    uint32_t n_checked; /* calls whose result was looked at */
    uint32_t n_wrong;
};

/* One collective, with a minute of time. */
int32_t oracle_run(struct oracle *oracle, uint32_t kind, const void *in, void *out, uint64_t count,
                   uint32_t dtype, uint32_t op, uint32_t root, mr_error *error);

/*
 * Every collective with every dtype, operation and root, of so many elements. Says on stderr what
 * is wrong.
 */
void oracle_try(struct oracle *oracle, uint64_t count);

#endif
