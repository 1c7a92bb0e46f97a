/* SPDX-License-Identifier: Apache-2.0 */
/* Initialises the public structs of libmillrace. */
#include "base/struct_init.h"

#include <string.h>

#include <millrace/millrace.h>

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
