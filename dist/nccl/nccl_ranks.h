/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks compare before NCCL begins. */
#ifndef DIST_NCCL_NCCL_RANKS_H
#define DIST_NCCL_NCCL_RANKS_H

#include "dist/nccl/nccl_state.h"

/*
 * Rank 0 compares the cards of all ranks. MR_OK: *id_out is the communicator's id. Otherwise the
 * error is rank 0's refusal, the same on all ranks.
 */
int32_t mr_nccl_ranks_agree(const struct mr_nccl_engine *engine,
                            const struct mr_engine_setup *setup, ncclUniqueId *id_out,
                            mr_error *error);

#endif
