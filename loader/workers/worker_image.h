/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper programs: their bytes, contained in the library (worker_image.S), and the descriptors
 * that it inherits.
 */
#ifndef LOADER_WORKERS_WORKER_IMAGE_H
#define LOADER_WORKERS_WORKER_IMAGE_H

#include <stdint.h>

#include "dataset/catalog.h"

extern const uint8_t mr_worker_image[];
extern const uint8_t mr_worker_image_end[];
/* The helper for remote files; no bytes: the one above reads them too. */
extern const uint8_t mr_remote_worker_image[];
extern const uint8_t mr_remote_worker_image_end[];

/* The descriptors, from MR_WORKER_FIRST_FD on. */
enum {
    MR_WORKER_FD_SLAB,
    MR_WORKER_FD_SETTINGS, /* of stores; closed without remote files */
    /* the dataset's, in the order of dataset/catalog.h; a missing one is closed */
    MR_WORKER_FD_CATALOG,
    MR_WORKER_N_FDS = MR_WORKER_FD_CATALOG + MR_CATALOG_N_FDS
};
#define MR_WORKER_FIRST_FD 3

#endif
