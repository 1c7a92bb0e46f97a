/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies options structs of any version.
 *
 * Invariant: struct_size comes from a struct that may be uninitialised, so it is checked against bounds before a single
 * byte past it is read.
 */
#include "base/options.h"

#include "base/error.h"

#include <assert.h>
#include <string.h>

enum { MAX_OPTIONS_BYTES = 4096 };

static mr_status check_unknown(const unsigned char *src, size_t from, size_t to, mr_error *error)
{
    for (size_t i = from; i < to; i++)
        if (src[i])
            return mr_error_set(error, MR_ERR_INVALID,
                                "struct_size %zu is above this library's %zu and byte %zu is not zero", to, from, i);
    return MR_OK;
}

mr_status mr_options_copy(void *dst, size_t dst_size, const void *src, mr_error *error)
{
    assert(dst_size >= sizeof(size_t) && dst_size <= MAX_OPTIONS_BYTES);
    size_t src_size = dst_size;
    memset(dst, 0, dst_size);
    if (src)
        memcpy(&src_size, src, sizeof src_size);
    if (src_size == 0)
        return mr_error_set(error, MR_ERR_INVALID, "struct_size is 0: the options were not initialised");
    if (src_size < sizeof src_size || src_size > MAX_OPTIONS_BYTES)
        return mr_error_set(error, MR_ERR_INVALID, "struct_size %zu is not between %zu and %d", src_size,
                            sizeof src_size, MAX_OPTIONS_BYTES);
    if (src && src_size > dst_size && check_unknown(src, dst_size, src_size, error) != MR_OK)
        return MR_ERR_INVALID;
    if (src)
        memcpy(dst, src, src_size < dst_size ? src_size : dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    return MR_OK;
}
