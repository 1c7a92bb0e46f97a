/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launcher under test. Every process below it inherits the write end of a pipe. End of file on
 * that pipe proves that no process is left, which ps could not.
 */
#include "tests/dist/launch/launch_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/die.h"
#include "tests/support/processes.h"

enum { GONE_MS = 5000, EXPECT_MS = 30000, END_MS = 60000 };

struct outcome {
    mr_status status;
    mr_launch_result result;
    mr_error error;
};

unsigned long long mr_launched_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

static int open_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    /* Opened for appending: several processes write stdout and stderr while this one reads them. */
    if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) != 0)
        mr_test_die("memfd_create");
    return fd;
}

static _Noreturn void run_launcher(struct mr_launched *l, mr_launched_fn fn, const void *arg,
                                   int stdin_fd)
{
    struct outcome outcome = {.result = {sizeof outcome.result, -7, -7, -7}};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (stdin_fd < 0)
        stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(stdin_fd, 0) < 0 || dup2(l->out_fd, 1) < 0 || dup2(l->err_fd, 2) < 0)
        _exit(99);
    outcome.status = fn(arg, &outcome.result, &outcome.error);
    if (pwrite(l->outcome_fd, &outcome, sizeof outcome, 0) != (ssize_t)sizeof outcome)
        _exit(98);
    fflush(NULL);
    _exit(outcome.status == MR_OK ? outcome.result.exit_status : 97);
}

void mr_launched_start(struct mr_launched *l, mr_launched_fn fn, const void *arg, int stdin_fd)
{
    int life[2];
    memset(l, 0, sizeof *l);
    l->out_fd = open_file("out");
    l->err_fd = open_file("err");
    l->outcome_fd = memfd_create("outcome", MFD_CLOEXEC);
    if (l->outcome_fd < 0 || pipe(life) != 0)
        mr_test_die("pipe");
    fcntl(life[0], F_SETFD, FD_CLOEXEC);
    l->life_fd = life[0];
    l->began_ms = mr_launched_now_ms();
    fflush(NULL);
    l->pid = fork();
    if (l->pid < 0)
        mr_test_die("fork");
    if (l->pid == 0) {
        close(life[0]);
        run_launcher(l, fn, arg, stdin_fd);
    }
    close(life[1]);
}

static char *read_all(int fd, size_t *len_out)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        mr_test_die("fstat");
    char *bytes = malloc((size_t)info.st_size + 1);
    if (!bytes)
        mr_test_die("malloc");
    ssize_t got = pread(fd, bytes, (size_t)info.st_size, 0);
    if (got != info.st_size)
        mr_test_die("pread");
    bytes[got] = '\0';
    *len_out = (size_t)got;
    return bytes;
}

/*
 * Finds all processes that have the pipe, and shows what each waits for, in the kernel's words, and
 * its files.
 */
static _Noreturn void show_and_die(const struct mr_launched *l)
{
    char script[700];
    struct stat life;
    size_t unused;
    if (fstat(l->life_fd, &life) != 0)
        mr_test_die("fstat");
    fprintf(stderr, "stdout so far: %s\nstderr so far: %s\n", read_all(l->out_fd, &unused),
            read_all(l->err_fd, &unused));
    fprintf(stderr, "what is there, each with its parent, state, place in the kernel, system call "
                    "and files:\n");
    snprintf(
        script, sizeof script,
        "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -q 'pipe:.%llu.' || continue; "
        "echo \"process ${p#/proc/}: $(tr '\\0' ' ' <$p/cmdline)\"; grep -E "
        "'^(State|PPid|SigPnd|ShdPnd|SigBlk)' "
        "$p/status; "
        "echo \"$(cat $p/wchan) $(cat $p/syscall)\"; ls -l $p/fd | sed -n 's/.* \\([0-9]* -> \\)/  "
        "\\1/p'; done >&2",
        (unsigned long long)life.st_ino);
    if (system(script) != 0)
        perror("sh");
    kill(l->pid, SIGKILL);
    exit(1);
}

static bool is_readable_within(int fd, int limit_ms)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&wanted, 1, limit_ms);
    while (ready < 0 && errno == EINTR);
    return ready == 1;
}

static void await_no_process(const struct mr_launched *l)
{
    if (is_readable_within(l->life_fd, GONE_MS))
        return;
    fprintf(stderr, "%d ms after the end of launcher %d something of it is still there\n", GONE_MS,
            (int)l->pid);
    show_and_die(l);
}

static void await_end(const struct mr_launched *l)
{
    int fd = (int)syscall(SYS_pidfd_open, l->pid, 0);
    if (fd < 0)
        mr_test_die("pidfd_open");
    if (!is_readable_within(fd, END_MS)) {
        fprintf(stderr, "launcher %d has not ended within %d ms\n", (int)l->pid, END_MS);
        show_and_die(l);
    }
    close(fd);
}

void mr_launched_wait(struct mr_launched *l)
{
    struct outcome outcome = {0};
    size_t unused;
    int end;
    await_end(l);
    while (waitpid(l->pid, &end, 0) < 0)
        if (errno != EINTR)
            mr_test_die("waitpid");
    l->took_ms = (unsigned)(mr_launched_now_ms() - l->began_ms);
    await_no_process(l);
    l->end = WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
    if (pread(l->outcome_fd, &outcome, sizeof outcome, 0) == (ssize_t)sizeof outcome) {
        l->status = outcome.status;
        l->result = outcome.result;
        l->error = outcome.error;
    }
    l->out = read_all(l->out_fd, &l->out_len);
    l->err = read_all(l->err_fd, &unused);
}

void mr_launched_free(struct mr_launched *l)
{
    close(l->out_fd);
    close(l->err_fd);
    close(l->outcome_fd);
    close(l->life_fd);
    free(l->out);
    free(l->err);
}

void mr_launched_expect(const struct mr_launched *l, bool on_stderr, const char *text)
{
    for (int waited_ms = 0; waited_ms < EXPECT_MS; waited_ms += 5) {
        size_t unused;
        char *bytes = read_all(on_stderr ? l->err_fd : l->out_fd, &unused);
        bool is_there = strstr(bytes, text) != NULL;
        free(bytes);
        if (is_there)
            return;
        mr_test_sleep_ms(5);
    }
    fprintf(stderr, "'%s' is not written within %d ms\n", text, EXPECT_MS);
    show_and_die(l);
}

mr_status mr_launched_run_case(const void *arg, mr_launch_result *result_out, mr_error *error)
{
    const struct mr_launch_case *c = arg;
    char shell[] = "/bin/sh", flag[] = "-c";
    char *script[] = {shell, flag, (char *)(uintptr_t)c->script, NULL};
    char *program[] = {(char *)(uintptr_t)c->program, NULL};
    return mr_launch(&c->options, c->program ? program : script, result_out, error);
}

void mr_launched_case(struct mr_launched *l, const struct mr_launch_case *c)
{
    mr_launched_start(l, mr_launched_run_case, c, -1);
}

void mr_launched_script(struct mr_launched *l, uint32_t nproc, const char *script)
{
    struct mr_launch_case c = {.options = MR_LAUNCH_OPTIONS_INIT, .script = script};
    c.options.nproc = nproc;
    mr_launched_case(l, &c);
}
