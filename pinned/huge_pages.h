/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of 2 MiB the kernel offers for shared memory. root is put before every path; it is ""
 * except in tests.
 */
#ifndef PINNED_HUGE_PAGES_H
#define PINNED_HUGE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define MR_HUGE_PAGES_BYTES (UINT64_C(2) << 20)

/* Bytes of the pool of such pages (vm.nr_hugepages) that are neither used nor promised. */
uint64_t mr_huge_pages_free(const char *root);

/*
 * True if shared memory gets transparent huge pages when its mapping asks for them with madvise().
 */
bool mr_huge_pages_on_request(const char *root);

#endif
