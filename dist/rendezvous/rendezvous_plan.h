/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rendezvous knows before it meets another rank: who this rank is, where it goes, and what
 * it wants.
 */
#ifndef DIST_RENDEZVOUS_RENDEZVOUS_PLAN_H
#define DIST_RENDEZVOUS_RENDEZVOUS_PLAN_H

#include "dist/rendezvous/local_address.h"
#include "dist/rendezvous/rank_identity.h"
#include "dist/rendezvous/store_address.h"

#include <millrace/group.h>

#define MR_RENDEZVOUS_ADDRESS 272 /* bytes of "HOST:PORT" or "[HOST]:PORT" with its zero */

/*
 * Where the environment is read, and how rank 0's address gets to the others where no variable
 * names it.
 */
struct mr_rendezvous_means {
    const char *(*get)(void *user, const char *name);
    void *user;
    /*
     * Under mpirun over machines, without MASTER_ADDR, in all ranks: MPI_Bcast of
     * MR_RENDEZVOUS_ADDRESS bytes, rank 0's to the others; "" when rank 0 has none. NULL: the
     * missing variable is an error.
     */
    mr_status (*bootstrap)(void *user, const struct mr_rank_identity *who, char *address,
                           mr_error *error);
    void *bootstrap_user;
    /* can it be opened? NULL: it can */
    mr_status (*find_module)(const char *backend, mr_error *error);
    /* of host names; NULL: getaddrinfo */
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
    uint16_t n_ports;  /* that rank 0 may choose from, from port upwards */
    const char *path;  /* of file:// */
    bool is_by_mpi;    /* MPI broadcasts the address of rank 0 */
    bool is_local_job; /* one mpirun on one machine: the ranks meet there without MPI */
    mr_error no_mpi;   /* where gloo takes the place of mpi, why this rank cannot have mpi; else
                          without words */
    const char *token; /* or NULL */
    uint64_t began_ns;
    uint64_t deadline_ns;
    char store_address[MR_RENDEZVOUS_ADDRESS]; /* once it is known */
};

/* Check all options and variables. options are resolved; the plan points to their memory. */
mr_status mr_rendezvous_plan_make(const struct mr_rendezvous_means *means,
                                  const mr_group_options *options,
                                  struct mr_rendezvous_plan *plan_out,
                                  struct mr_rank_identity *who_out, char backend_out[8],
                                  mr_error *error);

/* The address that rank 0 binds; it is one of this machine's. */
mr_status mr_rendezvous_plan_address(const struct mr_rendezvous_plan *plan,
                                     const struct mr_rank_identity *who,
                                     char address_out[MR_LOCAL_ADDRESS], mr_error *error);

/* "HOST:PORT", an IPv6 address in brackets; MR_ERR_INVALID without words. */
mr_status mr_rendezvous_plan_parse(const char *text, char host_out[256], uint16_t *port_out);
void mr_rendezvous_plan_spell(const char *host, uint16_t port,
                              char text_out[MR_RENDEZVOUS_ADDRESS]);

#endif
