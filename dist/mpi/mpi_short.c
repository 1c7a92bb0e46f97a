/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce of a few bytes. MPI's nonblocking all_reduce takes as many steps for few bytes as for
 * many. If there are more ranks than CPUs, each step waits for the scheduler. Gathering needs one
 * step. Each rank then reduces in the order of the ranks, so all get the same bits.
 *
 * Invariant: the gathered bytes are in the engine, not in the call, because MPI may still write to
 * them after a failure.
 */
#include "dist/mpi/mpi_short.h"

#include "dist/mpi/mpi_process.h"

#include <string.h>

#define MAX_BYTES 4096u /* of one rank */
#define MAX_RANKS 16u   /* every rank sends to every other one */

static size_t len_of(const struct mr_collective *collective)
{
    return (size_t)collective->count * mr_mpi_reduce_size(collective->dtype);
}

size_t mr_mpi_short_bytes(uint32_t n_ranks)
{
    return n_ranks > 1 && n_ranks <= MAX_RANKS ? (size_t)n_ranks * MAX_BYTES : 0;
}

bool mr_mpi_short_fits(const struct mr_mpi_engine *engine, const struct mr_collective *collective)
{
    return collective->kind == MR_COLLECTIVE_ALL_REDUCE && engine->gathered &&
           collective->count > 0 &&
           collective->count <= MAX_BYTES / mr_mpi_reduce_size(collective->dtype);
}

/* In the order of the ranks. */
static int reduce_gathered(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                           void *out, size_t len)
{
    int code = MPI_SUCCESS;
    memcpy(out, engine->gathered, len);
    for (uint32_t rank = 1; rank < engine->n_ranks && code == MPI_SUCCESS; rank++)
        code = MPI_Reduce_local((char *)engine->gathered + rank * len, out, part->count, part->type,
                                part->op);
    return code;
}

int32_t mr_mpi_short_all_reduce(const struct mr_mpi_engine *engine,
                                const struct mr_collective *collective,
                                const struct mr_mpi_limits *limits, mr_error *error)
{
    const struct mr_mpi_part part = {
        .collective = collective,
        .in = collective->in,
        .out = engine->gathered,
        .count = (int)collective->count,
        .type = mr_mpi_reduce_type(collective->dtype),
        .block = MPI_DATATYPE_NULL,
        .op = mr_mpi_reduce_op(&engine->ops, collective->dtype, collective->op),
        .is_gathered = true};
    int32_t status = mr_mpi_call_do(engine, &part, limits, error);
    if (status != MR_OK)
        return status;
    if (!mr_mpi_process_lock(limits->deadline_ns))
        return mr_mpi_call_give_up(engine, &part, limits, error);
    int code = reduce_gathered(engine, &part, collective->out, len_of(collective));
    mr_mpi_process_unlock();
    return code == MPI_SUCCESS ? MR_OK : mr_mpi_call_fail(engine, collective, code, error);
}
