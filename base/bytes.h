/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow at their end, for what is gathered before its length is known. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Starts as zeros. */
struct mr_bytes {
    uint8_t *data;
    size_t len;
    size_t size; /* allocated */
};

/*
 * Make room for n bytes after len; their address may change. MR_ERR_NO_MEMORY leaves it as it was.
 */
mr_status mr_bytes_reserve(struct mr_bytes *bytes, size_t n, mr_error *error);

/* Append len bytes; MR_ERR_NO_MEMORY leaves it as it was. */
mr_status mr_bytes_append(struct mr_bytes *bytes, const void *data, size_t len, mr_error *error);
mr_status mr_bytes_append_u64(struct mr_bytes *bytes, uint64_t value, mr_error *error);

/* No bytes are left; memory of more than keep bytes is given back. */
void mr_bytes_clear(struct mr_bytes *bytes, size_t keep);
void mr_bytes_fini(struct mr_bytes *bytes);

#endif
