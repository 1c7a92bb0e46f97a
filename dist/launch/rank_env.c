/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a rank: the caller's, with torchrun's variables set and those of an outer
 * torchrun removed. If they stayed, a rank would use the port of an agent that does not exist.
 *
 * A free port must stay free until rank 0's store binds it, but the kernel might give it to any
 * connection of this machine. So a socket that is bound but does not listen holds the port until
 * the run ends. The store can bind it too, because both set SO_REUSEADDR.
 */
#include "dist/launch/rank_env.h"

#include "base/rank_note.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_OURS = 9, MAX_HOST = 255 };

static const char run_id_name[] = "MR_RUN_ID";
/* The variables that are set here; an outer launcher's are removed. */
static const char *const names[] = {
    "RANK",        "LOCAL_RANK",  "WORLD_SIZE", "LOCAL_WORLD_SIZE",   "GROUP_RANK",
    "MASTER_ADDR", "MASTER_PORT", run_id_name,  MR_RANK_NOTE_VARIABLE};
static const char dropped_prefix[] = "TORCHELASTIC_";

static bool has_name(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static bool is_dropped(const char *entry)
{
    for (size_t i = 0; i < N_OURS; i++)
        if (has_name(entry, names[i]))
            return true;
    return strncmp(entry, dropped_prefix, sizeof dropped_prefix - 1) == 0;
}

/*
 * Takes a free port of 127.0.0.1 from the kernel. The socket is bound but does not listen, so no
 * connection reaches it.
 */
static mr_status hold_free_port(struct mr_rank_env *env, mr_error *error)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int one = 1;
    env->port_holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (env->port_holder < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "socket for a free port");
    if (setsockopt(env->port_holder, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(env->port_holder, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(env->port_holder, (struct sockaddr *)&address, &len) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "no free port on 127.0.0.1");
    snprintf(env->master_addr, sizeof env->master_addr, "MASTER_ADDR=127.0.0.1");
    snprintf(env->master_port, sizeof env->master_port, "MASTER_PORT=%u",
             (unsigned)ntohs(address.sin_port));
    return MR_OK;
}

/* 1 to 65535 in decimal digits; 0: not a port. */
static unsigned parse_port(const char *text)
{
    unsigned port = 0;
    size_t len = strspn(text, "0123456789");
    if (len == 0 || len > 5 || text[len] != '\0')
        return 0;
    for (size_t i = 0; i < len; i++)
        port = port * 10 + (unsigned)(text[i] - '0');
    return port <= 65535 ? port : 0;
}

/* "HOST:PORT"; an IPv6 address is in brackets, which are not part of it. */
static mr_status set_rendezvous(struct mr_rank_env *env, const char *text, mr_error *error)
{
    const char *colon = strrchr(text, ':');
    const char *host = text;
    size_t len = colon ? (size_t)(colon - text) : 0;
    bool bracketed = len >= 2 && host[0] == '[' && host[len - 1] == ']';
    if (bracketed) {
        host++;
        len -= 2;
    }
    if (len == 0 || len > MAX_HOST || (!bracketed && memchr(host, ':', len)) ||
        strcspn(host, " \t\r\n/") < len)
        return mr_error_set(error, MR_ERR_INVALID,
                            "rendezvous '%s' is not HOST:PORT or [ADDRESS]:PORT", text);
    unsigned port = parse_port(colon + 1);
    if (port == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "rendezvous '%s': '%s' is not a port from 1 to 65535", text, colon + 1);
    snprintf(env->master_addr, sizeof env->master_addr, "MASTER_ADDR=%.*s", (int)len, host);
    snprintf(env->master_port, sizeof env->master_port, "MASTER_PORT=%u", port);
    return MR_OK;
}

/* FNV-1a of what all machines of a run have in common, because they cannot communicate yet. */
static uint64_t hash_run(const struct mr_rank_env *env)
{
    const char *const parts[] = {env->master_addr, env->master_port, env->world_size};
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *c = parts[i]; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

/*
 * On one machine each run gets a new id. On several machines it is a hash, unless the user has set
 * MR_RUN_ID.
 */
static mr_status set_run_id(struct mr_rank_env *env, bool one_node, mr_error *error)
{
    uint64_t id = 0;
    if (!one_node)
        id = hash_run(env);
    else if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return mr_error_os(error, MR_ERR_IO, errno, "getrandom for the run's id");
    snprintf(env->run_id, sizeof env->run_id, "%s=%" PRIu64, run_id_name, id ? id : 1);
    return MR_OK;
}

static mr_status copy_environment(struct mr_rank_env *env, bool keep_run_id, mr_error *error)
{
    char *const ours[N_OURS] = {
        env->rank,       env->local_rank,  env->world_size,  env->local_world_size,
        env->group_rank, env->master_addr, env->master_port, env->run_id,
        env->notes};
    size_t n = 0, used = 0;
    while (environ && environ[n])
        n++;
    env->envp = calloc(n + N_OURS + 1, sizeof *env->envp);
    if (!env->envp)
        return mr_error_memory(error, (n + N_OURS + 1) * sizeof *env->envp);
    bool has_run_id = false;
    for (size_t i = 0; i < n; i++) {
        bool kept = keep_run_id && has_name(environ[i], run_id_name);
        has_run_id = has_run_id || kept;
        if (kept || !is_dropped(environ[i]))
            env->envp[used++] = environ[i];
    }
    for (size_t i = 0; i < N_OURS; i++)
        if (ours[i] != env->run_id || !has_run_id)
            env->envp[used++] = ours[i];
    return MR_OK;
}

mr_status mr_rank_env_init(struct mr_rank_env *env, const struct mr_rank_world *world,
                           mr_error *error)
{
    memset(env, 0, sizeof *env);
    env->port_holder = -1;
    env->first_rank = world->node_rank * world->nproc;
    snprintf(env->world_size, sizeof env->world_size, "WORLD_SIZE=%u",
             world->nnodes * world->nproc);
    snprintf(env->local_world_size, sizeof env->local_world_size, "LOCAL_WORLD_SIZE=%u",
             world->nproc);
    snprintf(env->group_rank, sizeof env->group_rank, "GROUP_RANK=%u", world->node_rank);

    bool one_node = world->nnodes == 1;
    mr_status status = world->rendezvous ? set_rendezvous(env, world->rendezvous, error)
                                         : hold_free_port(env, error);
    if (status == MR_OK)
        status = set_run_id(env, one_node, error);
    if (status == MR_OK)
        status = copy_environment(env, !one_node, error);
    if (status != MR_OK)
        mr_rank_env_fini(env);
    else
        mr_rank_env_choose(env, 0);
    return status;
}

void mr_rank_env_choose(struct mr_rank_env *env, uint32_t local_rank)
{
    snprintf(env->rank, sizeof env->rank, "RANK=%u", env->first_rank + local_rank);
    snprintf(env->local_rank, sizeof env->local_rank, "LOCAL_RANK=%u", local_rank);
    snprintf(env->notes, sizeof env->notes, MR_RANK_NOTE_VARIABLE "=");
}

void mr_rank_env_set_notes(struct mr_rank_env *env, int fd)
{
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0)
        snprintf(env->notes, sizeof env->notes, MR_RANK_NOTE_VARIABLE "=%d:%llu:%s:%s", fd,
                 (unsigned long long)info.st_ino, strchr(env->rank, '=') + 1,
                 strchr(env->world_size, '=') + 1);
}

void mr_rank_env_fini(struct mr_rank_env *env)
{
    if (env->port_holder >= 0)
        close(env->port_holder);
    env->port_holder = -1;
    free(env->envp);
    env->envp = NULL;
}
