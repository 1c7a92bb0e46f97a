/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks and launchers as children of a test. Only the process that inherits an orphan sees it, so
 * the test is a subreaper. It waits for each program by its id until only leftovers can remain.
 */
#include "tests/fault/rank_program.h"

#include "base/clock.h"
#include "tests/support/die.h"
#include "tests/support/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

uint64_t mr_rank_program_now_ms(void)
{
    return mr_clock_now_ns() / 1000000;
}

void mr_rank_words_add(struct mr_rank_words *words, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (words->n == sizeof words->text / sizeof *words->text ||
        vsnprintf(words->text[words->n], sizeof *words->text, format, args) >=
            (int)sizeof *words->text) {
        fprintf(stderr, "too many words, or too long: %s\n", format);
        exit(1);
    }
    va_end(args);
    words->n++;
}

void mr_rank_program_init(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /*
     * Engines' libraries are not compiled for it, and a failing rank leaves by exit() with its
     * threads running.
     */
    setenv("TSAN_OPTIONS", "ignore_noninstrumented_modules=1:report_thread_leaks=0", 0);
}

static _Noreturn void become(const struct mr_rank_program *program,
                             const struct mr_rank_words *argv, const struct mr_rank_words *settings,
                             int net_fd)
{
    char *words[32] = {NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    for (uint32_t i = 0; settings && i < settings->n; i++)
        putenv(strdup(settings->text[i]));
    for (uint32_t i = 0; i < argv->n; i++)
        words[i] = strdup(argv->text[i]);
    if (net_fd >= 0 && setns(net_fd, CLONE_NEWNET) != 0)
        mr_test_die("setns");
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(program->said_fd, 1) < 0 ||
        dup2(program->said_fd, 2) < 0)
        _exit(125);
    execvp(words[0], words);
    mr_test_die(words[0]);
    _exit(126);
}

void mr_rank_program_start(struct mr_rank_program *program, const struct mr_rank_words *argv,
                           const struct mr_rank_words *settings, int net_fd)
{
    *program = (struct mr_rank_program){.said_fd = memfd_create("said", MFD_CLOEXEC)};
    /* With O_APPEND: several processes write, and this one reads at the same time. */
    if (program->said_fd < 0 || fcntl(program->said_fd, F_SETFL, O_APPEND) != 0)
        mr_test_die("memfd_create");
    program->began_ms = mr_rank_program_now_ms();
    fflush(NULL);
    program->pid = fork();
    if (program->pid < 0)
        mr_test_die("fork");
    if (program->pid == 0)
        become(program, argv, settings, net_fd);
    setpgid(program->pid, program->pid); /* parent and child both call it; the first one counts */
}

/*
 * A sanitizer's report fails the test in every case. Leaks do not count: a failing program leaves
 * by exit().
 */
static void expect_no_sanitizer_report(const struct mr_rank_program *program)
{
    static const char *const complaints[] = {"WARNING: ThreadSanitizer", "ERROR: AddressSanitizer",
                                             "runtime error:"};
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
        if (mr_rank_program_says(program, complaints[i])) {
            char *said = mr_rank_program_said(program);
            fprintf(stderr, "%s\n", said);
            free(said);
            exit(1);
        }
}

static bool has_ended(struct mr_rank_program *program)
{
    int how;
    pid_t pid = waitpid(program->pid, &how, WNOHANG);
    if (pid < 0 && errno != EINTR)
        mr_test_die("waitpid");
    if (pid <= 0)
        return false;
    program->end = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    program->took_ms = (uint32_t)(mr_rank_program_now_ms() - program->began_ms);
    program->pid = 0;
    expect_no_sanitizer_report(program);
    return true;
}

/* Print where its threads are; this is lost when it is killed. */
static void show_threads(const struct mr_rank_program *program)
{
    char command[100];
    snprintf(command, sizeof command, "ps -L -o pid,lwp,stat,time,wchan:32,comm -p %d >&2",
             (int)program->pid);
    if (system(command) != 0)
        perror("ps");
}

bool mr_rank_program_wait(struct mr_rank_program *program, uint32_t limit_ms)
{
    uint64_t until_ms = mr_rank_program_now_ms() + limit_ms;
    while (program->pid != 0 && !has_ended(program)) {
        if (mr_rank_program_now_ms() > until_ms) {
            show_threads(program);
            kill(-program->pid, SIGKILL);
            while (!has_ended(program))
                mr_test_sleep_ms(1);
            return false;
        }
        mr_test_sleep_ms(2);
    }
    return true;
}

char *mr_rank_program_said(const struct mr_rank_program *program)
{
    struct stat info;
    if (fstat(program->said_fd, &info) != 0)
        mr_test_die("fstat");
    char *text = malloc((size_t)info.st_size + 1);
    ssize_t len = text ? pread(program->said_fd, text, (size_t)info.st_size, 0) : -1;
    if (len < 0)
        mr_test_die("what a program said");
    text[len] = '\0';
    return text;
}

bool mr_rank_program_says(const struct mr_rank_program *program, const char *words)
{
    char *said = mr_rank_program_said(program);
    bool says = strstr(said, words) != NULL;
    free(said);
    return says;
}

/* Has it ended without being waited for? */
static bool is_zombie(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

bool mr_rank_program_expect(const struct mr_rank_program *program, const char *words,
                            uint32_t limit_ms)
{
    uint64_t until_ms = mr_rank_program_now_ms() + limit_ms;
    while (!mr_rank_program_says(program, words)) {
        if (mr_rank_program_now_ms() > until_ms || program->pid == 0 || is_zombie(program->pid))
            return mr_rank_program_says(program, words);
        mr_test_sleep_ms(5);
    }
    return true;
}

void mr_rank_program_free(struct mr_rank_program *program)
{
    if (program->pid != 0) {
        kill(-program->pid, SIGKILL);
        mr_rank_program_wait(program, 10000);
    }
    close(program->said_fd);
}

/* Reap children that have ended, and send the others a signal, or 0. */
static uint32_t signal_children(int number)
{
    uint32_t n = 0;
    pid_t pid = 0;
    char path[64], line[4096] = "";
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (!file) /* a kernel without the list: find out at least whether there are any */
        return waitpid(-1, NULL, WNOHANG) == 0;
    const char *at = fgets(line, sizeof line, file);
    for (int used; at && sscanf(at, "%d%n", &pid, &used) == 1; at += used, n++)
        kill(pid, number);
    fclose(file);
    return n;
}

static uint32_t await_childless(int number, uint32_t limit_ms)
{
    uint64_t until_ms = mr_rank_program_now_ms() + limit_ms;
    uint32_t n;
    while ((n = signal_children(number)) > 0 && mr_rank_program_now_ms() < until_ms)
        mr_test_sleep_ms(5);
    return n;
}

uint32_t mr_rank_program_leftovers(uint32_t limit_ms)
{
    uint32_t n = await_childless(0, limit_ms);
    if (n == 0)
        return 0;
    if (system("ps -eo pid,ppid,pgid,stat,args >&2") != 0)
        perror("ps");
    await_childless(SIGKILL, 5000); /* their children become ours in turn */
    return n;
}

bool mr_rank_program_is_free(uint16_t port)
{
    const int on = 1; /* the kernel may still remember closed connections */
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        mr_test_die("socket");
    bool is_free =
        bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0;
    close(fd);
    return is_free;
}

uint16_t mr_rank_program_port(void)
{
    uint64_t number = mr_clock_now_ns() ^ (uint64_t)getpid() << 20;
    for (;;) {
        number = number * UINT64_C(6364136223846793005) + 1442695040888963407u;
        /* below the derived ports, which begin at 20000 */
        uint16_t port = (uint16_t)(10000 + (number >> 40) % 9000);
        if (mr_rank_program_is_free(port))
            return port;
    }
}
