/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two loaders of one dataset side by side, one on the host and one on a device, with the same
 * options except the device. Every status, every array and every byte must be equal.
 */
#ifndef TESTS_GPU_GPU_LOCKSTEP_H
#define TESTS_GPU_GPU_LOCKSTEP_H

#include "tests/gpu/gpu_setup.h"

struct gpu_lockstep {
    struct gpu_setup *setup;
    mr_dataset *dataset;
    mr_loader *host;
    mr_loader *device;
    uint64_t n_batches; /* compared since the start */
    uint64_t n_bytes;
    uint64_t n_errors; /* errors instead of a batch, the same in both */
};

/*
 * options are those of the device's loader; if they name no device, setup's is used. transform
 * NULL: the default.
 */
struct gpu_lockstep gpu_lockstep_open(struct gpu_setup *setup, const char *spec,
                                      const char *transform, const mr_loader_options *options);
void gpu_lockstep_close(struct gpu_lockstep *pair);

/*
 * Compare at most max_batches of the present epoch; false if it has ended, or if something differs.
 */
bool gpu_lockstep_step(struct gpu_lockstep *pair, uint64_t max_batches);
/* Set an epoch and compare all of it. */
void gpu_lockstep_epoch(struct gpu_lockstep *pair, uint64_t epoch);

/* Compare a batch that both have returned; true if nothing differs. */
bool gpu_lockstep_compare(struct gpu_lockstep *pair, const mr_batch *host, mr_batch *device);

#endif
