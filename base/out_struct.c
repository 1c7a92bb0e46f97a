/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and writes result structs of callers of any version. */
#include "base/out_struct.h"

#include "base/error.h"
#include "base/options.h"

#include <string.h>

/* A size above this version's is refused: the caller would read fields that are not written. */
mr_status mr_out_struct_check(const void *out, size_t size, const char *name, mr_error *error)
{
    size_t given = size;
    if (out)
        memcpy(&given, out, sizeof given);
    if (given == 0)
        return mr_options_refuse_zero(name, error);
    if (given < sizeof given || given > size)
        return mr_error_set(error, MR_ERR_INVALID,
                            "struct_size %zu of the %s is not from %zu to %zu", given, name,
                            sizeof given, size);
    return MR_OK;
}

void mr_out_struct_write(void *out, const void *src, size_t size)
{
    size_t given;
    if (!out)
        return;
    memcpy(&given, out, sizeof given);
    memcpy((char *)out + sizeof given, (const char *)src + sizeof given,
           (given < size ? given : size) - sizeof given);
}
