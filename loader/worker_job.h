/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker is started with: its number, the slab, and the dataset. */
#ifndef LOADER_WORKER_JOB_H
#define LOADER_WORKER_JOB_H

#include "dataset/catalog.h"
#include "loader/control.h"

#include <millrace/dataset.h>

struct mr_worker_job {
    struct mr_shared shared;
    const struct mr_catalog *catalog; /* of the dataset; NULL with callbacks */
    const mr_callbacks *callbacks;    /* NULL unless the dataset is the program's own */
    uint32_t id;
};

#endif
