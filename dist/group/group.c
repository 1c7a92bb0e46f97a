/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups: joining, leaving, and who is in them.
 *
 * Easy to get wrong: the end. Engine first, then a word in the store that this rank has left, then the connection; and
 * rank 0's store, which the others need to say the same, last of all. None of it may wait for a rank that is not there.
 */
#include "dist/group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "dist/group/mpi_bootstrap.h"
#include "dist/group/module.h"

#define DEFAULT_TIMEOUT_MS 600000u
#define MS 1000000u                  /* ns */
#define ASK_NS (UINT64_C(300) * MS)  /* for words of an error */
#define SAY_NS (UINT64_C(1000) * MS) /* for a goodbye */
#define LEFT_PER_KEY 32u             /* ranks to a number */
#define WHOLE_PREFIX "g/"            /* of the keys of a group that was not split from another */

static bool says_yes(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "1") == 0;
}

static mr_status refuse_child(struct mr_group *group)
{
    return mr_error_set(&group->error, MR_ERR_STATE, "a group cannot be used in a forked child");
}

mr_status mr_group_enter(struct mr_group *group)
{
    if (group->pid != getpid())
        return refuse_child(group);
    pthread_mutex_lock(&group->lock);
    mr_status status = group->is_dead ? (mr_status)group->dead.status : MR_OK;
    if (status)
        group->error = group->dead;
    pthread_mutex_unlock(&group->lock);
    return status;
}

bool mr_group_on_device(const struct mr_group *group)
{
    return group && group->device_works;
}

void mr_group_find_device(struct mr_group *group)
{
    if (!group->table || !group->table->device)
        return;
    group->ordinal = group->table->device->ordinal(group->engine);
    snprintf(group->device, sizeof group->device, "cuda:%d", (int)group->ordinal);
}

bool mr_group_broken(struct mr_group *group, mr_error *error_out)
{
    return mr_group_client(group) &&
           mr_store_broken_of(mr_group_client(group), group->world_ranks, group->world_size, NULL, error_out);
}

/* Who has left is a bit in a number of the store. */
static void left_key(const struct mr_group *group, uint32_t rank, char key_out[MR_STORE_KEY + 1])
{
    snprintf(key_out, MR_STORE_KEY + 1, "%sleft/%u", group->prefix, rank / LEFT_PER_KEY);
}

void mr_group_left(struct mr_group *group, char words_out[MR_GROUP_WORDS])
{
    char key[MR_STORE_KEY + 1];
    char ranks[MR_GROUP_WORDS - 40] = "";
    uint32_t n = 0;
    for (uint32_t r = 0; r < group->world_size && mr_group_client(group); r += LEFT_PER_KEY) {
        int64_t bits = 0;
        left_key(group, r, key);
        if (mr_store_add_until(mr_group_client(group), key, 0, &bits, mr_clock_now_ns() + ASK_NS, NULL))
            break;
        for (uint32_t bit = 0; bit < LEFT_PER_KEY && r + bit < group->world_size; bit++) {
            size_t len = strlen(ranks);
            if (bits >> bit & 1)
                snprintf(ranks + len, sizeof ranks - len, "%s%u", n++ ? ", " : "", group->world_ranks[r + bit]);
        }
    }
    words_out[0] = '\0';
    if (n > 0)
        snprintf(words_out, MR_GROUP_WORDS, n > 1 ? "ranks %s have left the group" : "rank %s has left the group",
                 ranks);
}

/* Where it fails the connection is broken, and says as much. Of a part the last one takes the key away again. */
static void say_left(struct mr_group *group)
{
    char key[MR_STORE_KEY + 1];
    int64_t bits = 0;
    uint32_t first = group->rank / LEFT_PER_KEY * LEFT_PER_KEY;
    uint32_t n = group->world_size - first < LEFT_PER_KEY ? group->world_size - first : LEFT_PER_KEY;
    left_key(group, group->rank, key);
    if (!mr_group_client(group) || mr_store_add_until(mr_group_client(group), key, (int64_t)1 << (group->rank - first),
                                                      &bits, mr_clock_now_ns() + SAY_NS, NULL))
        return;
    if (strcmp(group->prefix, WHOLE_PREFIX) != 0 && bits == ((int64_t)1 << n) - 1)
        (void)mr_store_remove(mr_group_client(group), key, NULL);
}

static void leave_home(struct mr_group_home *home)
{
    if (atomic_fetch_sub_explicit(&home->n_groups, 1, memory_order_acq_rel) > 1)
        return;
    mr_rendezvous_leave(&home->rendezvous); /* rank 0's store stays a little for the others */
    free(home);
}

static void free_group(struct mr_group *group)
{
    pthread_cond_destroy(&group->changed);
    pthread_cond_destroy(&group->ended);
    pthread_cond_destroy(&group->quit);
    pthread_mutex_destroy(&group->lock);
    free(group->world_ranks);
    free(group->n_sent);
    free(group->n_received);
    mr_device_work_forget(group);
    free(group);
}

void mr_group_drop(struct mr_group *group)
{
    pthread_mutex_lock(&group->lock);
    bool is_last = --group->n_references == 0;
    pthread_mutex_unlock(&group->lock);
    if (is_last)
        free_group(group);
}

static void init_locks(struct mr_group *group)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, &monotonic);
    pthread_cond_init(&group->ended, &monotonic);
    pthread_cond_init(&group->quit, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

mr_status mr_group_new(struct mr_group_home *home, uint32_t rank, uint32_t world_size, struct mr_group **group_out,
                       mr_error *error)
{
    struct mr_group *group = calloc(1, sizeof *group);
    *group_out = NULL;
    if (!group)
        return mr_error_memory(error, sizeof *group);
    init_locks(group);
    group->n_references = 1;
    group->rank = rank;
    group->world_size = world_size;
    group->local_world_size = 1;
    group->pid = getpid();
    group->home = home;
    group->world_ranks = calloc(world_size, sizeof *group->world_ranks);
    group->n_sent = calloc(world_size, sizeof *group->n_sent);
    group->n_received = calloc(world_size, sizeof *group->n_received);
    snprintf(group->backend, sizeof group->backend, "none");
    if (!group->world_ranks || !group->n_sent || !group->n_received) {
        free_group(group);
        return mr_error_memory(error, world_size * sizeof *group->n_sent);
    }
    *group_out = group;
    return MR_OK;
}

/* What the rendezvous has found out about this rank. */
static void describe_rank(struct mr_group *group, const mr_group_options *options)
{
    const struct mr_rendezvous *rendezvous = &group->home->rendezvous;
    for (uint32_t r = 0; r < group->world_size; r++)
        group->world_ranks[r] = r;
    group->local_rank = rendezvous->who.local_rank;
    group->device_rank = rendezvous->who.local_rank;
    group->local_world_size = rendezvous->who.local_world_size ? rendezvous->who.local_world_size : 1;
    group->node = rendezvous->who.node;
    group->timeout_ms = options->timeout_ms;
    group->is_checked = says_yes("MR_COMM_CHECK");
    snprintf(group->prefix, sizeof group->prefix, "%s", WHOLE_PREFIX);
    bool is_nccl = strcmp(rendezvous->backend, "nccl") == 0;
    group->adopt = is_nccl ? options->nccl_comm : options->mpi_comm;
    snprintf(group->device, sizeof group->device, "%s", options->device ? options->device : "");
}

/* A world of one copies by itself, but for memory that only an engine can reach, and what is adopted. */
static bool needs_engine(const struct mr_group *group)
{
    const char *backend = group->home->rendezvous.backend;
    return strcmp(backend, "none") != 0 && (group->world_size > 1 || group->adopt || strcmp(backend, "nccl") == 0);
}

/* A rank that dies meanwhile is named here as well. */
static mr_status open_engine(struct mr_group *group, mr_error *error)
{
    struct mr_engine_setup setup;
    mr_error said;
    mr_error broken;
    mr_group_keys_setup(group, group->home->rendezvous.deadline_ns, &setup);
    mr_status status = (mr_status)group->table->create(&setup, &group->engine, &said);
    if (!status)
        return MR_OK;
    group->engine = NULL;
    bool is_peers = status == MR_ERR_IO || status == MR_ERR_PEER || status == MR_ERR_TIMEOUT;
    if (is_peers && mr_group_broken(group, &broken))
        return mr_error_set(error, MR_ERR_PEER, "%s; the backend %s cannot start: %s", broken.text, group->backend,
                            said.text);
    mr_error_copy(error, &said);
    return status < 0 ? status : mr_error_set(error, MR_ERR_IO, "the backend %s cannot start", group->backend);
}

static mr_status start(struct mr_group *group, mr_error *error)
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
    status = mr_work_start_threads(group, error);
    if (status)
        group->table->destroy(group->engine, false);
    return status;
}

static mr_status create(struct mr_group_home *home, const mr_group_options *options, mr_group **group_out,
                        mr_error *error)
{
    const struct mr_rank_identity *who = &home->rendezvous.who;
    struct mr_group *group;
    mr_status status = mr_group_new(home, who->rank, who->world_size, &group, error);
    if (status) {
        leave_home(home);
        return status;
    }
    describe_rank(group, options);
    status = start(group, error);
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

/* Is MPI wanted for more than to carry rank 0's address? Only asked where it carries it. */
static bool stays_with_mpi(const mr_group_options *options)
{
    if (options->backend && strcmp(options->backend, "auto") != 0)
        return strcmp(options->backend, "mpi") == 0;
    return options->mpi_comm || (!options->nccl_comm && !options->device);
}

/* A device of CUDA is nothing for an engine of the host's memory. Rather said now than after the others have come. */
static mr_status check_device(const mr_group_options *options, mr_error *error)
{
    const char *backend = options->backend ? options->backend : "auto";
    const char *device = options->device ? options->device : "";
    if (strlen(device) >= MR_GROUP_DEVICE)
        return mr_error_set(error, MR_ERR_INVALID, "device \"%.100s\" is too long", device);
    if (strncmp(device, "cuda:", 5) != 0)
        return MR_OK;
    if (options->mpi_comm)
        return mr_error_set(error, MR_ERR_INVALID, "device \"%s\" is given, and mpi_comm, which is of the host",
                            device);
    if (strcmp(backend, "gloo") == 0 || strcmp(backend, "mpi") == 0)
        return mr_error_set(error, MR_ERR_INVALID, "device \"%s\" is given, and backend %s works on the host's memory",
                            device, backend);
    return MR_OK;
}

static mr_status join(const mr_group_options *options, struct mr_rendezvous *rendezvous_out, mr_error *error)
{
    struct mr_mpi_bootstrap bootstrap = {.deadline_ns = mr_clock_now_ns() + (uint64_t)options->timeout_ms * MS,
                                         .timeout_ms = options->timeout_ms,
                                         .is_all = !stays_with_mpi(options),
                                         .adopt = options->mpi_comm};
    const struct mr_rendezvous_means means = {
        .get = get_environment, .bootstrap = mr_mpi_bootstrap_address, .bootstrap_user = &bootstrap};
    return mr_rendezvous_join_by(&means, options, rendezvous_out, error);
}

mr_status mr_group_create(const mr_group_options *options, mr_group **group_out, mr_error *error)
{
    mr_group_options known;
    if (!group_out)
        return mr_error_set(error, MR_ERR_INVALID, "group_out is NULL");
    *group_out = NULL;
    mr_status status = mr_options_copy(&known, sizeof known, options, error);
    if (status)
        return status;
    status = check_device(&known, error);
    if (status)
        return status;
    if (known.timeout_ms == 0)
        known.timeout_ms = DEFAULT_TIMEOUT_MS;
    struct mr_group_home *home = calloc(1, sizeof *home);
    if (!home)
        return mr_error_memory(error, sizeof *home);
    atomic_init(&home->n_groups, 1);
    status = join(&known, &home->rendezvous, error);
    if (status)
        free(home);
    else
        status = create(home, &known, group_out, error);
    return status;
}

void mr_group_destroy(mr_group *group)
{
    if (!group || group->pid != getpid()) /* a child's copy: its threads and connections are the parent's */
        return;
    if (group->has_threads)
        mr_work_stop_threads(group);
    else
        group->is_closing = true;
    say_left(group);
    mr_group_keys_forget(group, false);
    leave_home(group->home);
    mr_group_drop(group);
}

uint32_t mr_group_rank(const mr_group *group)
{
    return group ? group->rank : 0;
}

uint32_t mr_group_world_size(const mr_group *group)
{
    return group ? group->world_size : 1;
}

uint32_t mr_group_local_rank(const mr_group *group)
{
    return group ? group->local_rank : 0;
}

uint32_t mr_group_local_world_size(const mr_group *group)
{
    return group ? group->local_world_size : 1;
}

uint32_t mr_group_node(const mr_group *group)
{
    return group ? group->node : 0;
}

const char *mr_group_backend(const mr_group *group)
{
    return group ? group->backend : "none";
}

const mr_error *mr_group_error(const mr_group *group)
{
    static const mr_error none;
    return group ? &group->error : &none;
}
