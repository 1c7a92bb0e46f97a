/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects all ranks to one store and lets them agree: on backend, version, world size and each
 * rank's place.
 */
#ifndef DIST_RENDEZVOUS_RENDEZVOUS_H
#define DIST_RENDEZVOUS_RENDEZVOUS_H

#include "dist/rendezvous/rendezvous_plan.h"
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

struct mr_rendezvous {
    struct mr_store *store;         /* in rank 0 only */
    struct mr_store_client *client; /* NULL if the world size is 1 */
    struct mr_rank_identity who;    /* complete: local rank, local world size and node are set */
    char backend[8];                /* agreed: "gloo", "mpi", "nccl", "none" */
    uint64_t deadline_ns;
};

/*
 * Meet the other ranks. They agree on backend, version and world size; the error names a rank that
 * differs. If ranks are missing at the deadline, rank 0 reports which ones.
 */
mr_status mr_rendezvous_join(const mr_group_options *options, struct mr_rendezvous *rendezvous_out,
                             mr_error *error);
/*
 * Close the connection. Rank 0 waits up to two seconds for the other ranks to disconnect, then
 * stops the store. Does nothing if *rendezvous is all zero.
 */
void mr_rendezvous_leave(struct mr_rendezvous *rendezvous);

/* As mr_rendezvous_join(), with means in place of getenv(). For the group and for tests. */
mr_status mr_rendezvous_join_by(const struct mr_rendezvous_means *means,
                                const mr_group_options *options,
                                struct mr_rendezvous *rendezvous_out, mr_error *error);

#endif
