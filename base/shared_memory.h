/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous shared memory. It is freed with its last descriptor and mapping. */
#ifndef BASE_SHARED_MEMORY_H
#define BASE_SHARED_MEMORY_H

#include <stdint.h>

#include "base/error.h"

/*
 * Make a region of len_bytes zeros. name is shown in /proc/PID/maps. No memory is reserved: pages
 * are allocated at their first write.
 *
 * Returns MR_OK; MR_ERR_NO_MEMORY with the sizes if RLIMIT_FSIZE is smaller; MR_ERR_IO.
 * Ownership: *fd_out (close-on-exec, sealable) is the caller's; -1 on failure.
 */
mr_status mr_shared_memory_create(const char *name, uint64_t len_bytes, int *fd_out,
                                  mr_error *error);

/* Change the size of a region that is not sealed. Errors as above: the size is then unchanged. */
mr_status mr_shared_memory_resize(int fd, const char *name, uint64_t len_bytes, mr_error *error);

/* The largest size that RLIMIT_FSIZE allows, UINT64_MAX without a limit. */
uint64_t mr_shared_memory_limit(void);

/* Fix the size permanently; the content stays writable. Returns 0 or a negative errno. */
int mr_shared_memory_seal(int fd);
/* Fix size and content permanently. Returns -EBUSY while a writable mapping exists. */
int mr_shared_memory_seal_content(int fd);

#endif
