/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that grow at their end, for files and samples whose length is not known before they are made. The memory is
 * kept from one image to the next, except what one huge image took.
 */
#ifndef PACKS_PACKER_BYTES_H
#define PACKS_PACKER_BYTES_H

#include "base/error.h"

/* Starts as zeros. */
struct mr_packer_bytes {
    uint8_t *at;
    size_t len;
    size_t room; /* allocated */
};

void mr_packer_bytes_clear(struct mr_packer_bytes *bytes);
void mr_packer_bytes_fini(struct mr_packer_bytes *bytes);

/*
 * Make room for n bytes behind len, and for MR_TILE_SLACK behind those. The bytes are kept; their address may change.
 */
mr_status mr_packer_bytes_reserve(struct mr_packer_bytes *bytes, size_t n, mr_error *error);

/* Append; the two may not overlap. */
mr_status mr_packer_bytes_add(struct mr_packer_bytes *bytes, const void *from, size_t n, mr_error *error);

#endif
