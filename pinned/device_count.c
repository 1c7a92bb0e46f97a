/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts devices. CUDA is asked in a child process, so that this process can still fork; the answer
 * comes through a pipe.
 *
 * Invariant: the child is watched and killed through a pidfd, which never means another process.
 * The program may ignore SIGCHLD or reap every child.
 */
#include "pinned/device_count.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 30000, REAP_MS = 2000 };

/* Shorter than PIPE_BUF, so that one write() is atomic. */
struct answer {
    uint32_t n;
    int32_t status;
    mr_error error;
};

struct child {
    pid_t pid;
    int pidfd; /* -1 if the kernel has none */
    int pipe;
};

static void ask_ops(const struct mr_device_ops *ops, struct answer *answer_out)
{
    memset(answer_out, 0, sizeof *answer_out);
    answer_out->status = ops->count(&answer_out->n, &answer_out->error);
    if (answer_out->status != MR_OK)
        answer_out->n = 0;
}

static _Noreturn void run_child(const struct mr_device_ops *ops, int pipe)
{
    struct answer answer;
    ask_ops(ops, &answer);
    _exit(write(pipe, &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
}

/*
 * All signals are blocked, so that no handler of the program's runs in the child; SIGKILL and a
 * crash still end it.
 */
static pid_t fork_quietly(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int failed = errno;
    if (pid != 0)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return pid;
}

static mr_status start_child(const struct mr_device_ops *ops, struct child *child_out,
                             mr_error *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "pipe for counting devices");
    pid_t pid = fork_quietly();
    if (pid == 0)
        run_child(ops, ends[1]);
    int failed = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return mr_error_os(error, MR_ERR_IO, failed, "fork for counting devices");
    }
    *child_out =
        (struct child){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0), .pipe = ends[0]};
    return MR_OK;
}

static void end_child(struct child *child)
{
    if (child->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
    else
        kill(child->pid, SIGKILL);
    /*
     * ECHILD: the program has reaped it, or ignores SIGCHLD. A child that hangs in its driver is
     * not reaped.
     */
    for (uint32_t waited_ms = 0; waited_ms < REAP_MS; waited_ms += 5) {
        pid_t reaped = waitpid(child->pid, NULL, WNOHANG);
        if (reaped > 0 || (reaped < 0 && errno != EINTR))
            break;
        mr_clock_sleep_ms(waited_ms ? 5 : 0);
    }
    if (child->pidfd >= 0)
        close(child->pidfd);
    close(child->pipe);
}

/* Sleep until there is an answer or the child has ended; false if the time runs out. */
static bool wait_for(const struct child *child, uint64_t until_ns)
{
    struct pollfd polls[2] = {{.fd = child->pipe, .events = POLLIN},
                              {.fd = child->pidfd, .events = POLLIN}};
    for (;;) {
        uint64_t now_ns = mr_clock_now_ns();
        int left_ms = now_ns < until_ns ? (int)((until_ns - now_ns + 999999) / 1000000) : 0;
        int ready = poll(polls, 2, left_ms);
        if (ready > 0 || left_ms == 0)
            return ready > 0;
    }
}

/*
 * A process that another thread has forked may still hold a write end, so the read must not wait
 * for its end.
 */
static bool read_answer(const struct child *child, struct answer *answer_out)
{
    fcntl(child->pipe, F_SETFL, O_NONBLOCK);
    ssize_t got;
    do
        got = read(child->pipe, answer_out, sizeof *answer_out);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *answer_out;
}

static bool ask_child(const struct child *child, uint32_t timeout_ms, struct answer *answer_out)
{
    memset(answer_out, 0, sizeof *answer_out);
    bool in_time = wait_for(child, mr_clock_now_ns() + (uint64_t)timeout_ms * 1000000);
    if (read_answer(child, answer_out))
        return true;
    answer_out->n = 0;
    answer_out->status =
        in_time ? mr_error_set(&answer_out->error, MR_ERR_DEVICE,
                               "the process that counted the devices died")
                : mr_error_set(&answer_out->error, MR_ERR_DEVICE,
                               "counting devices took more than %u ms", (unsigned)timeout_ms);
    return false;
}

/*
 * CUDA's answer in the child of a process that already uses CUDA. Then nothing here needs to stay
 * uninitialised.
 */
static bool says_forked(const struct answer *answer)
{
    return answer->status != MR_OK && (strstr(answer->error.text, "cudaErrorInitializationError") ||
                                       strstr(answer->error.text, "initialization error"));
}

uint32_t mr_device_count_apart(const struct mr_device_ops *ops, uint32_t timeout_ms,
                               mr_error *error)
{
    struct child child = {.pidfd = -1, .pipe = -1};
    if (start_child(ops, &child, error) != MR_OK)
        return 0;
    struct answer answer;
    bool answered = ask_child(&child, timeout_ms, &answer);
    end_child(&child);
    if (answered && says_forked(&answer))
        ask_ops(ops, &answer);
    if (answer.status != MR_OK)
        mr_error_copy(error, &answer.error);
    return answer.n;
}

static uint32_t count_here(const struct mr_device_ops *ops, mr_error *error)
{
    uint32_t n = 0;
    return ops->count(&n, error) == MR_OK ? n : 0;
}

uint32_t mr_device_count(mr_device_kind kind, mr_error *error)
{
    const struct mr_device_ops *ops = mr_device_find(kind);
    if (ops && kind == MR_DEVICE_HOST)
        return count_here(ops, error);
    if (ops)
        return mr_device_count_apart(ops, TIMEOUT_MS, error);
    if (kind == MR_DEVICE_CUDA)
        mr_error_set(error, MR_ERR_UNSUPPORTED, "this build has no CUDA");
    else
        mr_error_set(error, MR_ERR_INVALID, "there is no device kind %d", (int)kind);
    return 0;
}
