/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining and leaving a group.
 *
 * Invariant: the order of leaving. The engine ends first. Then this rank reports to the store that
 * it leaves, and closes its connection. Rank 0's store ends last, because the other ranks need it
 * for the same. No step waits for a rank that is gone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/public_struct.h"
#include "dist/group/group_keys.h"
#include "dist/group/late_ranks.h"
#include "dist/group/module.h"
#include "dist/group/mpi_bootstrap.h"
#include "dist/group/work_threads.h"

#define DEFAULT_TIMEOUT_MS 600000u
#define MS 1000000u /* ns */

static bool is_enabled(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "1") == 0;
}

static void release_home(struct mr_group_home *home)
{
    if (atomic_fetch_sub_explicit(&home->n_groups, 1, memory_order_acq_rel) > 1)
        return;
    mr_rendezvous_leave(&home->rendezvous); /* rank 0's store waits a moment for the other ranks */
    free(home);
}

/* Copies what the rendezvous knows about this rank. */
static void describe_rank(struct mr_group *group, const mr_group_options *options)
{
    const struct mr_rendezvous *rendezvous = &group->home->rendezvous;
    for (uint32_t r = 0; r < group->world_size; r++)
        group->world_ranks[r] = r;
    group->local_rank = rendezvous->who.local_rank;
    group->device_rank = rendezvous->who.local_rank;
    group->local_world_size =
        rendezvous->who.local_world_size ? rendezvous->who.local_world_size : 1;
    group->node = rendezvous->who.node;
    group->timeout_ms = options->timeout_ms;
    group->is_checked = is_enabled("MR_COMM_CHECK");
    snprintf(group->prefix, sizeof group->prefix, "%s", MR_GROUP_WHOLE_PREFIX);
    bool is_nccl = strcmp(rendezvous->backend, "nccl") == 0;
    group->adopt = is_nccl ? options->nccl_comm : options->mpi_comm;
    snprintf(group->device, sizeof group->device, "%s", options->device ? options->device : "");
}

/*
 * A world of one copies by itself. It needs an engine only for memory that the host cannot reach,
 * and for an adopted communicator.
 */
static bool needs_engine(const struct mr_group *group)
{
    const char *backend = group->home->rendezvous.backend;
    return strcmp(backend, "none") != 0 &&
           (group->world_size > 1 || group->adopt || strcmp(backend, "nccl") == 0);
}

/* If a rank died meanwhile, the error names it too. */
static mr_status open_engine(struct mr_group *group, mr_error *error)
{
    struct mr_engine_setup setup;
    mr_error engine_error;
    mr_error broken;
    mr_group_keys_setup(group, group->home->rendezvous.deadline_ns, &setup);
    mr_status status = (mr_status)group->table->create(&setup, &group->engine, &engine_error);
    if (!status)
        return MR_OK;
    group->engine = NULL;
    bool is_peers = status == MR_ERR_IO || status == MR_ERR_PEER || status == MR_ERR_TIMEOUT;
    if (is_peers && mr_group_broken(group, &broken))
        return mr_error_set(error, MR_ERR_PEER, "%s; the backend %s cannot start: %s", broken.text,
                            group->backend, engine_error.text);
    mr_error_copy(error, &engine_error);
    return status < 0
               ? status
               : mr_error_set(error, MR_ERR_IO, "the backend %s cannot start", group->backend);
}

static mr_status start_engine(struct mr_group *group, mr_error *error)
{
    if (!needs_engine(group))
        return MR_OK;
    snprintf(group->backend, sizeof group->backend, "%s", group->home->rendezvous.backend);
    mr_status status = mr_module_open(group->backend, &group->table, error);
    if (!status)
        status = open_engine(group, error);
    if (status)
        return status;
    snprintf(group->backend, sizeof group->backend, "%s", group->table->name);
    mr_group_find_device(group);
    status = mr_work_threads_start(group, error);
    if (status)
        group->table->destroy(group->engine, false);
    return status;
}

static mr_status create_group(struct mr_group_home *home, const mr_group_options *options,
                              mr_group **group_out, mr_error *error)
{
    const struct mr_rank_identity *who = &home->rendezvous.who;
    struct mr_group *group;
    mr_status status = mr_group_new(home, who->rank, who->world_size, &group, error);
    if (status) {
        release_home(home);
        return status;
    }
    describe_rank(group, options);
    status = start_engine(group, error);
    if (status)
        mr_group_destroy(group);
    else
        *group_out = group;
    return status;
}

static const char *get_environment(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

/* Will the backend be MPI? Only asked if MPI carries rank 0's address. */
static bool will_use_mpi(const mr_group_options *options)
{
    if (options->backend && strcmp(options->backend, "auto") != 0)
        return strcmp(options->backend, "mpi") == 0;
    return options->mpi_comm || (!options->nccl_comm && !options->device);
}

/*
 * A host engine cannot use a CUDA device. Checked here, before this rank waits for the other ranks.
 */
static mr_status check_device(const mr_group_options *options, mr_error *error)
{
    const char *backend = options->backend ? options->backend : "auto";
    const char *device = options->device ? options->device : "";
    if (strlen(device) >= MR_GROUP_DEVICE)
        return mr_error_set(error, MR_ERR_INVALID, "device \"%.100s\" is too long", device);
    if (strncmp(device, "cuda:", 5) != 0)
        return MR_OK;
    if (options->mpi_comm)
        return mr_error_set(error, MR_ERR_INVALID,
                            "device \"%s\" is given, but mpi_comm works on host memory", device);
    if (strcmp(backend, "gloo") == 0 || strcmp(backend, "mpi") == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "device \"%s\" is given, but backend %s works on host memory", device,
                            backend);
    return MR_OK;
}

static mr_status find_module(const char *backend, mr_error *error)
{
    const struct mr_engine_table *table;
    return mr_module_open(backend, &table, error);
}

static mr_status join_ranks(const mr_group_options *options, struct mr_rendezvous *rendezvous_out,
                            mr_error *error)
{
    struct mr_mpi_bootstrap bootstrap = {.deadline_ns =
                                             mr_clock_now_ns() + (uint64_t)options->timeout_ms * MS,
                                         .timeout_ms = options->timeout_ms,
                                         .is_all = !will_use_mpi(options),
                                         .adopt = options->mpi_comm};
    const struct mr_rendezvous_means means = {.get = get_environment,
                                              .bootstrap = mr_mpi_bootstrap_address,
                                              .bootstrap_user = &bootstrap,
                                              .find_module = find_module};
    return mr_rendezvous_join_by(&means, options, rendezvous_out, error);
}

MR_STRUCT_INIT_FUNCTION(mr_group_options)

mr_status mr_group_create(const mr_group_options *options, mr_group **group_out, mr_error *error)
{
    mr_group_options known;
    if (!group_out)
        return mr_error_set(error, MR_ERR_INVALID, "group_out is NULL");
    *group_out = NULL;
    mr_status status = mr_options_copy(&known, sizeof known, options, "mr_group_options", error);
    if (!status)
        status = mr_options_check_reserved(&known.reserved, sizeof known.reserved,
                                           "mr_group_options", error);
    if (!status)
        status = check_device(&known, error);
    if (status)
        return status;
    if (known.timeout_ms == 0)
        known.timeout_ms = DEFAULT_TIMEOUT_MS;
    struct mr_group_home *home = calloc(1, sizeof *home);
    if (!home)
        return mr_error_memory(error, sizeof *home);
    atomic_init(&home->n_groups, 1);
    status = join_ranks(&known, &home->rendezvous, error);
    if (status)
        free(home);
    else
        status = create_group(home, &known, group_out, error);
    return status;
}

void mr_group_destroy(mr_group *group)
{
    /* a forked child's copy: threads and connections are the parent's */
    if (!group || group->pid != getpid())
        return;
    if (group->has_threads)
        mr_work_threads_stop(group);
    else
        group->is_closing = true;
    if (mr_group_say_left(group))
        mr_late_ranks_forget(group);
    mr_group_keys_forget(group, false);
    release_home(group->home);
    mr_group_drop(group);
}
