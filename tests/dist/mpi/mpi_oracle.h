/* SPDX-License-Identifier: Apache-2.0 */
/* Compares all collectives of an engine with results computed in doubles. */
#ifndef TESTS_DIST_MPI_MPI_ORACLE_H
#define TESTS_DIST_MPI_MPI_ORACLE_H

#include "dist/group/engine_table.h"

struct oracle {
    const struct mr_engine_table *table;
    void *engine;
    uint32_t rank;
    uint32_t n;
    uint64_t number;    /* number of the next collective */
    uint32_t n_checked; /* calls whose result was checked */
    uint32_t n_wrong;
};

/* Run one collective with a deadline of a minute. */
int32_t oracle_run(struct oracle *oracle, uint32_t kind, const void *in, void *out, uint64_t count,
                   uint32_t dtype, uint32_t op, uint32_t root, mr_error *error);

/*
 * Run every collective with every dtype, operation and root, with `count` elements. Wrong results
 * are printed on stderr.
 */
void oracle_try(struct oracle *oracle, uint64_t count);

#endif
