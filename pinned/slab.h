/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of one loader: an anonymous, sealed memfd, mapped by the host and by every
 * worker. It uses huge pages (2 MiB) where they are available; their absence is no failure.
 */
#ifndef PINNED_SLAB_H
#define PINNED_SLAB_H

#include "base/error.h"

enum mr_slab_pages {
    MR_SLAB_PAGES_SMALL,
    MR_SLAB_PAGES_ASKED, /* the mapping asks for transparent huge pages */
    MR_SLAB_PAGES_POOL,  /* from the pool of huge pages, all of them there since the creation */
};

struct mr_slab {
    int fd;
    uint8_t *base;
    uint64_t len_bytes;
    enum mr_slab_pages pages;
};

/*
 * Make a slab with the largest kind of pages that the kernel offers, up to `most`, after checking
 * the limits on memory. From the pool of huge pages it is a little longer than asked, and its pages
 * lie where this thread's policy puts them. Filled with zeros; its pages come with the first touch
 * or mr_slab_reserve(). MR_ERR_NO_MEMORY names the sizes.
 */
mr_status mr_slab_create(uint64_t len_bytes, enum mr_slab_pages most, struct mr_slab *slab_out,
                         mr_error *error);

/*
 * Reserve the pages of len_bytes from off on, which takes about 10 ms for 80 MB. Workers may write
 * meanwhile. MR_ERR_NO_MEMORY names the size.
 */
mr_status mr_slab_reserve(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                          mr_error *error);

/*
 * The same, and map them into this process: what page-locks them then finds them, and need not
 * bring them itself under the locks of its driver. Before Linux 5.14 they are only reserved.
 */
mr_status mr_slab_populate(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                           mr_error *error);

/*
 * Map a slab that was inherited as fd, huge pages where there are some; the descriptor may be
 * closed afterwards.
 */
mr_status mr_slab_attach(int fd, struct mr_slab *slab_out, mr_error *error);

/*
 * Ask for transparent huge pages where this mapping is the first to touch the memory; slab->pages
 * says whether the kernel agreed.
 */
void mr_slab_ask(struct mr_slab *slab);

/* Unmap, and close the descriptor of a created slab. */
void mr_slab_destroy(struct mr_slab *slab);

#endif
