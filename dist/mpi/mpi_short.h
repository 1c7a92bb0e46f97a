/* SPDX-License-Identifier: Apache-2.0 */
/* all_reduce of a few bytes among a few ranks, as one all_gather and a reduction by each rank. */
#ifndef DIST_MPI_MPI_SHORT_H
#define DIST_MPI_MPI_SHORT_H

#include "dist/mpi/mpi_call.h"

/* Bytes of mr_mpi_engine.gathered, for all ranks. 0: too many ranks. */
size_t mr_mpi_short_bytes(uint32_t n_ranks);

bool mr_mpi_short_fits(const struct mr_mpi_engine *engine, const struct mr_collective *collective);

/* For a mean this is the sum, not divided. Blocks, as mr_mpi_call_do() does. */
int32_t mr_mpi_short_all_reduce(const struct mr_mpi_engine *engine,
                                const struct mr_collective *collective,
                                const struct mr_mpi_limits *limits, mr_error *error);

#endif
