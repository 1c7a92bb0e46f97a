/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks agree which rank of MPI is which rank of the group. The launcher's ranks and MPI's may
 * differ in order, but not in number. Every rank reports its rank in MPI to rank 0, which compares
 * all reports and sends one answer to all. A refusal goes to all ranks too: if one rank refused
 * alone, the others would wait for it.
 */
#include "dist/mpi/mpi_process.h"
#include "dist/mpi/mpi_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank reports about itself. */
struct claim {
    uint32_t rank;
    uint32_t n_ranks;
};

/* Rank 0's answer to all: the table, or the reason for a refusal. */
struct verdict {
    uint32_t is_refusal;
    uint32_t ranks[];
};

#define WORDS 256u

static int32_t own_claim(const struct mr_engine_setup *setup, MPI_Comm comm,
                         struct claim *claim_out, mr_error *error)
{
    int rank = 0;
    int size = 0;
    if (comm == MPI_COMM_NULL)
        return setup->fail(error, MR_ERR_INVALID, "mpi_comm is MPI_COMM_NULL");
    if (!mr_mpi_process_lock(setup->deadline_ns))
        return setup->fail(error, MR_ERR_TIMEOUT,
                           "another thread's MPI call did not end by the deadline");
    bool is_known =
        MPI_Comm_rank(comm, &rank) == MPI_SUCCESS && MPI_Comm_size(comm, &size) == MPI_SUCCESS;
    mr_mpi_process_unlock();
    if (!is_known)
        return setup->fail(error, MR_ERR_INVALID, "mpi_comm is not a communicator");
    *claim_out = (struct claim){.rank = (uint32_t)rank, .n_ranks = (uint32_t)size};
    return MR_OK;
}

static void refuse_claim(struct verdict *verdict, const char *words)
{
    verdict->is_refusal = 1;
    memcpy(verdict->ranks, words, strlen(words) + 1);
}

/*
 * Enter a rank's claim into the table, or refuse it. seen: nonzero for each rank of MPI that is
 * taken.
 */
static void judge_claim(const struct mr_engine_setup *setup, bool is_whole, uint32_t rank,
                        const struct claim *claim, uint32_t *seen, struct verdict *verdict)
{
    char words[WORDS];
    if (is_whole && claim->n_ranks != setup->world_size) {
        snprintf(words, sizeof words,
                 "rank %u is one of %u in MPI, but the group has %u: all ranks must be started by "
                 "one mpirun",
                 rank, claim->n_ranks, setup->world_size);
        refuse_claim(verdict, words);
    } else if (claim->rank >= claim->n_ranks || (is_whole && seen[claim->rank])) {
        snprintf(words, sizeof words, "rank %u and another are both rank %u of %u in MPI", rank,
                 claim->rank, claim->n_ranks);
        refuse_claim(verdict, words);
    } else {
        if (is_whole)
            seen[claim->rank] = 1;
        verdict->ranks[rank] = claim->rank;
    }
}

/* Rank 0: read all claims and publish the answer. */
static int32_t decide_for_all(const struct mr_engine_setup *setup, bool is_whole,
                              struct verdict *verdict, uint32_t size, mr_error *error)
{
    uint32_t *seen = calloc(setup->world_size, sizeof *seen);
    if (!seen)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes",
                           setup->world_size * sizeof *seen);
    int32_t status = MR_OK;
    for (uint32_t rank = 0; rank < setup->world_size && status == MR_OK && !verdict->is_refusal;
         rank++) {
        char key[32];
        struct claim claim = {0};
        uint32_t len = 0;
        snprintf(key, sizeof key, "mpi/rank/%u", rank);
        status = setup->store.get(setup->store.user, key, &claim, sizeof claim, &len,
                                  setup->deadline_ns, error);
        if (status == MR_OK && len != sizeof claim)
            status = setup->fail(error, MR_ERR_PEER,
                                 "rank %u: %u bytes about its rank in MPI instead of %zu", rank,
                                 len, sizeof claim);
        if (status == MR_OK)
            judge_claim(setup, is_whole, rank, &claim, seen, verdict);
    }
    free(seen);
    return status == MR_OK ? setup->store.set(setup->store.user, "mpi/ranks", verdict, size, error)
                           : status;
}

static int32_t exchange_claims(const struct mr_engine_setup *setup, bool is_whole,
                               const struct claim *claim, struct verdict *verdict, uint32_t size,
                               mr_error *error)
{
    char key[32];
    uint32_t len = 0;
    snprintf(key, sizeof key, "mpi/rank/%u", setup->rank);
    int32_t status = setup->store.set(setup->store.user, key, claim, sizeof *claim, error);
    if (status == MR_OK && setup->rank == 0)
        return decide_for_all(setup, is_whole, verdict, size, error);
    if (status == MR_OK)
        status = setup->store.get(setup->store.user, "mpi/ranks", verdict, size, &len,
                                  setup->deadline_ns, error);
    if (status == MR_OK && len != size)
        status = setup->fail(error, MR_ERR_PEER, "rank 0: %u bytes about MPI's ranks instead of %u",
                             len, size);
    return status;
}

int32_t mr_mpi_ranks_agree(const struct mr_engine_setup *setup, MPI_Comm comm, bool is_whole,
                           int *ranks_out, mr_error *error)
{
    struct claim claim = {0};
    size_t size = sizeof(struct verdict) + setup->world_size * sizeof(uint32_t);
    size = size < WORDS + sizeof(struct verdict) ? WORDS + sizeof(struct verdict) : size;
    int32_t status = own_claim(setup, comm, &claim, error);
    if (status != MR_OK)
        return status;
    struct verdict *verdict = calloc(1, size);
    if (!verdict)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", size);
    if (setup->world_size > 1) {
        status = exchange_claims(setup, is_whole, &claim, verdict, (uint32_t)size, error);
    } else { /* no other rank */
        uint32_t seen[1] = {0};
        judge_claim(setup, is_whole, 0, &claim, seen, verdict);
    }
    if (status == MR_OK && verdict->is_refusal)
        status = setup->fail(error, MR_ERR_PEER, "%.*s", (int)WORDS, (const char *)verdict->ranks);
    for (uint32_t i = 0; i < setup->world_size && status == MR_OK; i++)
        ranks_out[i] = (int)verdict->ranks[i];
    free(verdict);
    return status;
}
