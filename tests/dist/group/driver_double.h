/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of CUDA's driver, only the part that reports which memory a pointer belongs to. A shared
 * library with the driver's name, so that a program that is linked with it has "the driver" loaded.
 */
#ifndef TESTS_DIST_GROUP_DRIVER_DOUBLE_H
#define TESTS_DIST_GROUP_DRIVER_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Set what the driver reports for these bytes. Call it before the ranks begin; only a few ranges.
 */
__attribute__((visibility("default"))) void
driver_double_say(const void *at, size_t len, bool is_device, bool is_managed, int ordinal);

#endif
