/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank before its program runs. It asks the kernel to kill it when the monitor dies. It gets its
 * own process group, so that a terminal's Ctrl-C reaches it once, through the launcher. Then it
 * gets its descriptors, and becomes the program or calls the function.
 *
 * PR_SET_PDEATHSIG does not report a monitor that is already dead, so the parent's id is checked
 * afterwards. A rank is not in the terminal's foreground group and would be stopped if it read from
 * the terminal, so it never gets the terminal as stdin.
 */
#include "dist/launch/rank_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void tie_to_monitor(pid_t monitor)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != monitor)
        _exit(1);
    setpgid(0, 0);
}

/* Rank 0 keeps the launcher's stdin, unless that is a terminal. */
static void set_streams(const struct mr_rank_start *start)
{
    bool keeps_stdin =
        start->plan->env->first_rank + start->local_rank == 0 && !isatty(STDIN_FILENO);
    if (!keeps_stdin && dup2(start->in, STDIN_FILENO) < 0)
        _exit(126);
    for (int i = 0; i < 2; i++)
        if (start->out[i] >= 0 && dup2(start->out[i], STDOUT_FILENO + i) < 0)
            _exit(126);
}

/* Exec closes these for a program. A function would hold other ranks' pipes open. */
static void drop_descriptors(const struct mr_rank_start *start)
{
    const struct mr_launch_plan *plan = start->plan;
    close(start->in);
    close(start->report);
    for (int i = 0; i < 2; i++)
        if (start->out[i] >= 0 && (i == 0 || start->out[i] != start->out[0]))
            close(start->out[i]);
    for (size_t i = 0; i < sizeof start->own / sizeof *start->own; i++)
        if (start->own[i] >= 0)
            close(start->own[i]);
    for (uint32_t i = 0; i <= start->local_rank; i++)
        if (plan->ranks[i].notes >= 0)
            close(plan->ranks[i].notes);
    if (plan->output)
        mr_rank_output_drop(plan->output);
    for (uint32_t i = 0; plan->logs && i < plan->n_ranks; i++)
        if (plan->logs[i] != start->out[0])
            close(plan->logs[i]);
}

static void restore_signals(const struct mr_rank_start *start)
{
    sigaction(SIGCHLD, start->on_child, NULL);
    sigprocmask(SIG_SETMASK, &start->plan->mask, NULL);
}

/* Exits as a shell does: 127 if the program was not found, 126 if it cannot be run. */
static _Noreturn void run_program(const struct mr_rank_start *start)
{
    char *const *argv = start->plan->job.argv;
    execvpe(argv[0], argv, start->plan->env->envp);
    struct mr_rank_report report = {start->local_rank, errno};
    bool is_reported = write(start->report, &report, sizeof report) == (ssize_t)sizeof report;
    _exit(is_reported && report.exec_errno == ENOENT ? 127 : 126);
}

_Noreturn void mr_rank_child_run(const struct mr_rank_start *start)
{
    const struct mr_rank_job *job = &start->plan->job;
    tie_to_monitor(start->monitor);
    mr_rank_env_choose(start->plan->env, start->local_rank);
    mr_rank_env_set_notes(start->plan->env, start->notes);
    set_streams(start);
    if (job->argv) {
        if (start->notes >= 0)
            fcntl(start->notes, F_SETFD, 0); /* the program inherits it */
        restore_signals(start);
        run_program(start);
    }
    drop_descriptors(start);
    environ = start->plan->env->envp;
    uint32_t local_rank = start->local_rank;
    restore_signals(start);
    exit(job->fn(job->user, local_rank));
}
