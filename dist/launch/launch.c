/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's process. It checks options, opens logs and forks the monitor. Then it only passes
 * signals on until the monitor's verdict arrives. No handler is installed in the caller's process:
 * the signals are blocked in this thread and read.
 *
 * A blocked signal is queued even if it is ignored, so signals that the caller ignores (nohup) or
 * has blocked are not taken. If the caller has closed stdin, stdout or stderr, /dev/null is opened
 * in its place. Otherwise a descriptor opened here would get its number.
 */
#include "dist/launch/launch.h"

#include "base/log.h"
#include "base/os_words.h"
#include "base/options.h"
#include "base/public_struct.h"
#include "base/regular_file.h"
#include "dist/launch/launch_monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_GRACE_MS = 500, MAX_NODES = 65536 };

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

struct run {
    mr_launch_options options;
    struct mr_rank_env env;
    struct mr_launch_plan plan;
    int *logs;   /* n_ranks, or NULL */
    int held[3]; /* /dev/null in place of a closed stdin, stdout or stderr; -1: none */
    int socket;  /* to the monitor */
    int signals; /* signalfd */
    sigset_t taken;
    pid_t monitor;
};

static mr_status check_options(const mr_launch_options *o, mr_error *error)
{
    if (o->nproc < 1 || o->nproc > MR_MAX_PROCS)
        return mr_error_set(error, MR_ERR_INVALID, "nproc %u is not 1 to %d", o->nproc,
                            MR_MAX_PROCS);
    if (o->nnodes > MAX_NODES)
        return mr_error_set(error, MR_ERR_INVALID, "nnodes %u is above the limit of %d", o->nnodes,
                            (int)MAX_NODES);
    if (o->node_rank >= o->nnodes)
        return mr_error_set(error, MR_ERR_INVALID, "node_rank %u is not below nnodes %u",
                            o->node_rank, o->nnodes);
    if (o->nnodes > 1 && !o->rendezvous)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%u nodes need a rendezvous: HOST:PORT of rank 0's machine", o->nnodes);
    return MR_OK;
}

MR_STRUCT_INIT_FUNCTION(mr_launch_options)
MR_STRUCT_INIT_FUNCTION(mr_launch_result)

static mr_status resolve_options(struct run *run, const mr_launch_options *options, mr_error *error)
{
    mr_launch_options *o = &run->options;
    mr_status status = mr_options_copy(o, sizeof *o, options, "mr_launch_options", error);
    if (status == MR_OK)
        status =
            mr_options_check_reserved(o->reserved, sizeof o->reserved, "mr_launch_options", error);
    if (status != MR_OK)
        return status;
    o->nnodes = o->nnodes ? o->nnodes : 1;
    o->grace_ms = o->grace_ms ? o->grace_ms : DEFAULT_GRACE_MS;
    return check_options(o, error);
}

/* ---- descriptors ---- */

static void fill_standard_streams(struct run *run)
{
    for (int i = 0; i < 3; i++) {
        run->held[i] = -1;
        if (fcntl(i, F_GETFD) < 0)
            run->held[i] = open("/dev/null", O_RDWR);
    }
}

static void close_standard_streams(struct run *run)
{
    for (int i = 0; i < 3; i++)
        if (run->held[i] >= 0)
            close(run->held[i]);
}

/* Opened for appending, so that a log that is truncated meanwhile gets no hole. */
static mr_status open_log(struct run *run, uint32_t local_rank, mr_error *error)
{
    char *path = NULL;
    unsigned rank = run->env.first_rank + local_rank;
    if (asprintf(&path, "%s/rank-%u.log", run->options.log_dir, rank) < 0)
        return mr_error_memory(error, strlen(run->options.log_dir) + sizeof "/rank-4294967295.log");
    int fd = mr_regular_file_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, NULL);
    mr_status status = fd >= 0 ? MR_OK : mr_regular_file_fail(error, -fd, "cannot write %s", path);
    run->logs[local_rank] = fd < 0 ? -1 : fd;
    free(path);
    return status;
}

static mr_status open_logs(struct run *run, mr_error *error)
{
    uint32_t n = run->options.nproc;
    run->logs = calloc(n, sizeof *run->logs);
    if (!run->logs)
        return mr_error_memory(error, n * sizeof *run->logs);
    for (uint32_t i = 0; i < n; i++)
        run->logs[i] = -1;
    if (mkdir(run->options.log_dir, 0777) != 0 && errno != EEXIST)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot make the folder %s",
                           run->options.log_dir);
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < n && status == MR_OK; i++)
        status = open_log(run, i, error);
    return status;
}

static mr_status open_channels(struct run *run, mr_error *error)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "socketpair for the ranks' monitor");
    run->socket = ends[0];
    run->plan.socket = ends[1];
    run->signals = signalfd(-1, &run->taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signals < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "signalfd");
    return MR_OK;
}

/* ---- before and after ---- */

static mr_status allocate_plan(struct run *run, mr_error *error)
{
    struct mr_launch_plan *plan = &run->plan;
    uint32_t n = run->options.nproc, n_polls = MR_LAUNCH_PLAN_POLLS + n;
    if (!run->options.log_dir && !run->options.no_prefix) {
        plan->output = mr_rank_output_create(n, run->env.first_rank, error);
        if (!plan->output)
            return MR_ERR_NO_MEMORY;
        n_polls += mr_rank_output_n_polls(plan->output);
    }
    plan->ranks = calloc(n, sizeof *plan->ranks);
    plan->polls = calloc(n_polls, sizeof *plan->polls);
    if (!plan->ranks || !plan->polls)
        return mr_error_memory(error, n * sizeof *plan->ranks + n_polls * sizeof *plan->polls);
    return MR_OK;
}

/* Takes the signals that are neither ignored nor blocked now. */
static void choose_signals(struct run *run)
{
    sigset_t blocked;
    struct sigaction action;
    sigemptyset(&run->taken);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        if (!sigismember(&blocked, passed_on[i]) && sigaction(passed_on[i], NULL, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            sigaddset(&run->taken, passed_on[i]);
}

static mr_status prepare_run(struct run *run, const struct mr_rank_job *job, mr_error *error)
{
    const mr_launch_options *o = &run->options;
    const struct mr_rank_world world = {o->nproc, o->nnodes, o->node_rank, o->rendezvous};
    choose_signals(run);
    mr_status status = mr_rank_env_init(&run->env, &world, error);
    if (status == MR_OK && o->log_dir)
        status = open_logs(run, error);
    if (status == MR_OK)
        status = allocate_plan(run, error);
    if (status == MR_OK)
        status = open_channels(run, error);
    run->plan.job = *job;
    run->plan.n_ranks = o->nproc;
    run->plan.grace_ms = o->grace_ms;
    run->plan.env = &run->env;
    run->plan.logs = run->logs;
    run->plan.launcher_ends[0] = run->socket;
    run->plan.launcher_ends[1] = run->signals;
    run->plan.launcher = getpid();
    return status;
}

static void close_logs(struct run *run)
{
    for (uint32_t i = 0; run->logs && i < run->options.nproc; i++)
        if (run->logs[i] >= 0)
            close(run->logs[i]);
    free(run->logs);
    run->logs = NULL;
}

static void clean_up(struct run *run)
{
    if (run->socket >= 0)
        close(run->socket);
    if (run->plan.socket >= 0)
        close(run->plan.socket);
    if (run->signals >= 0)
        close(run->signals);
    mr_rank_output_destroy(run->plan.output);
    free(run->plan.ranks);
    free(run->plan.polls);
    close_logs(run);
    mr_rank_env_fini(&run->env);
}

/* ---- the monitor ---- */

/* Forks with all signals blocked, so that no handler of the caller runs in the monitor. */
static mr_status fork_monitor(struct run *run, mr_error *error)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &run->plan.mask);
    run->monitor = fork();
    int failed = errno;
    if (run->monitor == 0)
        mr_launch_monitor_run(&run->plan);
    sigset_t during = run->plan.mask;
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        if (sigismember(&run->taken, passed_on[i]))
            sigaddset(&during, passed_on[i]);
    pthread_sigmask(SIG_SETMASK, &during, NULL);
    if (run->monitor < 0)
        return mr_error_os(error, MR_ERR_IO, failed, "cannot fork the ranks' monitor");
    close(run->plan.socket);
    run->plan.socket = -1;
    close_logs(run);
    return MR_OK;
}

static void pass_signals(const struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int32_t number = (int32_t)info.ssi_signo;
        /* If the monitor is gone, the missing verdict shows it. */
        (void)!send(run->socket, &number, sizeof number, MSG_NOSIGNAL);
    }
}

static bool await_verdict(const struct run *run, struct mr_launch_monitor_verdict *verdict_out)
{
    struct pollfd polls[2] = {{.fd = run->socket, .events = POLLIN},
                              {.fd = run->signals, .events = POLLIN}};
    for (;;) {
        if (poll(polls, 2, -1) < 0)
            continue;
        if (polls[1].revents != 0)
            pass_signals(run);
        if (polls[0].revents == 0)
            continue;
        if (recv(run->socket, verdict_out, sizeof *verdict_out, 0) != (ssize_t)sizeof *verdict_out)
            return false;
        if (!verdict_out->is_notice)
            return true;
        mr_log_line(MR_LOG_WARNING, "%s", verdict_out->error.text);
    }
}

/* The monitor's wait status, or -1 if the caller's program has reaped it first. */
static int reap_monitor(const struct run *run)
{
    int end;
    pid_t reaped;
    do
        reaped = waitpid(run->monitor, &end, 0);
    while (reaped < 0 && errno == EINTR);
    return reaped == run->monitor ? end : -1;
}

static mr_status report_lost_monitor(const struct run *run, int end, mr_error *error)
{
    if (end >= 0 && WIFSIGNALED(end))
        return mr_error_set(
            error, MR_ERR_IO,
            "the ranks' monitor (process %d) was killed by signal %d; the ranks died with it",
            (int)run->monitor, WTERMSIG(end));
    return mr_error_set(error, MR_ERR_IO, "the ranks' monitor (process %d) is gone",
                        (int)run->monitor);
}

static void log_verdict(const struct mr_launch_monitor_verdict *verdict)
{
    static const char *const names[MR_RANK_STREAMS] = {"stdout", "stderr"};
    if (verdict->status == MR_OK && verdict->error.text[0] != '\0')
        mr_log_line(MR_LOG_ERROR, "%s", verdict->error.text);
    for (int i = 0; i < MR_RANK_STREAMS; i++)
        if (verdict->output_errno[i] != 0 && verdict->output_errno[i] != EPIPE)
            mr_log_line(MR_LOG_ERROR, "%s of the ranks is lost: %s", names[i],
                        mr_os_words_error(verdict->output_errno[i]));
}

static mr_status run_monitor(struct run *run, mr_launch_result *result_out, mr_error *error)
{
    struct mr_launch_monitor_verdict verdict;
    mr_status status = fork_monitor(run, error);
    if (status == MR_OK) {
        bool has_verdict = await_verdict(run, &verdict);
        int end = reap_monitor(run);
        if (!has_verdict)
            status = report_lost_monitor(run, end, error);
        else if (verdict.status != MR_OK)
            mr_error_copy(error, &verdict.error);
        if (has_verdict) {
            status = verdict.status;
            log_verdict(&verdict);
        }
        if (status == MR_OK)
            mr_out_struct_write(result_out, &verdict.result, sizeof verdict.result);
    }
    pthread_sigmask(SIG_SETMASK, &run->plan.mask, NULL);
    return status;
}

mr_status mr_launch_run(const mr_launch_options *options, const struct mr_rank_job *job,
                        mr_launch_result *result_out, mr_error *error)
{
    mr_status status =
        mr_out_struct_check(result_out, sizeof *result_out, "mr_launch_result", error);
    if (status != MR_OK)
        return status;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return mr_error_memory(error, sizeof *run);
    run->socket = run->plan.socket = run->signals = run->env.port_holder = -1;
    status = resolve_options(run, options, error);
    if (status == MR_OK) {
        fill_standard_streams(run);
        status = prepare_run(run, job, error);
        if (status == MR_OK)
            status = run_monitor(run, result_out, error);
        clean_up(run);
        close_standard_streams(run);
    }
    free(run);
    return status;
}

/*
 * Each rank searches the PATH of this process for the program. If it is not found, the rank exits
 * with 127.
 */
mr_status mr_launch(const mr_launch_options *options, char *const *argv,
                    mr_launch_result *result_out, mr_error *error)
{
    if (!options || !result_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL",
                            options ? "result_out" : "options");
    if (!argv || !argv[0] || argv[0][0] == '\0')
        return mr_error_set(error, MR_ERR_INVALID, "argv names no program");
    const struct mr_rank_job job = {.argv = argv};
    return mr_launch_run(options, &job, result_out, error);
}
