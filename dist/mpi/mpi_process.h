/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of MPI, which exists once per process: whether this library initialised it, which
 * threads may call it, and whether it was given up. One thread makes its blocking calls, so that a
 * caller can stop waiting for them.
 */
#ifndef DIST_MPI_MPI_PROCESS_H
#define DIST_MPI_MPI_PROCESS_H

#include "dist/group/engine_table.h"

#include <mpi.h>

/*
 * One blocking call. mr_mpi_process_do() owns it if the call was given up, otherwise the caller
 * frees it.
 */
struct mr_mpi_job {
    int (*call)(struct mr_mpi_job *job); /* runs in MPI's thread; returns MPI's code */
    const char *name;                    /* "MPI_Comm_free" */
    MPI_Comm comm;
    MPI_Comm made; /* by MPI_Comm_create_group */
    int *numbers;  /* the new group's ranks in comm, or the bytes to broadcast */
    int n_numbers;
    int code;
    bool is_done;
};

/* Make a job with room for n_numbers. NULL: out of memory. */
struct mr_mpi_job *mr_mpi_process_job(const char *name, int (*call)(struct mr_mpi_job *job),
                                      MPI_Comm comm, int n_numbers);
void mr_mpi_process_free(struct mr_mpi_job *job);

/*
 * Initialise MPI if needed, and count one more engine. MR_ERR_STATE: it was given up or finalised
 * before. MR_ERR_UNSUPPORTED: it does not allow calls from other threads.
 */
int32_t mr_mpi_process_enter(const struct mr_engine_setup *setup, mr_error *error);
/* Count one engine less. healthy false: give MPI up. */
void mr_mpi_process_leave(bool healthy);

/*
 * Do a blocking call. MR_ERR_TIMEOUT: MPI is given up, and the job no longer belongs to the caller.
 * MR_ERR_PEER: MPI returned an error. fail may be NULL if the message is not needed.
 */
int32_t mr_mpi_process_do(struct mr_mpi_job *job, uint64_t deadline_ns,
                          int32_t (*fail)(mr_error *, int32_t, const char *, ...), mr_error *error);

/* Finalise MPI now, not at exit, if this library initialised it and no engine is left. */
int32_t mr_mpi_process_finalize(const struct mr_engine_setup *setup, mr_error *error);

/*
 * Allow no further MPI call in this process, because one that may never end still holds its
 * caller's buffers.
 */
void mr_mpi_process_give_up(void);
bool mr_mpi_process_is_usable(void);

/*
 * Around every nonblocking call, because MPI may allow only one thread at a time. try returns false
 * while another thread is inside. lock waits, and returns false if the deadline has passed or MPI
 * was given up.
 */
bool mr_mpi_process_try(void);
bool mr_mpi_process_lock(uint64_t deadline_ns);
void mr_mpi_process_unlock(void);

#endif
