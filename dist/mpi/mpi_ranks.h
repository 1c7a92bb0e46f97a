/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank of MPI is which rank of the group. Ranks agree on this over the store, before the
 * first collective MPI call.
 */
#ifndef DIST_MPI_MPI_RANKS_H
#define DIST_MPI_MPI_RANKS_H

#include "dist/group/engine_table.h"

#include <mpi.h>

/*
 * is_whole: every rank of comm must be in the group. ranks_out: for each rank of the group its rank
 * in comm. MR_ERR_PEER, on all ranks: the launcher's numbers and MPI's do not match; the error
 * names the rank and both numbers.
 */
int32_t mr_mpi_ranks_agree(const struct mr_engine_setup *setup, MPI_Comm comm, bool is_whole,
                           int *ranks_out, mr_error *error);

#endif
