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
    MR_SLAB_PAGES_POOL,  /* taken from the pool of huge pages, all at creation */
};

struct mr_slab {
    int fd;
    uint8_t *base;
    uint64_t len_bytes;
    enum mr_slab_pages pages;
};

/*
 * Make a slab with the largest kind of pages that the kernel offers, up to `most`, after checking
 * the limits on memory. A slab from the pool of huge pages is up to one page longer than asked, and
 * this thread's NUMA policy decides where its pages are. The slab is filled with zeros. Other pages
 * are taken at the first touch or by mr_slab_reserve(). MR_ERR_NO_MEMORY names the sizes.
 */
mr_status mr_slab_create(uint64_t len_bytes, enum mr_slab_pages most, struct mr_slab *slab_out,
                         mr_error *error);

/*
 * Reserve the pages of len_bytes bytes from off on; 80 MB take about 10 ms. Workers may write
 * meanwhile. MR_ERR_NO_MEMORY names the size.
 */
mr_status mr_slab_reserve(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                          mr_error *error);

/*
 * The same, and map the pages into this process, so that page-locking does not fault them in under
 * the driver's locks. Before Linux 5.14 they are only reserved.
 */
mr_status mr_slab_populate(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                           mr_error *error);

/*
 * Map a slab whose descriptor fd this process inherited, with huge pages if the slab has them. fd
 * may be closed afterwards.
 */
mr_status mr_slab_attach(int fd, struct mr_slab *slab_out, mr_error *error);

/*
 * Ask the kernel for transparent huge pages, for the pages that this process is the first to touch.
 * slab->pages says whether it agreed.
 */
void mr_slab_ask(struct mr_slab *slab);

/* Unmap, and close the descriptor of a created slab. */
void mr_slab_destroy(struct mr_slab *slab);

#endif
