/* SPDX-License-Identifier: Apache-2.0 */
/* Initialises, checks and writes structs of callers of any version. */
#include "base/public_struct.h"

#include "base/error.h"
#include "base/options.h"

#include <string.h>

#include <millrace/millrace.h>

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

void mr_struct_init(void *made, size_t size)
{
    if (!made || size < sizeof size)
        return;
    memset(made, 0, size);
    memcpy(made, &size, sizeof size);
}

MR_STRUCT_INIT_FUNCTION(mr_cache_report)
MR_STRUCT_INIT_FUNCTION(mr_dataset_options)
MR_STRUCT_INIT_FUNCTION(mr_sample)
MR_STRUCT_INIT_FUNCTION(mr_callbacks)
MR_STRUCT_INIT_FUNCTION(mr_sample_info)
MR_STRUCT_INIT_FUNCTION(mr_loader_options)
MR_STRUCT_INIT_FUNCTION(mr_loader_stats)
MR_STRUCT_INIT_FUNCTION(mr_pack_progress)
MR_STRUCT_INIT_FUNCTION(mr_pack_options)
MR_STRUCT_INIT_FUNCTION(mr_pack_report)
MR_STRUCT_INIT_FUNCTION(mr_sampler_options)
MR_STRUCT_INIT_FUNCTION(mr_explain_options)
MR_STRUCT_INIT_FUNCTION(mr_store_report)
