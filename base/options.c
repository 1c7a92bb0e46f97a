/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies options structs of any version.
 *
 * Invariant: struct_size comes from a struct that may be uninitialised, so its bounds are checked
 * before any byte after it is read.
 */
#include "base/options.h"

#include "base/error.h"

#include <assert.h>
#include <string.h>

enum { MAX_OPTIONS_BYTES = 4096 };

static mr_status check_unknown_bytes(const unsigned char *src, size_t from, size_t to,
                                     mr_error *error)
{
    for (size_t i = from; i < to; i++)
        if (src[i])
            return mr_error_set(
                error, MR_ERR_INVALID,
                "struct_size %zu is above this library's %zu and byte %zu is not zero", to, from,
                i);
    return MR_OK;
}

mr_status mr_options_check_reserved(const void *reserved, size_t n, const char *type,
                                    mr_error *error)
{
    const unsigned char *bytes = reserved;
    for (size_t i = 0; i < n; i++)
        if (bytes[i])
            return mr_error_set(error, MR_ERR_INVALID, "reserved of the %s is not 0", type);
    return MR_OK;
}

mr_status mr_options_refuse_zero(const char *type, mr_error *error)
{
    char macro[64];
    size_t n = 0;
    for (; type[n] && n + 1 < sizeof macro; n++)
        macro[n] = (char)(type[n] >= 'a' && type[n] <= 'z' ? type[n] - 'a' + 'A' : type[n]);
    macro[n] = '\0';
    return mr_error_set(error, MR_ERR_INVALID,
                        "struct_size of the %s is 0: initialise it with %s_INIT", type, macro);
}

mr_status mr_options_copy(void *dst, size_t dst_size, const void *src, const char *type,
                          mr_error *error)
{
    assert(dst_size >= sizeof(size_t) && dst_size <= MAX_OPTIONS_BYTES);
    size_t src_size = dst_size;
    memset(dst, 0, dst_size);
    if (src)
        memcpy(&src_size, src, sizeof src_size);
    if (src_size == 0)
        return mr_options_refuse_zero(type, error);
    if (src_size < sizeof src_size || src_size > MAX_OPTIONS_BYTES)
        return mr_error_set(error, MR_ERR_INVALID,
                            "struct_size %zu of the %s is not between %zu and %d", src_size, type,
                            sizeof src_size, MAX_OPTIONS_BYTES);
    if (src && src_size > dst_size && check_unknown_bytes(src, dst_size, src_size, error) != MR_OK)
        return MR_ERR_INVALID;
    if (src)
        memcpy(dst, src, src_size < dst_size ? src_size : dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    return MR_OK;
}
