/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker is started with, and what it does before its first sample. */
#ifndef LOADER_WORKERS_WORKER_SETUP_H
#define LOADER_WORKERS_WORKER_SETUP_H

#include "dataset/catalog.h"
#include "loader/control.h"

#include <millrace/dataset.h>

struct mr_worker_job {
    struct mr_shared shared;
    const struct mr_catalog *catalog; /* of the dataset; NULL with callbacks */
    const mr_callbacks *callbacks;    /* NULL unless the dataset is made of callbacks */
    uint32_t id;
    bool own_process; /* neither a thread nor the caller of the loader */
};

/*
 * Set name, nice level and CPU. In a process of its own, also install the fault handler. Failures
 * are ignored.
 */
void mr_worker_setup_process(const struct mr_worker_job *job);

/*
 * If files are remote, leave out of a core of this process what requests are made of: signatures
 * and tokens are in headers, in the memory of libcurl. The core then has neither heap nor stack.
 */
void mr_worker_setup_cores(const struct mr_worker_job *job);

/* Move to the CPUs near the device once the host has set them. True when that is done. */
bool mr_worker_setup_move_near(const struct mr_worker_job *job);

#endif
