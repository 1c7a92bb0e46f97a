/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank of MPI is which rank of the group: agreed over the store, before MPI is asked for
 * anything collective.
 */
#ifndef DIST_MPI_MPI_RANKS_H
#define DIST_MPI_MPI_RANKS_H

#include "dist/group/engine_table.h"

#include <mpi.h>

/*
 * is_whole: every rank of comm must be in the group. ranks_out: for each rank of the group its rank
 * in comm. MR_ERR_PEER on all ranks alike when the launcher's numbers and MPI's do not fit, with
 * the rank and both numbers.
 */
int32_t mr_mpi_ranks_agree(const struct mr_engine_setup *setup, MPI_Comm comm, bool is_whole,
                           int *ranks_out, mr_error *error);

#endif
