/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a folder, one file for each key, for tests of engines without the rendezvous. */
#ifndef TESTS_DIST_MPI_MPI_FOLDER_STORE_H
#define TESTS_DIST_MPI_MPI_FOLDER_STORE_H

#include "dist/group/engine_table.h"

struct folder_store {
    char path[200];  /* the folder */
    char prefix[40]; /* begins all keys of the group */
};

struct mr_engine_store folder_store_of(struct folder_store *store);

/* Wait, without MPI, until all n ranks have called this with the same name. False after 20 s. */
bool folder_store_meet(const char *path, const char *name, uint32_t rank, uint32_t n);

#endif
