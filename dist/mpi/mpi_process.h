/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI exists once per process: who initialised it, which threads may call it, whether it was given
 * up, and the one thread in which its blocking calls are made, so that a caller can stop waiting
 * for them.
 */
#ifndef DIST_MPI_MPI_PROCESS_H
#define DIST_MPI_MPI_PROCESS_H

#include "dist/group/engine_table.h"

#include <mpi.h>

/*
 * One blocking call. Freed by mr_mpi_process_do() where the call was given up, else by the caller.
 */
struct mr_mpi_job {
    int (*call)(struct mr_mpi_job *job); /* in MPI's thread; returns MPI's code */
    const char *name;                    /* "MPI_Comm_free" */
    MPI_Comm comm;
    MPI_Comm made; /* by MPI_Comm_create_group */
    int *numbers;  /* the ranks in comm of the group to be made, or what is carried */
    int n_numbers;
    int code;
    bool is_done;
};

/* A job with room for so many numbers. NULL without memory. */
struct mr_mpi_job *mr_mpi_process_job(const char *name, int (*call)(struct mr_mpi_job *job),
                                      MPI_Comm comm, int n_numbers);
void mr_mpi_process_free(struct mr_mpi_job *job);

/*
 * Initialise MPI unless it is, and count one more engine. MR_ERR_STATE when it was given up or
 * finalised before, MR_ERR_UNSUPPORTED when its calls may not come from other threads.
 */
int32_t mr_mpi_process_enter(const struct mr_engine_setup *setup, mr_error *error);
/* One engine less. healthy false: MPI is given up. */
void mr_mpi_process_leave(bool healthy);

/*
 * Do a blocking call. MR_OK, or MR_ERR_TIMEOUT: MPI was given up then, and the job is not the
 * caller's any more.
 * MR_ERR_PEER: MPI returned an error. fail may be NULL where nobody wants the words.
 */
int32_t mr_mpi_process_do(struct mr_mpi_job *job, uint64_t deadline_ns,
                          int32_t (*fail)(mr_error *, int32_t, const char *, ...), mr_error *error);

/*
 * MPI is not needed any more: finalise it now and not at exit, if this library initialised it and
 * no engine is left.
 */
int32_t mr_mpi_process_finalize(const struct mr_engine_setup *setup, mr_error *error);

/*
 * No further call of MPI by this process: one is under way that will not end, and it holds buffers
 * of its caller.
 */
void mr_mpi_process_give_up(void);
bool mr_mpi_process_is_usable(void);

/*
 * Around every call that does not block, where MPI allows one thread at a time. try refuses while
 * another is in it; lock waits for it and is false when the deadline has passed or MPI was given
 * up.
 */
bool mr_mpi_process_try(void);
bool mr_mpi_process_lock(uint64_t deadline_ns);
void mr_mpi_process_unlock(void);

#endif
