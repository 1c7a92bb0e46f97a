/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte array that grows by half of its size at a time.
 *
 * Invariant: a pointer into the bytes is invalid after any call that may grow them.
 */
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { FIRST_BYTES = 256 };

mr_status mr_bytes_reserve(struct mr_bytes *bytes, size_t n, mr_error *error)
{
    size_t need;
    if (!mr_checked_add(bytes->len, n, &need))
        return mr_error_memory(error, SIZE_MAX);
    if (need <= bytes->size)
        return MR_OK;
    size_t size = bytes->size < FIRST_BYTES ? FIRST_BYTES : bytes->size;
    if (!mr_checked_add(size, bytes->size / 2, &size) || size < need)
        size = need;
    uint8_t *grown = realloc(bytes->data, size);
    if (!grown)
        return mr_error_memory(error, size);
    bytes->data = grown;
    bytes->size = size;
    return MR_OK;
}

mr_status mr_bytes_append(struct mr_bytes *bytes, const void *data, size_t len, mr_error *error)
{
    mr_status status = mr_bytes_reserve(bytes, len, error);
    if (status < 0)
        return status;
    if (len > 0)
        memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return MR_OK;
}

mr_status mr_bytes_append_u64(struct mr_bytes *bytes, uint64_t value, mr_error *error)
{
    return mr_bytes_append(bytes, &value, sizeof value, error);
}

void mr_bytes_clear(struct mr_bytes *bytes, size_t keep)
{
    bytes->len = 0;
    if (bytes->size > keep)
        mr_bytes_fini(bytes);
}

void mr_bytes_fini(struct mr_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct mr_bytes){0};
}
