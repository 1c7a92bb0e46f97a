/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the GPUs, and the GPU that a name means. */
#ifndef PINNED_CUDA_FIND_H
#define PINNED_CUDA_FIND_H

#include "base/error.h"

/*
 * The number of visible GPUs, at least 1. MR_ERR_NO_DEVICE says why there is none. Makes no
 * context.
 */
mr_status mr_cuda_find_count(uint32_t *n_out, mr_error *error);

/* The ordinal that id means; id may be MR_DEVICE_LOCAL. MR_ERR_NO_DEVICE says what is missing. */
mr_status mr_cuda_find_ordinal(int32_t id, int32_t *ordinal_out, mr_error *error);

/* The NUMA node of a GPU; -1 if unknown. */
int32_t mr_cuda_find_node(int32_t ordinal);

#endif
