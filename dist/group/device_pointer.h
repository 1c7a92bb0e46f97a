/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a pointer belongs to, without linking CUDA. */
#ifndef DIST_GROUP_DEVICE_POINTER_H
#define DIST_GROUP_DEVICE_POINTER_H

#include <stdbool.h>

struct mr_device_pointer {
    bool is_device;  /* device memory that is not managed: the host cannot read it */
    bool is_managed; /* host and device can read it */
    bool is_pinned;  /* host memory that the driver has pinned */
    int ordinal;     /* with is_device or is_managed: N of "cuda:N" */
};

/*
 * False if CUDA's driver is not loaded in this process, is not initialised, or returns an error:
 * *out is then all zero, and the pointer may be anything. Threads: any. Never blocks.
 */
bool mr_device_pointer_look(const void *pointer, struct mr_device_pointer *out);

#endif
