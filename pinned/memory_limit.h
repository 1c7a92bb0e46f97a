/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PINNED_MEMORY_LIMIT_H
#define PINNED_MEMORY_LIMIT_H

#include "base/error.h"

/*
 * Check that len_bytes more fit into available memory and into the limit of every enclosing cgroup
 * (v2 and v1). Without this check the out-of-memory killer would end the process when the pages are
 * reserved. MR_ERR_NO_MEMORY names the size, the limit that leaves least, and how much is missing.
 * Limits that cannot be read do not count.
 */
mr_status mr_memory_limit_check(uint64_t len_bytes, mr_error *error);

/* The same for the machine whose /proc and /sys are below root; "" is this machine. */
mr_status mr_memory_limit_check_below(const char *root, uint64_t len_bytes, mr_error *error);

#endif
