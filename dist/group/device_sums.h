/* SPDX-License-Identifier: Apache-2.0 */
/* Sums on a group's device, for metrics. MR_ERR_UNSUPPORTED if the engine works on host memory. */
#ifndef DIST_GROUP_DEVICE_SUMS_H
#define DIST_GROUP_DEVICE_SUMS_H

#include "dist/group/group.h"

/* Create n sums in f64, all 0. */
mr_status mr_device_sums_create(struct mr_group *group, uint32_t n, void **sums_out);
/*
 * sums[at] += *value, one number of dtype on the device, and sums[at + 1] += count, in this stream.
 */
mr_status mr_device_sums_add(struct mr_group *group, void *sums, uint32_t at, const void *value,
                             mr_dtype dtype, double count, void *stream);
void mr_device_sums_destroy(struct mr_group *group, void *sums);

#endif
