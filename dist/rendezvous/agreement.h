/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all ranks must agree on first. Each rank writes its facts into the store. Rank 0 compares
 * them and writes a verdict for each rank: its place, or why there is no group.
 */
#ifndef DIST_RENDEZVOUS_AGREEMENT_H
#define DIST_RENDEZVOUS_AGREEMENT_H

#include "dist/rendezvous/rank_identity.h"
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

#define MR_AGREEMENT_UNKNOWN UINT32_MAX

/* As stored. The version comes first, so that any version can read it. */
struct mr_agreement_fact {
    char version[16];
    char backend[8];
    char boot[40]; /* of the machine; equal on ranks that share one */
    uint32_t world_size;
    uint32_t local_rank; /* this and the next two: MR_AGREEMENT_UNKNOWN if the launcher set none */
    uint32_t local_world_size;
    uint32_t node;
    uint32_t lacks_mpi; /* 1: the backend would be mpi, but its module cannot be opened */
};

struct mr_agreement_place {
    uint32_t local_rank;
    uint32_t local_world_size;
    uint32_t node;
};

/* This machine's boot id; "" if the kernel does not provide it. */
void mr_agreement_boot(char boot_out[40]);

/* The facts of this rank. */
void mr_agreement_describe(const struct mr_rank_identity *who, const char *backend,
                           struct mr_agreement_fact *fact_out);

/* MR_ERR_PEER names a rank that differs from rank 0, and the difference. */
mr_status mr_agreement_compare(const struct mr_agreement_fact *facts, uint32_t n, mr_error *error);

/*
 * The place of each rank. Machines are numbered in the order of ranks, and so are the ranks of one
 * machine. Values that a launcher gave are used unchanged.
 */
mr_status mr_agreement_place(const struct mr_agreement_fact *facts, uint32_t n,
                             struct mr_agreement_place *places_out, mr_error *error);

struct mr_agreement {
    struct mr_store *store; /* in rank 0 only */
    struct mr_store_client *client;
    uint64_t began_ns;
    uint64_t deadline_ns;
    const char *address; /* the store's, for messages */
    bool lacks_mpi;      /* as in the fact */
};

/*
 * Wait for all ranks and agree. On MR_OK, who is complete. MR_ERR_TIMEOUT names the missing ranks;
 * MR_ERR_PEER as mr_agreement_compare().
 */
mr_status mr_agreement_reach(const struct mr_agreement *agreement, struct mr_rank_identity *who,
                             const char *backend, mr_error *error);

#endif
