/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks workers from a template. The template is a copy of the program, forked once when the loader
 * is created, before any device is opened. It only forks workers on request, so the program itself
 * is not forked again. This way is for callbacks.
 *
 * Invariant: the workers are the template's children, not this process's. The template passes their
 * pidfds back and reaps them on request; they die with it. A worker whose pidfd did not arrive is
 * killed at once: its death would not be noticed, and its number is given to another worker.
 */
#include "loader/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "loader/workers/worker.h"
#include "loader/workers/worker_setup.h"

/*
 * A template that does not answer for 50 ticks is killed. Time is counted in ticks, so that a
 * program that was stopped does not kill its template.
 */
enum { ANSWER_TICKS = 50, TICK_MS = 100 };

struct mr_starter {
    struct mr_worker_job job;
    int socket; /* to the template; -1: the template was killed */
    pid_t template_pid;
    int template_fd;
};

enum op { OP_START = 1, OP_REAP = 2 };

struct request {
    int32_t op;
    int32_t value; /* worker's number or process id */
};

struct reply {
    int32_t failed; /* errno, 0: done */
    int32_t pid;
    int32_t code; /* of a reaped worker: si_code and si_status from waitid */
    int32_t status;
};

static void become_child(pid_t parent)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    for (int i = 1; i < NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP)
            sigaction(i, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run_worker(const struct mr_starter *s, uint32_t id, pid_t parent)
{
    struct mr_worker_job job = s->job;
    become_child(parent);
    close(s->socket);
    job.id = id;
    job.own_process = true;
    mr_worker_setup_process(&job);
    _exit(mr_worker_main(&job));
}

/* In the template: kill a worker, which may be dead already, and collect its status. */
static void reap_worker(pid_t pid, struct reply *reply)
{
    siginfo_t info = {0};
    kill(pid, SIGKILL);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED) != 0)
        reply->failed = errno;
    reply->code = info.si_code;
    reply->status = info.si_status;
}

/* In the template: fork one worker. Returns its pidfd, or -1 and sets reply->failed. */
static int fork_worker(const struct mr_starter *s, uint32_t id, struct reply *reply)
{
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid == 0)
        run_worker(s, id, self);
    reply->pid = pid;
    /* Only this process reaps the worker, so its process id was not given to another process. */
    int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd >= 0)
        return pidfd;
    int failed = errno;
    if (pid > 0)
        reap_worker(pid, reply);
    reply->failed = failed;
    return -1;
}

static bool send_reply(int socket, const struct reply *reply, int pidfd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec io = {.iov_base = (void *)(uintptr_t)reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};
    if (pidfd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &pidfd, sizeof pidfd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof *reply;
}

/* The template's main loop. It ends when the host closes its socket or dies. */
static _Noreturn void run_template(struct mr_starter *s, pid_t host_pid)
{
    struct request request;
    become_child(host_pid);
    prctl(PR_SET_NAME, "millrace-templ");
    mr_worker_setup_cores(&s->job);
    while (recv(s->socket, &request, sizeof request, 0) == sizeof request) {
        struct reply reply = {0};
        int pidfd = -1;
        if (request.op == OP_START)
            pidfd = fork_worker(s, (uint32_t)request.value, &reply);
        else
            reap_worker(request.value, &reply);
        bool sent = send_reply(s->socket, &reply, pidfd);
        if (pidfd >= 0)
            close(pidfd);
        if (!sent)
            break;
    }
    _exit(0);
}

static bool receive_reply(int socket, struct reply *reply, int *pidfd_out)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec io = {.iov_base = reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &io,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    *pidfd_out = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof *reply)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(pidfd_out, CMSG_DATA(header), sizeof *pidfd_out);
    return true;
}

static bool await_reply(int socket)
{
    struct pollfd answer = {.fd = socket, .events = POLLIN};
    for (int tick = 0; tick < ANSWER_TICKS; tick++)
        if (poll(&answer, 1, TICK_MS) > 0)
            return true;
    return false;
}

/*
 * Kill the template, and its workers with it. It is dead or stopped, or its answers are out of
 * step.
 */
static void kill_template(struct mr_starter *s)
{
    syscall(SYS_pidfd_send_signal, s->template_fd, SIGKILL, NULL, 0);
    if (s->socket >= 0)
        close(s->socket);
    s->socket = -1;
}

static bool ask_template(struct mr_starter *s, enum op op, int32_t value, struct reply *reply_out,
                         int *pidfd_out)
{
    struct request request = {op, value};
    if (send(s->socket, &request, sizeof request, MSG_NOSIGNAL) == sizeof request &&
        await_reply(s->socket) && receive_reply(s->socket, reply_out, pidfd_out))
        return true;
    kill_template(s);
    return false;
}

static mr_status fork_template(struct mr_starter *s, mr_error *error)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "socketpair for the worker template");
    pid_t host_pid = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        s->socket = ends[1];
        run_template(s, host_pid);
    }
    int failed = errno;
    close(ends[1]);
    s->socket = ends[0];
    if (pid < 0)
        return mr_error_os(error, MR_ERR_WORKER, failed, "cannot fork the worker template");
    s->template_pid = pid;
    s->template_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (s->template_fd < 0)
        return mr_error_os(error, MR_ERR_WORKER, errno, "pidfd_open for the worker template");
    return MR_OK;
}

static mr_status fork_create(struct mr_host *host, mr_dataset *dataset,
                             struct mr_starter **starter_out, mr_error *error)
{
    struct mr_starter *s = calloc(1, sizeof *s);
    if (!s)
        return mr_error_memory(error, sizeof *s);
    s->socket = -1;
    s->template_fd = -1;
    s->job = (struct mr_worker_job){.shared = host->shared,
                                    .catalog = mr_dataset_catalog(dataset),
                                    .callbacks = mr_dataset_callbacks(dataset)};
    mr_status status = fork_template(s, error);
    if (status != MR_OK) {
        mr_starter_fork.destroy(s);
        return status;
    }
    *starter_out = s;
    return MR_OK;
}

static void fork_destroy(struct mr_starter *s)
{
    if (s->socket >= 0)
        close(s->socket); /* the template ends itself */
    if (s->template_pid > 0) {
        if (s->template_fd >= 0)
            syscall(SYS_pidfd_send_signal, s->template_fd, SIGKILL, NULL, 0);
        else
            kill(s->template_pid, SIGKILL);
        while (waitpid(s->template_pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (s->template_fd >= 0)
        close(s->template_fd);
    free(s);
}

/* A second template is never forked: a program that has opened a device must not fork one. */
static bool fork_is_lost(const struct mr_starter *s, mr_error *error_out)
{
    if (s->socket >= 0)
        return false;
    mr_error_set(error_out, MR_ERR_WORKER, "the worker template (process %d) has ended",
                 (int)s->template_pid);
    return true;
}

static mr_status fork_start(struct mr_starter *s, uint32_t id, struct mr_process *process_out,
                            mr_error *error)
{
    struct reply reply;
    int pidfd;
    if (!ask_template(s, OP_START, (int32_t)id, &reply, &pidfd)) {
        fork_is_lost(s, error);
        return MR_ERR_WORKER;
    }
    if (reply.failed != 0)
        return mr_error_os(error, MR_ERR_WORKER, reply.failed, "the template cannot fork worker %u",
                           id);
    if (pidfd < 0) { /* this process has no descriptor left to receive it */
        ask_template(s, OP_REAP, reply.pid, &reply, &pidfd);
        return mr_error_os(error, MR_ERR_WORKER, EMFILE, "no descriptor for worker %u", id);
    }
    *process_out = (struct mr_process){.pid = reply.pid, .pidfd = pidfd};
    return MR_OK;
}

static bool fork_kill(struct mr_process *process)
{
    return syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0) == 0;
}

static struct mr_exit fork_reap(struct mr_starter *s, struct mr_process *process)
{
    struct reply reply;
    int unused;
    struct mr_exit end = {.known = ask_template(s, OP_REAP, process->pid, &reply, &unused) &&
                                   reply.failed == 0};
    close(process->pidfd);
    if (end.known && reply.code == CLD_EXITED)
        end.code = reply.status;
    else if (end.known)
        end.signal = reply.status;
    return end;
}

const struct mr_starter_ops mr_starter_fork = {
    .name = "fork",
    .create = fork_create,
    .destroy = fork_destroy,
    .start = fork_start,
    .kill = fork_kill,
    .reap = fork_reap,
    .is_lost = fork_is_lost,
};
