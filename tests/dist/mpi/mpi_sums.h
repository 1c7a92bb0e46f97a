/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions at the limits of the types, over the mpi module. A failure is printed on stderr and
 * ends the rank.
 */
#ifndef TESTS_DIST_MPI_MPI_SUMS_H
#define TESTS_DIST_MPI_MPI_SUMS_H

#include "tests/dist/mpi/mpi_oracle.h"

/* Inexact sums: all ranks get the same bits, near the exact value. Up to 8 ranks. */
void mpi_sums_try_rounding(struct oracle *oracle);
/*
 * Means near the end of f16's range, whose sums are beyond it. (Those of bf16 would be beyond f32
 * too.)
 */
void mpi_sums_try_overflow(struct oracle *oracle);
/* Buffers that begin at odd addresses. */
void mpi_sums_try_unaligned(struct oracle *oracle);

#endif
