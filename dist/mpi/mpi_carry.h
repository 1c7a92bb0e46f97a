/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second symbol of the mpi module, for the rendezvous: under mpirun MPI knows the way to rank 0 before anybody else
 * does.
 */
#ifndef DIST_MPI_MPI_CARRY_H
#define DIST_MPI_MPI_CARRY_H

#include "dist/group/engine_table.h"

#define MR_MPI_CARRY_SYMBOL "mr_mpi_carry"

/*
 * Rank 0's bytes to all others; all ranks call it together. Of the setup: abi, rank, world_size, deadline_ns,
 * timeout_ms, adopt and fail. is_all: MPI is needed for nothing else (the backend is another one), so it is finalised
 * here, where all ranks are together, and not at an exit that a rank may never come to.
 *
 * MR_ERR_PEER when MPI's rank or size is not the setup's, with both numbers; MR_ERR_TIMEOUT.
 */
typedef int32_t mr_mpi_carry_function(const struct mr_engine_setup *setup, bool is_all, void *bytes, uint32_t len,
                                      mr_error *error);

#endif
