/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns options and environment into a plan. Options take precedence over variables. One
 * combination is an error: a given world_size with env://, because env:// reads it from the
 * environment.
 */
#include "dist/rendezvous/rendezvous_plan.h"

#include "base/clock.h"
#include "dist/rendezvous/store_limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 600000u
#define NS_PER_MS UINT64_C(1000000)
#define OWN_NAME_MS 5000u /* limit for looking up this machine's own name */
#define LOOPBACK "127.0.0.1"

static const char *get_variable(const struct mr_rendezvous_plan *plan, const char *name)
{
    const char *value = plan->means->get(plan->means->user, name);
    return value && value[0] ? value : NULL;
}

/* Where rank 0 is. */

static mr_status parse_port(const char *text, uint16_t *port_out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return MR_ERR_INVALID;
    errno = 0;
    unsigned long port = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || port < 1 || port > 65535)
        return MR_ERR_INVALID;
    *port_out = (uint16_t)port;
    return MR_OK;
}

mr_status mr_rendezvous_plan_parse(const char *text, char host_out[256], uint16_t *port_out)
{
    const char *host = text, *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    } else if (colon && memchr(host, ':', len)) {
        /* an IPv6 address without brackets: it is unclear which colon begins the port */
        return MR_ERR_INVALID;
    }
    if (len == 0 || len >= 256)
        return MR_ERR_INVALID;
    memcpy(host_out, host, len);
    host_out[len] = '\0';
    return parse_port(colon + 1, port_out);
}

void mr_rendezvous_plan_spell(const char *host, uint16_t port, char text_out[MR_RENDEZVOUS_ADDRESS])
{
    snprintf(text_out, MR_RENDEZVOUS_ADDRESS, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
             (unsigned)port);
}

static mr_status parse_init(const char *init, struct mr_rendezvous_plan *plan, mr_error *error)
{
    plan->way = MR_RENDEZVOUS_BY_ENVIRONMENT;
    plan->n_ports = 1;
    if (!init || strcmp(init, "env://") == 0)
        return MR_OK;
    if (strncmp(init, "tcp://", 6) == 0) {
        plan->way = MR_RENDEZVOUS_BY_TCP;
        if (mr_rendezvous_plan_parse(init + 6, plan->host, &plan->port) == MR_OK)
            return MR_OK;
    }
    if (strncmp(init, "file:///", 8) == 0 && init[8]) {
        plan->way = MR_RENDEZVOUS_BY_FILE;
        plan->path = init + 7;
        return MR_OK;
    }
    return mr_error_set(error, MR_ERR_INVALID,
                        "init \"%.200s\" is not env://, tcp://HOST:PORT or file:///PATH", init);
}

static mr_status find_identity(const mr_group_options *options,
                               const struct mr_rendezvous_plan *plan, struct mr_rank_identity *who,
                               mr_error *error)
{
    if (options->world_size == 0 && options->rank != 0)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u is given without world_size",
                            options->rank);
    if (options->world_size == 0)
        return mr_rank_identity_read(plan->means->get, plan->means->user, who, error);
    if (plan->way == MR_RENDEZVOUS_BY_ENVIRONMENT)
        return mr_error_set(error, MR_ERR_INVALID,
                            "world_size %u is given, but env:// reads it from the environment",
                            options->world_size);
    return mr_rank_identity_given(plan->means->get, plan->means->user, options->rank,
                                  options->world_size, who, error);
}

static mr_status fail_missing(const struct mr_rank_identity *who, const char *name, mr_error *error)
{
    if (who->is_mpi)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s is not set, and mpirun does not provide rank 0's address", name);
    if (strcmp(who->source, "slurm") == 0)
        return mr_error_set(error, MR_ERR_INVALID, "neither %s nor %s is set", name,
                            strcmp(name, "MASTER_ADDR") == 0 ? "SLURM_STEP_NODELIST"
                                                             : "SLURM_STEP_ID");
    return mr_error_set(error, MR_ERR_INVALID, "%s is not set", name);
}

/*
 * Ranks of one mpirun on one machine meet by its variables alone, for any backend. If they met by
 * MPI, a rank without MPI's module would leave the other ranks waiting in MPI_Init.
 */
static bool is_local_mpi_job(const struct mr_rendezvous_plan *plan,
                             const struct mr_rank_identity *who)
{
    return plan->way == MR_RENDEZVOUS_BY_ENVIRONMENT && who->is_mpi && !who->master_addr[0] &&
           mr_rank_identity_is_local_job(who);
}

/*
 * Host and port from the environment. Under torchrun, its agent owns MASTER_PORT. That port is not
 * tried; the store takes one above it.
 */
static mr_status find_master(const struct mr_rank_identity *who, struct mr_rendezvous_plan *plan,
                             mr_error *error)
{
    const char *host = plan->is_local_job ? LOOPBACK : who->master_addr;
    if (!host[0] && who->is_mpi && plan->means->bootstrap) {
        plan->is_by_mpi = true;
        return MR_OK;
    }
    if (!host[0])
        return fail_missing(who, "MASTER_ADDR", error);
    if (who->master_port == 0)
        return fail_missing(who, "MASTER_PORT", error);
    uint32_t first = who->master_port + (who->port_is_taken ? 1u : 0u);
    uint32_t n = who->port_is_taken || who->port_is_derived ? MR_RANK_IDENTITY_PORTS : 1;
    if (first > 65535)
        return mr_error_set(error, MR_ERR_INVALID,
                            "MASTER_PORT=%u is torchrun's, and there is no higher port",
                            who->master_port);
    snprintf(plan->host, sizeof plan->host, "%s", host);
    plan->port = (uint16_t)first;
    plan->n_ports = (uint16_t)(n < 65536 - first ? n : 65536 - first);
    return MR_OK;
}

/* Which backend. */

static bool is_cuda(const char *device)
{
    return device && strncmp(device, "cuda:", 5) == 0;
}

/* A given address, from an option or a variable, selects gloo. */
static const char *choose_backend(const mr_group_options *options,
                                  const struct mr_rendezvous_plan *plan,
                                  const struct mr_rank_identity *who)
{
    if (options->mpi_comm)
        return "mpi";
    if (options->nccl_comm || is_cuda(options->device))
        return "nccl";
    if (who->world_size == 1)
        return "none";
    return who->is_mpi && plan->way == MR_RENDEZVOUS_BY_ENVIRONMENT && !who->master_addr[0]
               ? "mpi"
               : "gloo";
}

static bool has_module(const struct mr_rendezvous_plan *plan, const char *backend, mr_error *error)
{
    return !plan->means->find_module || plan->means->find_module(backend, error) == MR_OK;
}

static mr_status find_backend(const mr_group_options *options, struct mr_rendezvous_plan *plan,
                              const struct mr_rank_identity *who, char backend_out[8],
                              mr_error *error)
{
    const char *backend = options->backend;
    if (!backend || strcmp(backend, "auto") == 0) {
        backend = choose_backend(options, plan, who);
        if (plan->is_local_job && strcmp(backend, "mpi") == 0 &&
            !has_module(plan, backend, &plan->no_mpi))
            backend = "gloo";
    } else if (strcmp(backend, "gloo") != 0 && strcmp(backend, "mpi") != 0 &&
               strcmp(backend, "nccl") != 0) {
        return mr_error_set(error, MR_ERR_INVALID,
                            "backend \"%.100s\" is not auto, gloo, mpi or nccl", backend);
    }
    if (options->mpi_comm && strcmp(backend, "mpi") != 0)
        return mr_error_set(error, MR_ERR_INVALID, "mpi_comm is given, but backend is %s", backend);
    if (options->nccl_comm && strcmp(backend, "nccl") != 0)
        return mr_error_set(error, MR_ERR_INVALID, "nccl_comm is given, but backend is %s",
                            backend);
    snprintf(backend_out, 8, "%s", backend);
    return MR_OK;
}

/* Which address of this machine. */

static mr_status resolve_host(const struct mr_rendezvous_plan *plan, const char *host,
                              char address_out[MR_LOCAL_ADDRESS], mr_error *error)
{
    return mr_local_address_of_host(host, plan->means->resolver, plan->deadline_ns, address_out,
                                    error);
}

/* The address of rank 0 if no variable names one. */
static mr_status find_own_address(const struct mr_rendezvous_plan *plan,
                                  const struct mr_rank_identity *who,
                                  char address_out[MR_LOCAL_ADDRESS], mr_error *error)
{
    char name[256] = "";
    if (!plan->is_by_mpi || who->local_world_size == who->world_size) {
        memcpy(address_out, LOOPBACK, sizeof LOOPBACK);
        return MR_OK;
    }
    uint64_t until =
        mr_clock_now_ns() + OWN_NAME_MS * NS_PER_MS; /* after this, the default route decides */
    until = until < plan->deadline_ns ? until : plan->deadline_ns;
    if (gethostname(name, sizeof name - 1) == 0 &&
        mr_local_address_of_host(name, plan->means->resolver, until, address_out, NULL) == MR_OK &&
        !mr_local_address_is_loopback(address_out))
        return MR_OK;
    if (mr_local_address_of_route(address_out))
        return MR_OK;
    return mr_error_set(
        error, MR_ERR_INVALID,
        "neither MASTER_ADDR nor MR_SOCKET_IFNAME is set, and \"%s\" has no address "
        "that other machines can reach",
        name);
}

mr_status mr_rendezvous_plan_address(const struct mr_rendezvous_plan *plan,
                                     const struct mr_rank_identity *who,
                                     char address_out[MR_LOCAL_ADDRESS], mr_error *error)
{
    const char *interface = get_variable(plan, "MR_SOCKET_IFNAME");
    if (!interface)
        interface = get_variable(plan, "GLOO_SOCKET_IFNAME");
    if (plan->host[0])
        return resolve_host(plan, plan->host, address_out, error);
    if (who->master_addr[0])
        return resolve_host(plan, who->master_addr, address_out, error);
    if (interface)
        return mr_local_address_of_interface(interface, address_out, error);
    return find_own_address(plan, who, address_out, error);
}

static mr_status check_token(const char *token, mr_error *error)
{
    if (token && strlen(token) > MR_STORE_TOKEN)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the token (MR_TOKEN) has %zu bytes, the limit is %d", strlen(token),
                            MR_STORE_TOKEN);
    return MR_OK;
}

mr_status mr_rendezvous_plan_make(const struct mr_rendezvous_means *means,
                                  const mr_group_options *options,
                                  struct mr_rendezvous_plan *plan_out,
                                  struct mr_rank_identity *who_out, char backend_out[8],
                                  mr_error *error)
{
    uint32_t ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    struct mr_rendezvous_plan plan = {.means = means, .began_ns = mr_clock_now_ns()};
    plan.deadline_ns = plan.began_ns + ms * NS_PER_MS;
    plan.token =
        options->token && options->token[0] ? options->token : get_variable(&plan, "MR_TOKEN");
    mr_status status = check_token(plan.token, error);
    if (status == MR_OK)
        status = parse_init(options->init, &plan, error);
    if (status == MR_OK)
        status = find_identity(options, &plan, who_out, error);
    plan.is_local_job = status == MR_OK && is_local_mpi_job(&plan, who_out);
    if (status == MR_OK)
        status = find_backend(options, &plan, who_out, backend_out, error);
    if (status == MR_OK && plan.way == MR_RENDEZVOUS_BY_ENVIRONMENT && who_out->world_size > 1)
        status = find_master(who_out, &plan, error);
    *plan_out = plan;
    return status;
}
