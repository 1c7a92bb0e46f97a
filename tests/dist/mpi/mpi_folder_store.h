/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a folder, for engines that are tried without the rendezvous. One file per key. */
#ifndef TESTS_DIST_MPI_MPI_FOLDER_STORE_H
#define TESTS_DIST_MPI_MPI_FOLDER_STORE_H

#include "dist/group/engine_table.h"

struct folder_store {
    char path[200];  /* of the folder */
    char prefix[40]; /* of the group's keys */
};

struct mr_engine_store folder_store_of(struct folder_store *store);

/* Wait until all n ranks have called this with the same name; without MPI. False after 20 s. */
bool folder_store_meet(const char *path, const char *name, uint32_t rank, uint32_t n);

#endif
