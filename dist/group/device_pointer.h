/* SPDX-License-Identifier: Apache-2.0 */
/* Whose memory a pointer is, without linking CUDA. */
#ifndef DIST_GROUP_DEVICE_POINTER_H
#define DIST_GROUP_DEVICE_POINTER_H

#include <stdbool.h>

struct mr_device_pointer {
    bool is_device;  /* the host cannot read it: memory of a device that is not managed */
    bool is_managed; /* both can */
    bool is_pinned;  /* the host's, known to the driver */
    int ordinal;     /* with is_device or is_managed: N of "cuda:N" */
};

/*
 * False where CUDA's driver is not loaded in this process, or not in use: then no pointer is of a
 * device, and none is known to be of the host. Threads: any. Blocks: never.
 */
bool mr_device_pointer_look(const void *pointer, struct mr_device_pointer *out);

#endif
