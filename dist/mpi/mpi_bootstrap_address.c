/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries rank 0's address by MPI, before the store exists. If the mpirun belongs to another MPI,
 * each rank is alone in its world here: a broadcast would succeed and carry nothing. So the world
 * size is compared first.
 */
#include "dist/group/engine_table.h"

#include "dist/mpi/mpi_process.h"

#include <string.h>

static int call_bcast(struct mr_mpi_job *job)
{
    return MPI_Bcast(job->numbers, job->n_numbers, MPI_INT, 0, job->comm);
}

static int32_t check_place(const struct mr_engine_setup *setup, MPI_Comm comm, mr_error *error)
{
    int rank = 0;
    int size = 0;
    if (!mr_mpi_process_lock(setup->deadline_ns))
        return setup->fail(error, MR_ERR_TIMEOUT,
                           "another thread's MPI call did not end by the deadline");
    bool is_known =
        MPI_Comm_rank(comm, &rank) == MPI_SUCCESS && MPI_Comm_size(comm, &size) == MPI_SUCCESS;
    mr_mpi_process_unlock();
    if (!is_known)
        return setup->fail(error, MR_ERR_INVALID, "mpi_comm is not a communicator");
    if ((uint32_t)rank != setup->rank || (uint32_t)size != setup->world_size)
        return setup->fail(
            error, MR_ERR_PEER,
            "rank %u of %u is rank %d of %d in MPI: all ranks must be started by one "
            "mpirun of this MPI",
            setup->rank, setup->world_size, rank, size);
    return MR_OK;
}

static int32_t broadcast_bytes(const struct mr_engine_setup *setup, MPI_Comm comm, void *bytes,
                               uint32_t len, mr_error *error)
{
    int n_numbers = (int)((len + sizeof(int) - 1) / sizeof(int));
    struct mr_mpi_job *job = mr_mpi_process_job("MPI_Bcast", call_bcast, comm, n_numbers);
    if (!job)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %u bytes", len);
    memcpy(job->numbers, bytes, len);
    int32_t status = mr_mpi_process_do(job, setup->deadline_ns, setup->fail, error);
    if (status == MR_ERR_TIMEOUT)
        return status; /* MPI may still use the job */
    if (status == MR_OK)
        memcpy(bytes, job->numbers, len);
    mr_mpi_process_free(job);
    return status;
}

MR_API mr_mpi_bootstrap_function mr_mpi_bootstrap;

int32_t mr_mpi_bootstrap(const struct mr_engine_setup *setup, bool is_all, void *bytes,
                         uint32_t len, mr_error *error)
{
    if (setup->abi != MR_ENGINE_ABI)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "the module has interface %u, the library %u",
                           MR_ENGINE_ABI, setup->abi);
    int32_t status = mr_mpi_process_enter(setup, error);
    if (status != MR_OK)
        return status;
    MPI_Comm comm = setup->adopt ? *(MPI_Comm *)setup->adopt : MPI_COMM_WORLD;
    status = check_place(setup, comm, error);
    if (status == MR_OK)
        status = broadcast_bytes(setup, comm, bytes, len, error);
    mr_mpi_process_leave(status != MR_ERR_TIMEOUT);
    return status == MR_OK && is_all ? mr_mpi_process_finalize(setup, error) : status;
}
