/* SPDX-License-Identifier: Apache-2.0 */
/* Counts devices in a child process, for mr_device_count() and its tests. */
#ifndef PINNED_DEVICE_COUNT_H
#define PINNED_DEVICE_COUNT_H

#include "pinned/device.h"

/*
 * Call a table's count in a child process, for at most timeout_ms. Returns 0, with an error, if the
 * call fails or the time runs out.
 */
uint32_t mr_device_count_apart(const struct mr_device_ops *ops, uint32_t timeout_ms,
                               mr_error *error);

#endif
