/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From options and environment to a store that all ranks are connected to. The store of the previous group may still
 * run and answer: a rank that it already knows tries again.
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
#include "dist/rendezvous/store_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define LEAVING_MS 2000u /* how long rank 0 keeps its store for the others */
#define REFUSED_MS 4000u /* how long refusals must last before they count: longer than a store needs to end */
#define TRY_FILE_MS 250u /* time for the first try of an address from a file */
#define MAX_TRY_FILE_MS 4000u
#define AGAIN_MS 20u
#define TRY_PORT_MS 200u /* time for the process that has our port to identify itself */
#define LEAST_SILENCE_MS (3 * MR_STORE_BEAT_MS)
#define NS_PER_MS UINT64_C(1000000)

/* Rank 0's store. */

/* Is the port taken by a store of this very process, for the same ranks? Then its group is still there. */
static bool is_our_own(const char *address, uint16_t port, const struct mr_store_identity *identity,
                       uint64_t deadline_ns)
{
    struct mr_store_probe probe;
    uint64_t until = mr_clock_now_ns() + TRY_PORT_MS * NS_PER_MS;
    return mr_store_probe_hello(address, port, until < deadline_ns ? until : deadline_ns, &probe, NULL) == MR_OK &&
           probe.process == (uint32_t)getpid() && probe.run == identity->run && probe.restart == identity->restart &&
           probe.world_size == identity->world_size;
}

/* Use the first free port of those that all ranks try. */
static mr_status start_store(const struct mr_rendezvous_plan *plan, const char *address,
                             const struct mr_store_identity *identity, struct mr_store **store_out, mr_error *error)
{
    mr_error why;
    mr_status status = MR_ERR_IO;
    for (uint32_t i = 0; i < plan->n_ports; i++) {
        uint16_t port = (uint16_t)(plan->port + i);
        status = mr_store_start(address, port, identity, store_out, &why);
        if (status != MR_ERR_IO || why.os_error != EADDRINUSE)
            break;
        if (is_our_own(address, port, identity, plan->deadline_ns))
            return mr_error_set(error, MR_ERR_STATE,
                                "a group of these ranks is there, with its store at %s port %u: mr_group_split() makes "
                                "a second one",
                                address, port);
    }
    if (status != MR_OK)
        mr_error_copy(error, &why);
    return status;
}

static void warn_of_loopback(const struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                             const char *address)
{
    if (mr_local_address_is_loopback(address) && who->local_world_size && who->local_world_size < who->world_size)
        mr_log_line(MR_LOG_WARNING,
                    "rank 0's address %.100s is %s on its own machine, and no other machine reaches that",
                    plan->host[0] ? plan->host : "", address);
}

/* A store that this rank has joined before belongs to a group that is ending. */
static mr_status check_new(struct mr_store_client *client, const struct mr_rank_identity *who, const char *address,
                           mr_error *error)
{
    char key[MR_STORE_KEY];
    int64_t times = 0;
    snprintf(key, sizeof key, "join/seen/%u", who->rank);
    mr_status status = mr_store_add(client, key, 1, &times, error);
    if (status == MR_OK && times != 1)
        return mr_error_set(error, MR_ERR_PEER, "the store at %s is of a group that rank %u has left", address,
                            who->rank);
    return status;
}

static mr_status come_in(const struct mr_store_connect *connect, const struct mr_rank_identity *who,
                         struct mr_store_client **client_out, mr_error *error)
{
    char address[MR_RENDEZVOUS_ADDRESS];
    struct mr_store_client *client = NULL;
    mr_rendezvous_plan_spell(connect->host, connect->port, address);
    mr_status status = mr_store_connect(connect, &client, error);
    if (status == MR_OK)
        status = check_new(client, who, address, error);
    if (status == MR_OK)
        *client_out = client;
    else
        mr_store_close(client);
    return status;
}

/* A store that is ending may refuse a rank, or drop it at once: such a failure counts only if it lasts. */
static mr_status keep_coming(const struct mr_rendezvous_plan *plan, const struct mr_store_connect *connect,
                             const struct mr_rank_identity *who, struct mr_store_client **client_out, mr_error *error)
{
    uint64_t total_ms = (plan->deadline_ns - plan->began_ns) / NS_PER_MS;
    uint64_t patience_ns = (total_ms / 4 < REFUSED_MS ? total_ms / 4 : REFUSED_MS) * NS_PER_MS;
    uint64_t refused_ns = 0;
    for (uint32_t pause_ms = AGAIN_MS;; pause_ms = pause_ms < 500 ? pause_ms * 2 : pause_ms) {
        mr_status status = come_in(connect, who, client_out, error);
        uint64_t now = mr_clock_now_ns();
        if (status != MR_ERR_PEER && status != MR_ERR_IO)
            return status;
        if (refused_ns == 0)
            refused_ns = now;
        if (now - refused_ns >= patience_ns || now >= plan->deadline_ns)
            return status;
        mr_clock_sleep_ms(pause_ms);
    }
}

/* Does the file say where the store of this very run is? MR_PENDING: not yet, or it is stale. */
static mr_status check_file(const struct mr_rendezvous_plan *plan, uint32_t try_ms, const struct mr_rank_identity *who,
                            struct mr_address_file *file_out, mr_error *error)
{
    char boot[40];
    struct mr_store_probe probe;
    uint64_t until = mr_clock_now_ns() + try_ms * NS_PER_MS;
    mr_status status = mr_address_file_read(plan->path, file_out, error);
    if (status != MR_OK)
        return status;
    if (who->run && who->run != file_out->run)
        return mr_error_set(error, MR_PENDING, "%s is of another run", plan->path);
    mr_agreement_boot(boot);
    if (mr_local_address_is_loopback(file_out->host) && strcmp(boot, file_out->boot) != 0)
        return mr_error_set(error, MR_PENDING,
                            "%s says %s, which is on another machine; MR_SOCKET_IFNAME is not set there", plan->path,
                            file_out->host);
    status = mr_store_probe_hello(file_out->host, file_out->port, until < plan->deadline_ns ? until : plan->deadline_ns,
                                  &probe, error);
    if (status == MR_OK && (probe.run != file_out->run || probe.restart != who->restart))
        return mr_error_set(error, MR_PENDING, "the store that %s names is of another run", plan->path);
    return status;
}

/*
 * A stale file names an address without a store, or the store of another run; rank 0 will replace the file. This rank
 * asks the store for its run before it greets it, because a rank that has greeted can only wait.
 */
static mr_status come_by_file(struct mr_rendezvous_plan *plan, struct mr_store_connect *connect,
                              const struct mr_rank_identity *who, struct mr_store_client **client_out, mr_error *error)
{
    mr_error why;
    uint32_t n_tries = 0, try_ms = TRY_FILE_MS;
    do {
        struct mr_address_file file;
        mr_status status = check_file(plan, try_ms, who, &file, &why);
        if (status == MR_OK) {
            memcpy(plan->host, file.host, sizeof file.host);
            connect->host = plan->host;
            connect->port = file.port;
            connect->identity.run = file.run;
            mr_rendezvous_plan_spell(file.host, file.port, plan->store_address);
            status = come_in(connect, who, client_out, &why);
        }
        if (status == MR_OK || status == MR_ERR_NO_MEMORY || status == MR_ERR_TIMEOUT) {
            mr_error_copy(status == MR_OK ? NULL : error, &why);
            return status;
        }
        n_tries++;
        if (why.os_error == ETIMEDOUT && try_ms < MAX_TRY_FILE_MS)
            try_ms *= 2;
        mr_clock_sleep_ms(AGAIN_MS);
    } while (mr_clock_now_ns() < plan->deadline_ns);
    uint64_t ms = (mr_clock_now_ns() - plan->began_ns) / NS_PER_MS;
    return mr_error_set(error, MR_ERR_TIMEOUT, "rank %u looked at %s %u times in %u ms, the last time: %.500s",
                        who->rank, plan->path, n_tries, (unsigned)ms, why.text);
}

/* Rank 0 sends its store's address, the others receive it. "": rank 0 has no store. */
static mr_status get_address(struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who, mr_error *error)
{
    mr_status status = plan->means->bootstrap(plan->means->bootstrap_user, who, plan->store_address, error);
    plan->store_address[sizeof plan->store_address - 1] = '\0';
    if (status != MR_OK || who->rank == 0)
        return status;
    if (mr_rendezvous_plan_parse(plan->store_address, plan->host, &plan->port) != MR_OK)
        return mr_error_set(error, MR_ERR_PEER, "rank 0 has no store: its address is \"%s\"", plan->store_address);
    return MR_OK;
}

static mr_status find_store(struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                            struct mr_store_connect *connect, struct mr_rendezvous *out, mr_error *error)
{
    mr_status status = MR_OK;
    if (plan->way == MR_RENDEZVOUS_BY_FILE)
        return come_by_file(plan, connect, who, &out->client, error);
    if (plan->is_by_mpi)
        status = get_address(plan, who, error);
    if (status != MR_OK)
        return status;
    mr_rendezvous_plan_spell(plan->host, plan->port, plan->store_address);
    connect->host = plan->host;
    connect->port = plan->port;
    connect->n_ports = (uint16_t)(plan->n_ports - 1);
    return keep_coming(plan, connect, who, &out->client, error);
}

/* Start the store and connect this rank to it. */
static mr_status open_store(struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who,
                            struct mr_store_connect *connect, char address[MR_LOCAL_ADDRESS], struct mr_rendezvous *out,
                            mr_error *error)
{
    mr_status status = mr_rendezvous_plan_address(plan, who, address, error);
    if (status == MR_OK)
        status = start_store(plan, address, &connect->identity, &out->store, error);
    if (status != MR_OK)
        return status;
    warn_of_loopback(plan, who, address);
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
        getrandom(&connect->identity.run, sizeof connect->identity.run, 0) != sizeof connect->identity.run)
        return mr_error_os(error, MR_ERR_IO, errno, "getrandom");
    mr_status status = open_store(plan, who, connect, address, out, error);
    if (plan->is_by_mpi) {
        if (status != MR_OK)
            plan->store_address[0] = '\0';
        mr_status sent = get_address(plan, who, status == MR_OK ? error : NULL);
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

/* Half of a collective's timeout, so that a lost rank is known before the collective times out. */
static uint32_t silence_ms(const struct mr_rendezvous_plan *plan)
{
    uint64_t half = (plan->deadline_ns - plan->began_ns) / 2 / NS_PER_MS;
    if (half < LEAST_SILENCE_MS)
        return LEAST_SILENCE_MS;
    return half < MR_STORE_SILENCE_MS ? (uint32_t)half : MR_STORE_SILENCE_MS;
}

static mr_status meet_ranks(struct mr_rendezvous_plan *plan, struct mr_rendezvous *out, mr_error *error)
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
        struct mr_agreement agreement = {out->store,        out->client,         plan->began_ns,
                                         plan->deadline_ns, plan->store_address, plan->no_mpi.text[0] != '\0'};
        status = mr_agreement_reach(&agreement, who, out->backend, error);
    }
    if (file.port)
        mr_address_file_remove(plan->path, &file);
    return status;
}

/* The launcher knows meanwhile that this rank waits, and reports a rank that has ended without coming. */
static mr_status meet_as_noted(struct mr_rendezvous_plan *plan, struct mr_rendezvous *out, mr_error *error)
{
    int notes = mr_launch_note_find(plan->means->get, plan->means->user, &out->who);
    mr_launch_note_write(notes, MR_RANK_NOTE_WAITS);
    mr_status status = meet_ranks(plan, out, error);
    mr_launch_note_write(notes, MR_RANK_NOTE_DONE);
    return status;
}

/* Once, by rank 0; where there is no group, by each rank that it holds for. */
static void say_no_mpi(const struct mr_rendezvous_plan *plan, const struct mr_rank_identity *who, mr_status status)
{
    if (plan->no_mpi.text[0] && (who->rank == 0 || status != MR_OK))
        mr_log_line(MR_LOG_INFO, "gloo instead of mpi: %s", plan->no_mpi.text);
}

static void be_alone(struct mr_rank_identity *who)
{
    who->local_rank = who->node = 0;
    who->local_world_size = 1;
    who->knows_local = who->knows_node = true;
}

mr_status mr_rendezvous_join_by(const struct mr_rendezvous_means *means, const mr_group_options *options,
                                struct mr_rendezvous *rendezvous_out, mr_error *error)
{
    mr_group_options resolved;
    struct mr_rendezvous_plan plan;
    struct mr_rendezvous out = {0};
    memset(rendezvous_out, 0, sizeof *rendezvous_out);
    mr_status status = mr_options_copy(&resolved, sizeof resolved, options, "mr_group_options", error);
    if (status == MR_OK)
        status = mr_rendezvous_plan_make(means, &resolved, &plan, &out.who, out.backend, error);
    if (status != MR_OK)
        return status;
    out.deadline_ns = plan.deadline_ns;
    if (out.who.world_size == 1)
        be_alone(&out.who);
    else
        status = meet_as_noted(&plan, &out, error);
    say_no_mpi(&plan, &out.who, status);
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

mr_status mr_rendezvous_join(const mr_group_options *options, struct mr_rendezvous *rendezvous_out, mr_error *error)
{
    const struct mr_rendezvous_means means = {.get = get_environment};
    return mr_rendezvous_join_by(&means, options, rendezvous_out, error);
}

/* Wait for the ranks that came, until one has broken off: that one will not say that it leaves. */
static void wait_for_others(struct mr_rendezvous *rendezvous)
{
    static const char key[] = "join/left";
    uint64_t until = mr_clock_now_ns() + LEAVING_MS * NS_PER_MS;
    uint8_t *present = calloc(1, rendezvous->who.world_size / 8 + 1);
    uint32_t pause_ms = 1, broken;
    if (!present)
        return;
    for (;;) {
        int64_t n_left = 0;
        uint32_t n_came = mr_store_present(rendezvous->store, present);
        if (mr_store_broken(rendezvous->client, &broken, NULL) ||
            mr_store_add(rendezvous->client, key, 0, &n_left, NULL) != MR_OK || n_left + 1 >= n_came ||
            mr_clock_now_ns() >= until)
            break;
        mr_clock_sleep_ms(pause_ms);
        pause_ms = pause_ms < AGAIN_MS ? pause_ms + 1 : AGAIN_MS;
    }
    free(present);
}

void mr_rendezvous_leave(struct mr_rendezvous *rendezvous)
{
    int64_t n_left;
    if (rendezvous->client && rendezvous->store)
        wait_for_others(rendezvous);
    else if (rendezvous->client)
        mr_store_add_until(rendezvous->client, "join/left", 1, &n_left, mr_clock_now_ns() + 1000 * NS_PER_MS, NULL);
    mr_store_close(rendezvous->client);
    mr_store_stop(rendezvous->store);
    memset(rendezvous, 0, sizeof *rendezvous);
}
