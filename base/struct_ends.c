/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each public struct with a struct_size ends with its last field. In padding behind it a later field would have its
 * place within the struct_size of today's callers, who leave padding unspecified. A field that is added becomes the
 * last one here; where this fails, give it 8 bytes or place it before a pointer.
 */
#include <assert.h>
#include <stddef.h>

#include <millrace/dist.h>
#include <millrace/millrace.h>

#define ENDS_WITH(type, last)                                                                                          \
    static_assert(sizeof(type) == offsetof(type, last) + sizeof(((type *)NULL)->last),                                 \
                  #type " must end with the field " #last ", without padding")

ENDS_WITH(mr_cache_report, n_filled_index);
ENDS_WITH(mr_callbacks, label_shape);
ENDS_WITH(mr_dataset_options, progress_user);
ENDS_WITH(mr_explain_options, partner_is_hole);
ENDS_WITH(mr_group_options, nccl_comm);
ENDS_WITH(mr_launch_options, grace_ms);
ENDS_WITH(mr_launch_result, pid);
ENDS_WITH(mr_loader_options, soft_labels);
ENDS_WITH(mr_loader_stats, page_locked_bytes);
ENDS_WITH(mr_pack_options, user);
ENDS_WITH(mr_pack_progress, seconds);
ENDS_WITH(mr_pack_report, n_marked);
ENDS_WITH(mr_sample, error);
ENDS_WITH(mr_sample_info, orientation);
ENDS_WITH(mr_sampler_options, n_weight_values);
