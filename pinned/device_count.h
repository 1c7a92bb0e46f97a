/* SPDX-License-Identifier: Apache-2.0 */
/* Counts devices in a child process, for mr_device_count() and its tests. */
#ifndef PINNED_DEVICE_COUNT_H
#define PINNED_DEVICE_COUNT_H

#include "pinned/device.h"

/* A table's count, called in a child that gets so much time; 0 with error when it fails or its time runs out. */
uint32_t mr_device_count_apart(const struct mr_device_ops *ops, uint32_t timeout_ms, mr_error *error);

#endif
