/* SPDX-License-Identifier: Apache-2.0 */
/* A program without CUDA. */
#include "pinned/device.h"

const struct mr_device_ops *const mr_device_tables[] = {&mr_device_host, NULL};
