/* SPDX-License-Identifier: Apache-2.0 */
/* A byte array that grows at its end, for data whose length is not known in advance. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A struct of zeros is empty. */
struct mr_bytes {
    uint8_t *data;
    size_t len;
    size_t size; /* allocated */
};

/* Make room for n bytes after len. data may move. On MR_ERR_NO_MEMORY the bytes are unchanged. */
mr_status mr_bytes_reserve(struct mr_bytes *bytes, size_t n, mr_error *error);

/* Append len bytes. On MR_ERR_NO_MEMORY the bytes are unchanged. */
mr_status mr_bytes_append(struct mr_bytes *bytes, const void *data, size_t len, mr_error *error);
mr_status mr_bytes_append_u64(struct mr_bytes *bytes, uint64_t value, mr_error *error);

/* Set the length to 0. Memory of more than keep bytes is freed. */
void mr_bytes_clear(struct mr_bytes *bytes, size_t keep);
void mr_bytes_fini(struct mr_bytes *bytes);

#endif
