/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From options and environment to a store that all ranks are connected to and over which they have
 * agreed.
 */
#ifndef DIST_RENDEZVOUS_RENDEZVOUS_H
#define DIST_RENDEZVOUS_RENDEZVOUS_H

#include "dist/rendezvous/rendezvous_plan.h"
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

struct mr_rendezvous {
    struct mr_store *store;         /* in rank 0 only */
    struct mr_store_client *client; /* NULL in a world of one */
    struct mr_rank_identity who;    /* complete: local rank, local world size and node are known */
    char backend[8];                /* agreed: "gloo", "mpi", "nccl", "none" */
    uint64_t deadline_ns;
};

/*
 * Find the others. Agrees over backend, version and world size; names a rank that differs. When
 * ranks are missing at the deadline, rank 0 says which.
 */
mr_status mr_rendezvous_join(const mr_group_options *options, struct mr_rendezvous *rendezvous_out,
                             mr_error *error);
/*
 * Rank 0 waits up to two seconds for the others to leave before it ends the store. All zero: does
 * nothing.
 */
void mr_rendezvous_leave(struct mr_rendezvous *rendezvous);

/* The same by other means than getenv(); for the group and for tests. */
mr_status mr_rendezvous_join_by(const struct mr_rendezvous_means *means,
                                const mr_group_options *options,
                                struct mr_rendezvous *rendezvous_out, mr_error *error);

#endif
