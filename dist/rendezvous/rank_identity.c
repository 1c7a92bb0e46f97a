/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from the environment who this rank is. The first launcher whose variables are set wins.
 *
 * OMPI_COMM_WORLD_NODE_RANK is the rank within a node over all jobs, not the number of the node.
 * Open MPI sets no node number, so the rendezvous counts nodes. Open MPI's namespace is a hash of
 * the host's name and mpirun's pid, which can be equal in two containers of one machine; its
 * transport key is random. A batch script of Slurm has SLURM_PROCID but no step: it is a world of
 * one. srun with PMI-2 also sets PMI_RANK, but is not mpirun.
 */
#include "dist/rendezvous/rank_identity.h"

#include "base/digest.h"
#include "dist/rendezvous/hostlist.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Derived ports are below those that Linux uses for outgoing connections (from 32768). */
#define DERIVED_PORT 20000u
#define DERIVED_PORTS 10000u

struct environment {
    const char *(*get)(void *user, const char *name);
    void *user;
    mr_error *error;
};

/* The variables of one launcher; NULL if it has none. */
struct family {
    const char *source;
    const char *rank;
    const char *world_size;
    const char *local_rank;
    const char *local_world_size;
    const char *node;
    bool is_mpi;
};

static const struct family BY_HAND = {
    "env", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", false};
static const struct family OPEN_MPI = {"openmpi",
                                       "OMPI_COMM_WORLD_RANK",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE",
                                       NULL,
                                       true};
static const struct family MPICH = {"mpich",           "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                    "MPI_LOCALNRANKS", NULL,       true};
static const struct family SLURM = {
    "slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_NODEID", false};

static const char *get_value(const struct environment *in, const char *name)
{
    return name ? in->get(in->user, name) : NULL;
}

static bool is_set(const struct environment *in, const char *name)
{
    return get_value(in, name) != NULL;
}

static const char *get_text(const struct environment *in, const char *name)
{
    const char *value = get_value(in, name);
    return value && value[0] ? value : NULL;
}

/* Accepts only digits: a sign, a space or a second word is an error. */
static bool parse_number(const char *text, uint32_t *number_out)
{
    uint64_t number = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && number <= UINT32_MAX; c++)
        number = number * 10 + (uint64_t)(*c - '0');
    *number_out = (uint32_t)number;
    return c > text && *c == '\0' && number <= UINT32_MAX;
}

/* Leaves *number_out unchanged if the variable is not set. */
static mr_status read_number(const struct environment *in, const char *name, uint32_t low,
                             uint32_t high, uint32_t *number_out)
{
    uint32_t number;
    const char *value = get_value(in, name);
    if (!value)
        return MR_OK;
    if (!parse_number(value, &number) || number < low || number > high)
        return mr_error_set(in->error, MR_ERR_INVALID,
                            "%s=\"%.100s\" is not a number from %u to %u", name, value, low, high);
    *number_out = number;
    return MR_OK;
}

static mr_status fail_missing(const struct environment *in, const char *present, const char *name)
{
    return mr_error_set(in->error, MR_ERR_INVALID, "%s=\"%.100s\" is set, but %s is not", present,
                        get_value(in, present), name);
}

static mr_status fail_not_below(const struct environment *in, const char *rank, const char *size)
{
    return mr_error_set(in->error, MR_ERR_INVALID, "%s=%s is not below %s=%s", rank,
                        get_value(in, rank), size, get_value(in, size));
}

static mr_status read_world(const struct environment *in, const struct family *family,
                            struct mr_rank_identity *who)
{
    if (!is_set(in, family->rank))
        return fail_missing(in, family->world_size, family->rank);
    if (!is_set(in, family->world_size))
        return fail_missing(in, family->rank, family->world_size);
    mr_status status =
        read_number(in, family->world_size, 1, MR_RANK_IDENTITY_MAX_WORLD, &who->world_size);
    if (status == MR_OK)
        status = read_number(in, family->rank, 0, UINT32_MAX, &who->rank);
    if (status == MR_OK && who->rank >= who->world_size)
        return fail_not_below(in, family->rank, family->world_size);
    return status;
}

static mr_status read_local(const struct environment *in, const struct family *family,
                            struct mr_rank_identity *who)
{
    who->knows_local = is_set(in, family->local_rank);
    who->knows_node = is_set(in, family->node);
    mr_status status =
        read_number(in, family->local_world_size, 1, who->world_size, &who->local_world_size);
    if (status == MR_OK)
        status = read_number(in, family->local_rank, 0, who->world_size - 1, &who->local_rank);
    if (status == MR_OK && who->local_world_size && who->local_rank >= who->local_world_size)
        return fail_not_below(in, family->local_rank, family->local_world_size);
    if (status == MR_OK)
        status = read_number(in, family->node, 0, who->world_size - 1, &who->node);
    return status;
}

/* Never 0, which means that there is no id. */
static uint64_t hash_id(const char *text)
{
    struct mr_digest digest;
    mr_digest_init(&digest, 0);
    mr_digest_add_text(&digest, text);
    uint64_t id = mr_digest_end(&digest, 0);
    return id ? id : 1;
}

/* "JOB.STEP"; false if this is not a step. */
static bool format_slurm_step(const struct environment *in, char *text, size_t size)
{
    const char *job = get_text(in, "SLURM_JOB_ID"), *step = get_text(in, "SLURM_STEP_ID");
    return job && step && snprintf(text, size, "%.100s.%.100s", job, step) > 0;
}

/* An id that all ranks of one Open MPI job share; false if mpirun gave none. */
static bool format_open_mpi_job(const struct environment *in, char *text, size_t size)
{
    const char *space = get_text(in, "PMIX_NAMESPACE"),
               *key = get_text(in, "OMPI_MCA_orte_precondition_transports");
    return space && snprintf(text, size, "%.140s %.100s", space, key ? key : "") > 0;
}

/*
 * The id of a job or step is used only for ranks that this launcher started. A user may start one
 * world from two steps.
 */
static void read_run(const struct environment *in, struct mr_rank_identity *who)
{
    char job[256];
    const char *id = NULL;
    if (strcmp(who->source, "torchrun") == 0)
        id = get_text(in, "TORCHELASTIC_RUN_ID");
    if (!id)
        id = get_text(in, "MR_RUN_ID");
    if (!id && strcmp(who->source, "slurm") == 0 && format_slurm_step(in, job, sizeof job))
        id = job;
    if (!id && strcmp(who->source, "openmpi") == 0 && format_open_mpi_job(in, job, sizeof job))
        id = job;
    who->run = id ? hash_id(id) : 0;
}

static mr_status read_master(const struct environment *in, struct mr_rank_identity *who)
{
    uint32_t port = 0;
    const char *address = get_text(in, "MASTER_ADDR");
    if (address && strlen(address) >= sizeof who->master_addr)
        return mr_error_set(in->error, MR_ERR_INVALID,
                            "MASTER_ADDR=\"%.60s...\" has %zu bytes, the limit is %zu", address,
                            strlen(address), sizeof who->master_addr - 1);
    if (address)
        memcpy(who->master_addr, address, strlen(address) + 1);
    mr_status status = read_number(in, "MASTER_PORT", 1, 65535, &port);
    who->master_port = (uint16_t)port;
    return status;
}

/* Put the variable's name before the parser's message. */
static mr_status fail_list(const struct environment *in, const char *name, const mr_error *why)
{
    return mr_error_set(in->error, MR_ERR_INVALID, "%s: %s", name, why->text);
}

static mr_status read_slurm_tasks(const struct environment *in, struct mr_rank_identity *who)
{
    mr_error why;
    uint64_t sum;
    const char *counts = get_value(in, "SLURM_STEP_TASKS_PER_NODE");
    if (!counts || !who->knows_node)
        return MR_OK;
    if (mr_hostlist_tasks(counts, who->node, &who->local_world_size, &sum, &why) != MR_OK)
        return fail_list(in, "SLURM_STEP_TASKS_PER_NODE", &why);
    if (sum != who->world_size)
        return mr_error_set(in->error, MR_ERR_INVALID,
                            "SLURM_STEP_TASKS_PER_NODE=\"%.100s\" is %" PRIu64
                            " tasks, but SLURM_STEP_NUM_TASKS=%u",
                            counts, sum, who->world_size);
    if (who->local_rank >= who->local_world_size)
        return mr_error_set(in->error, MR_ERR_INVALID,
                            "SLURM_LOCALID=%u is not below the %u tasks of node %u in "
                            "SLURM_STEP_TASKS_PER_NODE=\"%.100s\"",
                            who->local_rank, who->local_world_size, who->node, counts);
    return MR_OK;
}

static void derive_port(struct mr_rank_identity *who, uint64_t id)
{
    who->master_port = (uint16_t)(DERIVED_PORT + id % DERIVED_PORTS);
    who->port_is_derived = true;
}

/* Rank 0 is on the first host. All ranks derive the same port from job and step. */
static mr_status find_slurm_master(const struct environment *in, struct mr_rank_identity *who)
{
    char step[256];
    mr_error why;
    const char *list = get_text(in, "SLURM_STEP_NODELIST");
    if (!who->master_addr[0] && list) {
        static_assert(sizeof who->master_addr >= MR_HOSTLIST_HOST, "a host fits");
        if (mr_hostlist_first(list, who->master_addr, &why) != MR_OK)
            return fail_list(in, "SLURM_STEP_NODELIST", &why);
    }
    if (who->master_port == 0 && format_slurm_step(in, step, sizeof step))
        derive_port(who, hash_id(step));
    return MR_OK;
}

/*
 * srun --mpi=pmi2 sets both, with equal values. mpirun inside a step starts its own ranks, and the
 * values differ.
 */
static bool is_pmi_of_srun(const struct environment *in)
{
    const char *rank = get_value(in, SLURM.rank), *size = get_value(in, SLURM.world_size);
    const char *pmi_rank = get_value(in, MPICH.rank), *pmi_size = get_value(in, MPICH.world_size);
    return rank && size && pmi_rank && pmi_size && strcmp(rank, pmi_rank) == 0 &&
           strcmp(size, pmi_size) == 0;
}

static const struct family *find_family(const struct environment *in)
{
    if (is_set(in, BY_HAND.rank))
        return &BY_HAND;
    if (is_set(in, OPEN_MPI.rank))
        return &OPEN_MPI;
    if (is_set(in, MPICH.rank) && !is_pmi_of_srun(in))
        return &MPICH;
    if (is_set(in, SLURM.world_size))
        return &SLURM;
    return is_set(in, BY_HAND.world_size) ? &BY_HAND : NULL;
}

static void set_source(struct mr_rank_identity *who, const char *source)
{
    snprintf(who->source, sizeof who->source, "%s", source);
}

static void describe_alone(const struct environment *in, struct mr_rank_identity *who)
{
    set_source(who, is_set(in, "SLURM_JOB_ID") ? "slurm" : "none");
    who->world_size = who->local_world_size = 1;
    who->knows_local = who->knows_node = true;
}

static mr_status read_torchrun(const struct environment *in, struct mr_rank_identity *who)
{
    if (!is_set(in, "TORCHELASTIC_RUN_ID"))
        return MR_OK;
    set_source(who, "torchrun");
    who->port_is_taken = true;
    return read_number(in, "TORCHELASTIC_RESTART_COUNT", 0, UINT32_MAX, &who->restart);
}

static mr_status read_family(const struct environment *in, const struct family *family,
                             struct mr_rank_identity *who)
{
    set_source(who, family->source);
    who->is_mpi = family->is_mpi;
    mr_status status = read_world(in, family, who);
    if (status == MR_OK)
        status = read_local(in, family, who);
    if (status == MR_OK && family == &BY_HAND)
        status = read_torchrun(in, who);
    if (status == MR_OK && family == &SLURM)
        status = read_slurm_tasks(in, who);
    return status;
}

mr_status mr_rank_identity_read(const char *(*get)(void *user, const char *name), void *user,
                                struct mr_rank_identity *identity_out, mr_error *error)
{
    struct environment in = {get, user, error};
    struct mr_rank_identity who = {0};
    const struct family *family = find_family(&in);
    mr_status status = MR_OK;
    if (family)
        status = read_family(&in, family, &who);
    else
        describe_alone(&in, &who);
    if (status == MR_OK)
        status = read_master(&in, &who);
    if (status == MR_OK && family == &SLURM)
        status = find_slurm_master(&in, &who);
    if (status != MR_OK)
        return status;
    read_run(&in, &who);
    if (who.is_mpi && who.master_port == 0 && mr_rank_identity_is_local_job(&who))
        derive_port(&who, who.run);
    *identity_out = who;
    return MR_OK;
}

bool mr_rank_identity_is_local_job(const struct mr_rank_identity *who)
{
    return who->run != 0 && who->local_world_size == who->world_size;
}

mr_status mr_rank_identity_given(const char *(*get)(void *user, const char *name), void *user,
                                 uint32_t rank, uint32_t world_size,
                                 struct mr_rank_identity *identity_out, mr_error *error)
{
    struct environment in = {get, user, error};
    struct mr_rank_identity who = {.rank = rank, .world_size = world_size};
    if (world_size > MR_RANK_IDENTITY_MAX_WORLD)
        return mr_error_set(error, MR_ERR_INVALID, "world_size %u is above the limit of %u",
                            world_size, MR_RANK_IDENTITY_MAX_WORLD);
    if (rank >= world_size)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u is not below world_size %u", rank,
                            world_size);
    set_source(&who, "options");
    mr_status status = read_master(&in, &who);
    read_run(&in, &who);
    if (status == MR_OK)
        *identity_out = who;
    return status;
}
