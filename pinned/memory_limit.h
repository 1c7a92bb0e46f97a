/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PINNED_MEMORY_LIMIT_H
#define PINNED_MEMORY_LIMIT_H

#include "base/error.h"

/*
 * Is there room for len_bytes more? Looks at available memory and at the limit of every enclosing
 * cgroup (v2 and v1), because reserving pages past them calls the out-of-memory killer instead of
 * failing. MR_ERR_NO_MEMORY names the size, the limit that leaves least, and by how much it is
 * missed. Unreadable limits do not count.
 */
mr_status mr_memory_limit_check(uint64_t len_bytes, mr_error *error);

/* The same of the machine whose /proc and /sys lie below root; "" is this one. */
mr_status mr_memory_limit_check_below(const char *root, uint64_t len_bytes, mr_error *error);

#endif
