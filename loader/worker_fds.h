/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors that an exec'd worker inherits, by number. */
#ifndef LOADER_WORKER_FDS_H
#define LOADER_WORKER_FDS_H

#include "dataset/catalog.h"

enum {
    MR_WORKER_FD_SLAB,    /* the slab */
    MR_WORKER_FD_CATALOG, /* the dataset's, in the order of dataset/catalog.h; closed where there is none */
    MR_WORKER_N_FDS = MR_WORKER_FD_CATALOG + MR_CATALOG_N_FDS
};
#define MR_WORKER_FIRST_FD 3

#endif
