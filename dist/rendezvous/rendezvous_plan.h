/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a rendezvous, made before any other rank is contacted: who this rank is, where rank 0
 * is, and what was asked for.
 */
#ifndef DIST_RENDEZVOUS_RENDEZVOUS_PLAN_H
#define DIST_RENDEZVOUS_RENDEZVOUS_PLAN_H

#include "dist/rendezvous/local_address.h"
#include "dist/rendezvous/rank_identity.h"
#include "dist/rendezvous/store_address.h"

#include <millrace/group.h>

#define MR_RENDEZVOUS_ADDRESS 272 /* bytes of "HOST:PORT" or "[HOST]:PORT", including the zero */

/*
 * Where variables are read, and how the other ranks learn rank 0's address if no variable names it.
 */
struct mr_rendezvous_means {
    const char *(*get)(void *user, const char *name);
    void *user;
    /*
     * MPI_Bcast of MR_RENDEZVOUS_ADDRESS bytes from rank 0. Called in all ranks under mpirun on
     * several machines if MASTER_ADDR is not set. Rank 0 sends "" if it has no address. NULL: the
     * missing variable is an error.
     */
    mr_status (*bootstrap)(void *user, const struct mr_rank_identity *who, char *address,
                           mr_error *error);
    void *bootstrap_user;
    /* Can this backend's module be opened? NULL: every module can. */
    mr_status (*find_module)(const char *backend, mr_error *error);
    /* for host names; NULL: getaddrinfo */
    mr_store_resolver *resolver;
};

enum mr_rendezvous_way {
    MR_RENDEZVOUS_BY_ENVIRONMENT,
    MR_RENDEZVOUS_BY_TCP,
    MR_RENDEZVOUS_BY_FILE
};

struct mr_rendezvous_plan {
    const struct mr_rendezvous_means *means;
    enum mr_rendezvous_way way;
    char host[256];
    uint16_t port;
    uint16_t n_ports;  /* rank 0 may choose from this many, from port upwards */
    const char *path;  /* of file:// */
    bool is_by_mpi;    /* MPI broadcasts the address of rank 0 */
    bool is_local_job; /* one mpirun on one machine: the ranks meet without MPI */
    mr_error no_mpi;   /* if gloo replaces mpi: why this rank cannot use mpi; else empty */
    const char *token; /* or NULL */
    uint64_t began_ns;
    uint64_t deadline_ns;
    char store_address[MR_RENDEZVOUS_ADDRESS]; /* empty until it is known */
};

/*
 * Check all options and variables. options must be resolved and must outlive the plan, which points
 * into them.
 */
mr_status mr_rendezvous_plan_make(const struct mr_rendezvous_means *means,
                                  const mr_group_options *options,
                                  struct mr_rendezvous_plan *plan_out,
                                  struct mr_rank_identity *who_out, char backend_out[8],
                                  mr_error *error);

/* The address that rank 0 binds. It is one of this machine's. */
mr_status mr_rendezvous_plan_address(const struct mr_rendezvous_plan *plan,
                                     const struct mr_rank_identity *who,
                                     char address_out[MR_LOCAL_ADDRESS], mr_error *error);

/* Parses "HOST:PORT"; an IPv6 address is in brackets. MR_ERR_INVALID sets no error text. */
mr_status mr_rendezvous_plan_parse(const char *text, char host_out[256], uint16_t *port_out);
void mr_rendezvous_plan_spell(const char *host, uint16_t port,
                              char text_out[MR_RENDEZVOUS_ADDRESS]);

#endif
