/* SPDX-License-Identifier: Apache-2.0 */
/* The shared memory of one loader: an anonymous, sealed memfd, mapped by the host and by every worker. */
#ifndef PINNED_SLAB_H
#define PINNED_SLAB_H

#include "base/error.h"

struct mr_slab {
    int fd;
    uint8_t *base;
    uint64_t len_bytes;
};

/*
 * Make a slab, after a look at the limits. Filled with zeros; its pages come with the first touch or mr_slab_reserve().
 * MR_ERR_NO_MEMORY names the sizes.
 */
mr_status mr_slab_create(uint64_t len_bytes, struct mr_slab *slab_out, mr_error *error);

/*
 * Reserve the pages of len_bytes from off on, which takes about 10 ms for 80 MB. Workers may write meanwhile.
 * MR_ERR_NO_MEMORY names the size.
 */
mr_status mr_slab_reserve(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes, mr_error *error);

/* Map a slab that was inherited as fd; the descriptor may be closed afterwards. */
mr_status mr_slab_attach(int fd, struct mr_slab *slab_out, mr_error *error);

/* Unmap, and close the descriptor of a created slab. */
void mr_slab_destroy(struct mr_slab *slab);

#endif
