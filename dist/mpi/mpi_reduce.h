/* SPDX-License-Identifier: Apache-2.0 */
/* Types, operations and means for MPI's reductions. MPI has no 16-bit floats and no mean. */
#ifndef DIST_MPI_MPI_REDUCE_H
#define DIST_MPI_MPI_REDUCE_H

#include "dist/group/engine_table.h"

#include <mpi.h>

/*
 * Our own operations: minima and maxima of 16-bit floats. All others are MPI's, and MR_MEAN is
 * MPI's sum, divided afterwards. Sums of 16-bit floats are computed in f32: see widen and narrow.
 */
struct mr_mpi_ops {
    MPI_Op half[2][2]; /* f16, bf16; min, max */
};

/* Returns MPI's code. */
int mr_mpi_reduce_init(struct mr_mpi_ops *ops);
void mr_mpi_reduce_fini(struct mr_mpi_ops *ops);

MPI_Datatype mr_mpi_reduce_type(uint32_t dtype);
size_t mr_mpi_reduce_size(uint32_t dtype);
const char *mr_mpi_reduce_name(uint32_t dtype);
MPI_Op mr_mpi_reduce_op(const struct mr_mpi_ops *ops, uint32_t dtype, uint32_t op);

/* Convert 16-bit floats to f32; divide f32 by n and convert it back. */
void mr_mpi_reduce_widen(uint32_t dtype, const void *halves, float *out, uint64_t count);
void mr_mpi_reduce_narrow(uint32_t dtype, const float *in, uint32_t n, void *halves,
                          uint64_t count);

/* Divide each f32 or f64 in buffer by n. */
void mr_mpi_reduce_divide(void *buffer, uint64_t count, uint32_t dtype, uint32_t n);

#endif
