/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor: a fork of the launcher, and the parent of all ranks. Only the monitor reaps ranks,
 * so their process ids stay valid while they are used here. A pidfd reports the launcher's death;
 * the monitor then ends everything. As a subreaper it inherits the processes that ranks leave, even
 * those that left their process groups, and ends those too.
 *
 * Which rank failed first: when one rank dies, the others often fail a moment later, and waitid()
 * lists the dead by age. So the SIGCHLD that was pending first names the rank.
 *
 * Not guaranteed: if the monitor is killed too, its ranks die with it, but not the processes that
 * they have started. It also cannot end a program that changed its user.
 */
#include "dist/launch/launch_monitor.h"

#include "base/clock.h"
#include "base/os_words.h"
#include "dist/launch/rank_child.h"
#include "dist/launch/rank_notes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * SIGKILL is repeated every KILL_AGAIN_MS, because children of killed processes become ours, for at
 * most GIVE_UP_MS.
 */
enum { KILL_AGAIN_MS = 20, GIVE_UP_MS = 10000 };
/*
 * The exit status of a launch that failed although every rank exited with 0. A rank may also have
 * joined without a note, if its program did not inherit the socket. Then the other ranks stop
 * waiting within this time, because a rendezvous ends for all at once.
 */
enum { ABSENT_STATUS = 1, ABSENT_MS = 1000 };
/*
 * A rank that runs and has not joined is named once, after the other ranks have waited this long.
 * It may still join.
 */
enum { LATE_MS = 10000 };
/*
 * `timeout` sends its signal twice, to a process and to its group. A signal within this time is not
 * a second request.
 */
enum { TWICE_MS = 200 };

struct monitor {
    const struct mr_launch_plan *plan;
    struct sigaction on_child; /* the previous action */
    pid_t self;
    int null;
    int deaths; /* signalfd of SIGCHLD */
    int launcher_fd;
    int reports[2];
    uint32_t n_alive; /* ranks */
    bool is_childless;
    bool is_alone; /* the launcher is dead */
    bool gives_up_output;
    uint64_t absent_ns;  /* when a missing rank counts as absent; 0: none is missing */
    uint64_t late_ns;    /* when a late rank is named; 0: none is late */
    uint64_t second_ns;  /* SIGINT and SIGTERM kill from then on; 0: none has arrived yet */
    uint64_t kill_ns;    /* when SIGKILL is due; 0: it is not */
    uint64_t give_up_ns; /* when to give up after SIGKILL; 0: none was sent */
    struct mr_launch_monitor_verdict verdict;
};

static uint64_t get_time_after(uint32_t ms)
{
    return mr_clock_now_ns() + (uint64_t)ms * 1000000;
}

/* Sends a signal to the process group of every running rank. */
static void signal_ranks(const struct monitor *monitor, int number)
{
    for (uint32_t i = 0; i < monitor->plan->n_ranks; i++)
        if (monitor->plan->ranks[i].pid > 0)
            kill(-monitor->plan->ranks[i].pid, number);
}

static bool is_rank(const struct monitor *monitor, pid_t pid)
{
    for (uint32_t i = 0; i < monitor->plan->n_ranks; i++)
        if (monitor->plan->ranks[i].pid == pid)
            return true;
    return false;
}

/* Reads /proc/PID/stat; 0: it is gone. The name in it may contain any character. */
static pid_t get_parent(pid_t pid)
{
    char path[40], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    int parent;
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

/*
 * Signals the processes that ranks have left: our children that are not ranks. When they die, their
 * own children become ours.
 */
static void signal_orphans(const struct monitor *monitor, int number)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && get_parent(pid) == monitor->self && !is_rank(monitor, pid))
            kill(pid, number);
    }
    closedir(proc);
}

/* SIGCONT too, because a stopped process would act on SIGTERM only later. */
static void begin_end(struct monitor *monitor)
{
    if (monitor->kill_ns != 0)
        return;
    monitor->kill_ns = get_time_after(monitor->plan->grace_ms);
    signal_ranks(monitor, SIGTERM);
    signal_ranks(monitor, SIGCONT);
    signal_orphans(monitor, SIGTERM);
    signal_orphans(monitor, SIGCONT);
}

static void kill_all(struct monitor *monitor)
{
    signal_ranks(monitor, SIGKILL);
    signal_orphans(monitor, SIGKILL);
    if (monitor->give_up_ns == 0)
        monitor->give_up_ns = get_time_after(GIVE_UP_MS);
    monitor->kill_ns = get_time_after(KILL_AGAIN_MS);
}

/* ---- the first failure ---- */

static void read_reports(struct monitor *monitor)
{
    struct mr_rank_report report;
    while (read(monitor->reports[0], &report, sizeof report) == (ssize_t)sizeof report)
        monitor->plan->ranks[report.local_rank].exec_errno = report.exec_errno;
}

static void describe_end(const struct monitor *monitor, uint32_t local_rank, const siginfo_t *info,
                         char *text, size_t size)
{
    int exec_errno = monitor->plan->ranks[local_rank].exec_errno;
    const char *name = info->si_code == CLD_EXITED ? NULL : mr_os_words_signal(info->si_status);
    if (exec_errno != 0)
        snprintf(text, size, "cannot run '%s': %s", monitor->plan->job.argv[0],
                 mr_os_words_error(exec_errno));
    else if (info->si_code == CLD_EXITED)
        snprintf(text, size, "exited with status %d", info->si_status);
    else if (name)
        snprintf(text, size, "was killed by SIG%s", name);
    else
        snprintf(text, size, "was killed by signal %d", info->si_status);
}

static void report_failure(struct monitor *monitor, uint32_t local_rank, pid_t pid, int exit_status,
                           const char *how)
{
    struct mr_launch_monitor_verdict *verdict = &monitor->verdict;
    uint32_t rank = monitor->plan->env->first_rank + local_rank;
    verdict->result =
        (mr_launch_result){.exit_status = exit_status, .rank = (int32_t)rank, .pid = pid};
    if (verdict->status == MR_OK)
        mr_error_set(&verdict->error, MR_OK, "rank %u (process %d) %s%s", rank, (int)pid, how,
                     monitor->n_alive > 0 ? "; the other ranks were ended" : "");
    begin_end(monitor);
}

static void note_failure(struct monitor *monitor, uint32_t local_rank, const siginfo_t *info)
{
    char how[600];
    if (monitor->verdict.result.rank >= 0)
        return;
    read_reports(monitor);
    describe_end(monitor, local_rank, info, how, sizeof how);
    report_failure(monitor, local_rank, info->si_pid,
                   info->si_code == CLD_EXITED ? info->si_status : 128 + info->si_status, how);
}

/*
 * Without this, the other ranks would wait until their time limit, minutes later, for a rank that
 * has ended.
 */
static void note_absence(struct monitor *monitor)
{
    uint32_t absent, waiting;
    char how[120];
    if (monitor->kill_ns != 0 || !mr_rank_notes_find_absent(monitor->plan, &absent, &waiting)) {
        monitor->absent_ns = 0;
        return;
    }
    if (monitor->absent_ns == 0)
        monitor->absent_ns = get_time_after(ABSENT_MS);
    if (mr_clock_now_ns() < monitor->absent_ns)
        return;
    snprintf(how, sizeof how,
             "exited with status 0 before it joined the group that rank %u waits for",
             monitor->plan->env->first_rank + waiting);
    report_failure(monitor, absent, monitor->plan->ranks[absent].ended_pid, ABSENT_STATUS, how);
}

/* The notice is lost if the launcher does not read. */
static void send_notice(const struct monitor *monitor, uint32_t late, uint32_t waiting)
{
    uint32_t first = monitor->plan->env->first_rank;
    struct mr_launch_monitor_verdict notice = {.is_notice = true};
    mr_error_set(&notice.error, MR_OK,
                 "rank %u (process %d) is running but has not joined the group; rank %u has waited "
                 "%d s for it",
                 first + late, (int)monitor->plan->ranks[late].pid, first + waiting,
                 LATE_MS / 1000);
    (void)!send(monitor->plan->socket, &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void note_lateness(struct monitor *monitor)
{
    uint32_t late, waiting;
    if (monitor->kill_ns != 0 || !mr_rank_notes_find_late(monitor->plan, &late, &waiting)) {
        monitor->late_ns = 0;
        return;
    }
    if (monitor->late_ns == 0)
        monitor->late_ns = get_time_after(LATE_MS);
    if (mr_clock_now_ns() < monitor->late_ns)
        return;
    do {
        send_notice(monitor, late, waiting);
        monitor->plan->ranks[late].is_named = true;
    } while (mr_rank_notes_find_late(monitor->plan, &late, &waiting));
    monitor->late_ns = 0;
}

static void note_end(struct monitor *monitor, const siginfo_t *info)
{
    for (uint32_t i = 0; i < monitor->plan->n_ranks; i++) {
        if (monitor->plan->ranks[i].pid != info->si_pid)
            continue;
        monitor->plan->ranks[i].pid = 0;
        monitor->n_alive--;
        if (info->si_code != CLD_EXITED || info->si_status != 0)
            note_failure(monitor, i, info);
        else
            monitor->plan->ranks[i].ended_pid = info->si_pid;
    }
}

/* At the end waitid() returns ECHILD: there is no rank left and no process that a rank has left. */
static void reap_ranks(struct monitor *monitor)
{
    struct signalfd_siginfo first;
    siginfo_t info = {0};
    if (read(monitor->deaths, &first, sizeof first) == (ssize_t)sizeof first &&
        waitid(P_PID, first.ssi_pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
        note_end(monitor, &info);
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) {
            monitor->is_childless = errno == ECHILD;
            return;
        }
        if (info.si_pid == 0)
            return;
        note_end(monitor, &info);
    }
}

/* ---- starting ---- */

static int open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    int failed = errno;
    close(ends[0]);
    close(ends[1]);
    return failed;
}

static int open_streams(struct monitor *monitor, uint32_t local_rank, int out[2])
{
    int ends[2];
    if (monitor->plan->logs) {
        out[0] = out[1] = monitor->plan->logs[local_rank];
        return 0;
    }
    for (int i = 0; monitor->plan->output && i < 2; i++) {
        int failed = open_pipe(ends);
        if (failed != 0)
            return failed;
        mr_rank_output_add(monitor->plan->output, local_rank, i, ends[0]);
        out[i] = ends[1];
    }
    return 0;
}

static int fork_rank(struct monitor *monitor, uint32_t local_rank, const int out[2], int notes)
{
    struct mr_rank_start start = {
        .plan = monitor->plan,
        .local_rank = local_rank,
        .monitor = monitor->self,
        .in = monitor->null,
        .out = {out[0], out[1]},
        .report = monitor->reports[1],
        .notes = notes,
        .own = {monitor->plan->socket, monitor->deaths, monitor->launcher_fd,
                monitor->plan->env->port_holder},
        .on_child = &monitor->on_child,
    };
    pid_t pid = fork();
    if (pid == 0) {
        close(monitor->reports[0]);
        mr_rank_child_run(&start);
    }
    if (pid < 0)
        return errno;
    setpgid(pid, pid); /* the child does it too; here it is certain before the first signal */
    monitor->plan->ranks[local_rank].pid = pid;
    monitor->n_alive++;
    monitor->is_childless = false;
    return 0;
}

static int start_rank(struct monitor *monitor, uint32_t local_rank)
{
    int out[2] = {-1, -1};
    int failed = open_streams(monitor, local_rank, out);
    int notes = failed == 0 ? mr_rank_notes_open(&monitor->plan->ranks[local_rank]) : -1;
    if (failed == 0)
        failed = fork_rank(monitor, local_rank, out, notes);
    if (notes >= 0)
        close(notes);
    for (int i = 0; i < 2 && !monitor->plan->logs; i++)
        if (out[i] >= 0)
            close(out[i]);
    return failed;
}

static void start_ranks(struct monitor *monitor)
{
    for (uint32_t i = 0; i < monitor->plan->n_ranks; i++)
        monitor->plan->ranks[i].notes = -1;
    for (uint32_t i = 0; i < monitor->plan->n_ranks; i++) {
        int failed = start_rank(monitor, i);
        if (failed == 0)
            continue;
        monitor->verdict.status =
            mr_error_os(&monitor->verdict.error, MR_ERR_IO, failed, "cannot start rank %u",
                        monitor->plan->env->first_rank + i);
        begin_end(monitor);
        return;
    }
}

/* ---- the loop ---- */

/* After the first SIGINT or SIGTERM the ranks end by themselves. A second one kills them. */
static bool is_second_request(struct monitor *monitor, int32_t number)
{
    if (number != SIGINT && number != SIGTERM)
        return false;
    if (monitor->second_ns != 0)
        return mr_clock_now_ns() >= monitor->second_ns;
    monitor->second_ns = get_time_after(TWICE_MS);
    return false;
}

static void pass_signals(struct monitor *monitor)
{
    int32_t number;
    while (recv(monitor->plan->socket, &number, sizeof number, MSG_DONTWAIT) ==
           (ssize_t)sizeof number) {
        if (is_second_request(monitor, number)) {
            monitor->gives_up_output = true;
            kill_all(monitor);
        } else {
            signal_ranks(monitor, number);
        }
    }
}

static void lose_launcher(struct monitor *monitor)
{
    monitor->is_alone = true;
    monitor->gives_up_output = true;
    kill_all(monitor);
}

/*
 * Does what is due. After all ranks have ended with success, processes that they left get the grace
 * time.
 */
static void do_due_actions(struct monitor *monitor)
{
    if (monitor->is_childless) {
        if (monitor->plan->output)
            mr_rank_output_finish(monitor->plan->output);
        return;
    }
    if (monitor->n_alive == 0 && monitor->kill_ns == 0)
        monitor->kill_ns = get_time_after(monitor->plan->grace_ms);
    if (monitor->kill_ns != 0 && mr_clock_now_ns() >= monitor->kill_ns)
        kill_all(monitor);
}

static bool is_over(const struct monitor *monitor)
{
    if (!monitor->is_childless)
        return monitor->give_up_ns != 0 && mr_clock_now_ns() >= monitor->give_up_ns;
    return monitor->gives_up_output || !monitor->plan->output ||
           mr_rank_output_is_done(monitor->plan->output);
}

static int get_wait_ms(const struct monitor *monitor)
{
    uint64_t due_ns = monitor->kill_ns ? monitor->kill_ns : monitor->absent_ns;
    if (due_ns == 0)
        due_ns = monitor->late_ns;
    if (monitor->is_childless || due_ns == 0)
        return -1;
    uint64_t now_ns = mr_clock_now_ns();
    return now_ns >= due_ns ? 0 : (int)((due_ns - now_ns) / 1000000 + 1);
}

/*
 * Polls one descriptor at a time. Used if poll() has no memory for all, or if there are more than
 * RLIMIT_NOFILE allows now.
 */
static void poll_each(struct pollfd *polls, uint32_t n)
{
    mr_clock_sleep_ms(KILL_AGAIN_MS);
    for (uint32_t i = 0; i < n; i++)
        if (poll(&polls[i], 1, 0) < 0)
            polls[i].revents = 0;
}

static void wait_and_act(struct monitor *monitor)
{
    struct pollfd *polls = monitor->plan->polls;
    uint32_t n = MR_LAUNCH_PLAN_POLLS;
    polls[0] = (struct pollfd){.fd = monitor->deaths, .events = POLLIN};
    polls[1] =
        (struct pollfd){.fd = monitor->is_alone ? -1 : monitor->plan->socket, .events = POLLIN};
    polls[2] =
        (struct pollfd){.fd = monitor->is_alone ? -1 : monitor->launcher_fd, .events = POLLIN};
    n += mr_rank_notes_set_polls(monitor->plan, polls + n);
    const uint32_t output_at = n;
    if (monitor->plan->output)
        n += mr_rank_output_set_polls(monitor->plan->output, polls + n);
    if (poll(polls, n, get_wait_ms(monitor)) < 0)
        poll_each(polls, n);
    if (polls[2].revents != 0 || (polls[1].revents & POLLHUP) != 0)
        lose_launcher(monitor);
    else if (polls[1].revents != 0)
        pass_signals(monitor);
    if (polls[0].revents != 0)
        reap_ranks(monitor);
    mr_rank_notes_read(monitor->plan, polls + MR_LAUNCH_PLAN_POLLS);
    note_absence(monitor);
    note_lateness(monitor);
    if (monitor->plan->output && !monitor->gives_up_output)
        mr_rank_output_pump(monitor->plan->output, polls + output_at);
    do_due_actions(monitor);
}

/* ---- beginning and end ---- */

/*
 * Blocks all signals, whatever the caller has set up. SIGCHLD must not be ignored, or the kernel
 * would reap the children.
 */
static void block_signals(struct monitor *monitor)
{
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigaction(SIGCHLD, &action, &monitor->on_child);
}

static bool begin_monitor(struct monitor *monitor)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "millrace-launch");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    monitor->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    monitor->deaths = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    monitor->launcher_fd = (int)syscall(SYS_pidfd_open, monitor->plan->launcher, 0);
    bool has_pipe = pipe2(monitor->reports, O_CLOEXEC | O_NONBLOCK) == 0;
    if (monitor->null >= 0 && monitor->deaths >= 0 && monitor->launcher_fd >= 0 && has_pipe)
        return true;
    monitor->verdict.status =
        mr_error_os(&monitor->verdict.error, MR_ERR_IO, errno, "the ranks' monitor");
    return false;
}

static void report_survivor(struct monitor *monitor)
{
    for (uint32_t i = 0; i < monitor->plan->n_ranks && monitor->verdict.status == MR_OK; i++)
        if (monitor->plan->ranks[i].pid > 0)
            monitor->verdict.status =
                mr_error_set(&monitor->verdict.error, MR_ERR_IO,
                             "rank %u (process %d) has not died %d s after SIGKILL",
                             monitor->plan->env->first_rank + i, (int)monitor->plan->ranks[i].pid,
                             GIVE_UP_MS / 1000);
}

_Noreturn void mr_launch_monitor_run(const struct mr_launch_plan *plan)
{
    struct monitor monitor = {
        .plan = plan, .self = getpid(), .is_childless = true, .verdict.result.rank = -1};
    block_signals(&monitor);
    for (size_t i = 0; i < sizeof plan->launcher_ends / sizeof *plan->launcher_ends; i++)
        close(plan->launcher_ends[i]);
    if (begin_monitor(&monitor) && getppid() == plan->launcher) {
        start_ranks(&monitor);
        while (!is_over(&monitor))
            wait_and_act(&monitor);
        report_survivor(&monitor);
    }
    for (int i = 0; i < MR_RANK_STREAMS; i++)
        monitor.verdict.output_errno[i] =
            plan->output ? mr_rank_output_failure(plan->output, i) : 0;
    ssize_t sent = send(plan->socket, &monitor.verdict, sizeof monitor.verdict, MSG_NOSIGNAL);
    _exit(sent == (ssize_t)sizeof monitor.verdict ? 0 : 1);
}
