/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends rank 0's address to the other ranks under mpirun on several machines, if no variable names
 * it.
 */
#ifndef DIST_GROUP_MPI_BOOTSTRAP_H
#define DIST_GROUP_MPI_BOOTSTRAP_H

#include "dist/rendezvous/rendezvous.h"

struct mr_mpi_bootstrap {
    uint64_t deadline_ns;
    uint32_t timeout_ms;
    bool is_all; /* MPI is not needed afterwards: the backend is not mpi */
    void *adopt; /* MPI_Comm *, or NULL */
};

/*
 * For mr_rendezvous_means.bootstrap; user is a struct mr_mpi_bootstrap. MR_ERR_UNSUPPORTED without
 * the mpi module.
 */
mr_status mr_mpi_bootstrap_address(void *user, const struct mr_rank_identity *who, char *address,
                                   mr_error *error);

#endif
