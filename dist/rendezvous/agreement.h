/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all ranks must agree on before anything else. Each puts its facts into the store; rank 0
 * compares them and leaves each rank a verdict: the backend and its place, or why there will be no
 * group.
 */
#ifndef DIST_RENDEZVOUS_AGREEMENT_H
#define DIST_RENDEZVOUS_AGREEMENT_H

#include "dist/rendezvous/rank_identity.h"
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

#define MR_AGREEMENT_UNKNOWN UINT32_MAX

/* As it lies in the store; the version comes first, so that it can be read whatever follows. */
struct mr_agreement_fact {
    char version[16];
    char backend[8];
    char boot[40]; /* of the machine: equal on two ranks that share one */
    uint32_t world_size;
    uint32_t local_rank; /* these three MR_AGREEMENT_UNKNOWN where the launcher did not say */
    uint32_t local_world_size;
    uint32_t node;
    uint32_t lacks_mpi; /* 1: the backend would be mpi, but its module cannot be opened */
};

struct mr_agreement_place {
    uint32_t local_rank;
    uint32_t local_world_size;
    uint32_t node;
};

/* This machine's boot id, "" where the kernel does not tell. */
void mr_agreement_boot(char boot_out[40]);

/* The facts of this rank. */
void mr_agreement_describe(const struct mr_rank_identity *who, const char *backend,
                           struct mr_agreement_fact *fact_out);

/* MR_ERR_PEER names a rank that differs from rank 0, and in what. */
mr_status mr_agreement_compare(const struct mr_agreement_fact *facts, uint32_t n, mr_error *error);

/*
 * Where each rank is. Machines are counted in the order of ranks, ranks on one likewise; what was
 * given stays.
 */
mr_status mr_agreement_place(const struct mr_agreement_fact *facts, uint32_t n,
                             struct mr_agreement_place *places_out, mr_error *error);

struct mr_agreement {
    struct mr_store *store; /* in rank 0 only */
    struct mr_store_client *client;
    uint64_t began_ns;
    uint64_t deadline_ns;
    const char *address; /* of the store, for messages */
    bool lacks_mpi;      /* as of the fact */
};

/*
 * Wait for all and agree. who and backend are complete on MR_OK. MR_ERR_TIMEOUT with the ranks that
 * are missing; MR_ERR_PEER as mr_agreement_compare().
 */
mr_status mr_agreement_reach(const struct mr_agreement *agreement, struct mr_rank_identity *who,
                             const char *backend, mr_error *error);

#endif
