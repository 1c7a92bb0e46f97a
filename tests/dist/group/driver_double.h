/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of CUDA's driver, as much of it as tells whose memory a pointer is. A shared library by
 * the driver's own name, so that a program that is linked with it has "the driver" loaded.
 */
#ifndef TESTS_DIST_GROUP_DRIVER_DOUBLE_H
#define TESTS_DIST_GROUP_DRIVER_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>

/* What the driver says of these bytes from now on. Before the ranks begin; a handful of them. */
__attribute__((visibility("default"))) void
driver_double_say(const void *at, size_t len, bool is_device, bool is_managed, int ordinal);

#endif
