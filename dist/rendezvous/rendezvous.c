/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects all ranks to rank 0's store. The store of the previous group may still be running. It
 * refuses ranks that it has seen, so they retry for a while.
 */
#include "dist/rendezvous/rendezvous.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/rank_note.h"
#include "dist/rendezvous/address_file.h"
#include "dist/rendezvous/agreement.h"
#include "dist/rendezvous/launch_note.h"
#include "dist/rendezvous/local_address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LEAVING_MS 2000u /* rank 0 keeps its store this long for the other ranks */
#define REFUSED_MS 4000u /* refusals are final after this; a store needs less to stop */
#define TRY_FILE_MS 250u /* first timeout of a connection to an address from a file */
#define MAX_TRY_FILE_MS 4000u
#define AGAIN_MS 20u
#define TRY_PORT_MS 200u /* time for the process that owns our port to identify itself */
#define LEAST_SILENCE_MS (3 * MR_STORE_BEAT_MS)
#define NS_PER_MS UINT64_C(1000000)

/* Rank 0's store. */

/* Does a store of this process, for the same ranks, own the port? Then its group still exists. */
static bool is_own_store(const char *address, uint16_t port,
                         const struct mr_store_identity *identity, uint64_t deadline_ns)
{
    struct mr_store_greeting hello;
    uint64_t until = mr_clock_now_ns() + TRY_PORT_MS * NS_PER_MS;
    return mr_store_search_hello(address, port, until < deadline_ns ? until : deadline_ns,
                                 &hello) &&
           hello.rank == (uint32_t)getpid() && hello.run == identity->run &&
           hello.restart == identity->restart && hello.world_size == identity->world_size;
}

/* Listen on the first free one of the ports that all ranks try. */
static mr_status start_store(const struct mr_rendezvous_plan *plan, const char *address,
                             const struct mr_store_identity *identity, struct mr_store **store_out,
                             mr_error *error)
{
    mr_error why;
    mr_status status = MR_ERR_IO;
    for (uint32_t i = 0; i < plan->n_ports; i++) {
        uint16_t port = (uint16_t)(plan->port + i);
        status = mr_store_start(address, port, identity, store_out, &why);
        if (status != MR_ERR_IO || why.os_error != EADDRINUSE)
            break;
        if (is_own_store(address, port, identity, plan->deadline_ns))
            return mr_error_set(
                error, MR_ERR_STATE,
                "a group of these ranks already exists, with its store at %s port %u; "
                "mr_group_split() makes a second one",
                address, port);
    }
    if (status != MR_OK)
        mr_error_copy(error, &why);
    return status;
}

static void warn_about_loopback(const struct mr_rendezvous_plan *plan,
                                const struct mr_rank_identity *who, const char *address)
{
    if (!mr_local_address_is_loopback(address) || !who->local_world_size ||
        who->local_world_size >= who->world_size)
        return;
    if (plan->host[0] && strcmp(plan->host, address) != 0)
        mr_log_line(
            MR_LOG_WARNING,
            "rank 0's address %.100s is %s on its own machine, which other machines cannot reach",
            plan->host, address);
    else
        mr_log_line(MR_LOG_WARNING, "rank 0's address is %s, which other machines cannot reach",
                    address);
}

/* Read the address of this run's store. MR_PENDING: there is no file yet, or it is stale. */
static mr_status read_address_file(const struct mr_rendezvous_plan *plan,
                                   const struct mr_rank_identity *who,
                                   struct mr_address_file *file_out, mr_error *error)
{
    char boot[40];
    mr_status status = mr_address_file_read(plan->path, file_out, error);
    if (status != MR_OK)
        return status;
    if (who->run && who->run != file_out->run)
        return mr_error_set(error, MR_PENDING, "%s belongs to another run", plan->path);
    mr_agreement_boot(boot);
    if (mr_local_address_is_loopback(file_out->host) && strcmp(boot, file_out->boot) != 0)
        return mr_error_set(error, MR_PENDING,
                            "%s contains %s, the loopback address of another machine, where "
                            "MR_SOCKET_IFNAME is not set",
                            plan->path, file_out->host);
    return MR_OK;
}

/*
 * Connect to the address in the file. A stale file names an address without a store, or the store
 * of another run. Rank 0 will replace it, so this tries again until the deadline.
 */
static mr_status connect_by_file(struct mr_rendezvous_plan *plan, struct mr_store_connect *connect,
                                 const struct mr_rank_identity *who,
                                 struct mr_store_client **client_out, mr_error *error)
{
    mr_error why;
    uint32_t n_tries = 0;
    connect->once_ms = TRY_FILE_MS;
    do {
        struct mr_address_file file;
        mr_status status = read_address_file(plan, who, &file, &why);
        if (status == MR_OK) {
            connect->host = file.host;
            connect->port = file.port;
            connect->identity.run = file.run;
            status = mr_store_connect(connect, client_out, &why);
        }
        if (status == MR_OK)
            mr_rendezvous_plan_spell(file.host, file.port, plan->store_address);
        if (status == MR_OK || status == MR_ERR_NO_MEMORY || status == MR_ERR_TIMEOUT) {
            mr_error_copy(status == MR_OK ? NULL : error, &why);
            return status;
        }
        n_tries++;
        if (why.os_error == ETIMEDOUT && connect->once_ms < MAX_TRY_FILE_MS)
            connect->once_ms *= 2;
        mr_clock_sleep_ms(AGAIN_MS);
    } while (mr_clock_now_ns() < plan->deadline_ns);
    uint64_t ms = (mr_clock_now_ns() - plan->began_ns) / NS_PER_MS;
    return mr_error_set(error, MR_ERR_TIMEOUT,
                        "rank %u read %s %u times in %u ms; the last result: %.500s", who->rank,
                        plan->path, n_tries, (unsigned)ms, why.text);
}

/* Rank 0 sends its store's address, the other ranks receive it. "": rank 0 has no store. */
static mr_status broadcast_address(struct mr_rendezvous_plan *plan,
                                   const struct mr_rank_identity *who, mr_error *error)
{
    mr_status status =
        plan->means->bootstrap(plan->means->bootstrap_user, who, plan->store_address, error);
    plan->store_address[sizeof plan->store_address - 1] = '\0';
    if (status != MR_OK || who->rank == 0)
        return status;
    if (mr_rendezvous_plan_parse(plan->store_address, plan->host, &plan->port) != MR_OK)
        return mr_error_set(error, MR_ERR_PEER, "rank 0 has no store: its address is \"%s\"",
                            plan->store_address);
    return MR_OK;
}

static mr_status find_store(struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                            struct mr_store_connect *connect, struct mr_rendezvous *out,
                            mr_error *error)
{
    mr_status status = MR_OK;
    if (plan->way == MR_RENDEZVOUS_BY_FILE)
        return connect_by_file(plan, connect, who, &out->client, error);
    if (plan->is_by_mpi)
        status = broadcast_address(plan, who, error);
    if (status != MR_OK)
        return status;
    mr_rendezvous_plan_spell(plan->host, plan->port, plan->store_address);
    connect->host = plan->host;
    connect->port = plan->port;
    connect->n_ports = (uint16_t)(plan->n_ports - 1);
    uint64_t quarter_ns = (plan->deadline_ns - plan->began_ns) / 4;
    connect->patience_ns =
        quarter_ns < REFUSED_MS * NS_PER_MS ? quarter_ns : REFUSED_MS * NS_PER_MS;
    return mr_store_connect(connect, &out->client, error);
}

/* Start the store and connect this rank to it. */
static mr_status open_store(struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                            struct mr_store_connect *connect, char address[MR_LOCAL_ADDRESS],
                            struct mr_rendezvous *out, mr_error *error)
{
    mr_status status = mr_rendezvous_plan_address(plan, who, address, error);
    if (status == MR_OK)
        status = start_store(plan, address, &connect->identity, &out->store, error);
    if (status != MR_OK)
        return status;
    warn_about_loopback(plan, who, address);
    mr_rendezvous_plan_spell(address, mr_store_port(out->store), plan->store_address);
    connect->host = address;
    connect->port = mr_store_port(out->store);
    return mr_store_connect(connect, &out->client, error);
}

static mr_status offer_store(struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                             struct mr_store_connect *connect, struct mr_address_file *file_out,
                             struct mr_rendezvous *out, mr_error *error)
{
    char address[MR_LOCAL_ADDRESS];
    if (plan->way == MR_RENDEZVOUS_BY_FILE && connect->identity.run == 0 &&
        getrandom(&connect->identity.run, sizeof connect->identity.run, 0) !=
            sizeof connect->identity.run)
        return mr_error_os(error, MR_ERR_IO, errno, "getrandom");
    mr_status status = open_store(plan, who, connect, address, out, error);
    if (plan->is_by_mpi) {
        if (status != MR_OK)
            plan->store_address[0] = '\0';
        mr_status sent = broadcast_address(plan, who, status == MR_OK ? error : NULL);
        return status == MR_OK ? sent : status;
    }
    if (status != MR_OK || plan->way != MR_RENDEZVOUS_BY_FILE)
        return status;
    *file_out = (struct mr_address_file){.port = connect->port, .run = connect->identity.run};
    snprintf(file_out->host, sizeof file_out->host, "%s", address);
    mr_agreement_boot(file_out->boot);
    status = mr_address_file_write(plan->path, file_out, error);
    if (status != MR_OK)
        file_out->port = 0;
    return status;
}

/*
 * Half of a collective's timeout, so that a silent rank is reported before the collective times
 * out.
 */
static uint32_t silence_ms(const struct mr_rendezvous_plan *plan)
{
    uint64_t half = (plan->deadline_ns - plan->began_ns) / 2 / NS_PER_MS;
    if (half < LEAST_SILENCE_MS)
        return LEAST_SILENCE_MS;
    return half < MR_STORE_SILENCE_MS ? (uint32_t)half : MR_STORE_SILENCE_MS;
}

static mr_status meet_ranks(struct mr_rendezvous_plan *plan, struct mr_rendezvous *out,
                            mr_error *error)
{
    struct mr_rank_identity *who = &out->who;
    struct mr_address_file file = {.port = 0};
    struct mr_store_connect connect = {.rank = who->rank,
                                       .identity = {.run = who->run,
                                                    .restart = who->restart,
                                                    .world_size = who->world_size,
                                                    .token = plan->token,
                                                    .silence_ms = silence_ms(plan)},
                                       .deadline_ns = plan->deadline_ns,
                                       .resolver = plan->means->resolver};
    mr_status status = who->rank == 0 ? offer_store(plan, who, &connect, &file, out, error)
                                      : find_store(plan, who, &connect, out, error);
    if (status == MR_OK) {
        struct mr_agreement agreement = {out->store,          out->client,
                                         plan->began_ns,      plan->deadline_ns,
                                         plan->store_address, plan->no_mpi.text[0] != '\0'};
        status = mr_agreement_reach(&agreement, who, out->backend, error);
    }
    if (file.port)
        mr_address_file_remove(plan->path, &file);
    return status;
}

/*
 * Tell the launcher that this rank waits. If another rank ends meanwhile without joining, the
 * launcher reports it.
 */
static mr_status meet_and_note(struct mr_rendezvous_plan *plan, struct mr_rendezvous *out,
                               mr_error *error)
{
    int notes = mr_launch_note_find(plan->means->get, plan->means->user, &out->who);
    mr_launch_note_write(notes, MR_RANK_NOTE_WAITS);
    mr_status status = meet_ranks(plan, out, error);
    mr_launch_note_write(notes, MR_RANK_NOTE_DONE);
    return status;
}

/* Rank 0 logs it once. If the group could not be made, every rank without the module logs it. */
static void log_no_mpi(const struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                       mr_status status)
{
    if (plan->no_mpi.text[0] && (who->rank == 0 || status != MR_OK))
        mr_log_line(MR_LOG_INFO, "gloo instead of mpi: %s", plan->no_mpi.text);
}

static void describe_alone(struct mr_rank_identity *who)
{
    who->local_rank = who->node = 0;
    who->local_world_size = 1;
    who->knows_local = who->knows_node = true;
}

mr_status mr_rendezvous_join_by(const struct mr_rendezvous_means *means,
                                const mr_group_options *options,
                                struct mr_rendezvous *rendezvous_out, mr_error *error)
{
    mr_group_options resolved;
    struct mr_rendezvous_plan plan;
    struct mr_rendezvous out = {0};
    memset(rendezvous_out, 0, sizeof *rendezvous_out);
    mr_status status =
        mr_options_copy(&resolved, sizeof resolved, options, "mr_group_options", error);
    if (status == MR_OK)
        status = mr_rendezvous_plan_make(means, &resolved, &plan, &out.who, out.backend, error);
    if (status != MR_OK)
        return status;
    out.deadline_ns = plan.deadline_ns;
    if (out.who.world_size == 1)
        describe_alone(&out.who);
    else
        status = meet_and_note(&plan, &out, error);
    log_no_mpi(&plan, &out.who, status);
    if (status == MR_OK)
        *rendezvous_out = out;
    else
        mr_rendezvous_leave(&out);
    return status;
}

static const char *get_environment(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

mr_status mr_rendezvous_join(const mr_group_options *options, struct mr_rendezvous *rendezvous_out,
                             mr_error *error)
{
    const struct mr_rendezvous_means means = {.get = get_environment};
    return mr_rendezvous_join_by(&means, options, rendezvous_out, error);
}

/*
 * Wait until only this rank is connected. Do not wait after a rank broke: it may still be connected
 * and will not say goodbye.
 */
static void wait_for_others(struct mr_rendezvous *rendezvous)
{
    uint64_t until = mr_clock_now_ns() + LEAVING_MS * NS_PER_MS;
    uint32_t pause_ms = 1, broken;
    while (mr_store_connected(rendezvous->store) > 1 &&
           !mr_store_broken(rendezvous->client, &broken, NULL) && mr_clock_now_ns() < until) {
        mr_clock_sleep_ms(pause_ms);
        pause_ms = pause_ms < AGAIN_MS ? pause_ms + 1 : AGAIN_MS;
    }
}

void mr_rendezvous_leave(struct mr_rendezvous *rendezvous)
{
    if (rendezvous->client && rendezvous->store)
        wait_for_others(rendezvous);
    mr_store_close(rendezvous->client);
    mr_store_stop(rendezvous->store);
    memset(rendezvous, 0, sizeof *rendezvous);
}
