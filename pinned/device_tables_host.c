/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of devices of a program without CUDA. */
#include "pinned/device.h"

const struct mr_device_ops *const mr_device_tables[] = {&mr_device_host, NULL};
