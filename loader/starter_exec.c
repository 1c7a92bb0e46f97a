/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts workers as small helper programs. The library contains the helper, copies it once per
 * loader into a memfd, and starts it from that descriptor, so no path is needed. If that is
 * forbidden, an installed helper is used: one beside the present folder of the library or of the
 * program, or the one in the installation prefix. The child shares this process's memory until it
 * execs (CLONE_VM and CLONE_VFORK, as in posix_spawn), so a start costs the same for programs of
 * any size.
 *
 * Invariant: between clone and exec the child runs on this process's memory. It only makes system
 * calls, and writes only which step failed and the error number.
 */
#include "loader/starter.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/remote/stores/settings.h"
#include "dataset/remote/stores/settings_cell.h"
#include "loader/workers/worker_image.h"

enum { STACK_BYTES = 64 * 1024, N_FOLDERS = 2 };

#define HELPER "libexec/millrace/millrace-worker"
#define REMOTE "-remote" /* follows the name of the helper that reads URLs */

struct mr_starter {
    bool is_remote;           /* the dataset has files at URLs */
    int image_fd;             /* the helper program */
    int fds[MR_WORKER_N_FDS]; /* in the order of worker_image.h; borrowed, -1: none */
    void *stack;              /* of the child, until it execs */
};

/*
 * glibc's other name for clone(). ThreadSanitizer treats clone() as a fork and fails with CLONE_VM,
 * so a program built with it could not start workers.
 */
extern int __clone(int (*main)(void *), void *stack, int flags, void *arg, ...);

#ifndef MFD_EXEC
/* Linux 6.3: must be passed where memfds are not executable by default */
#define MFD_EXEC 0x0010U
#endif

static bool write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* True if the library has a helper of its own for remote files. */
static bool has_remote_image(void)
{
    return mr_remote_worker_image_end - mr_remote_worker_image > 0;
}

/* Copy one of the library's helpers into a memfd. Returns its descriptor or a negative errno. */
static int copy_image_to_memfd(bool remote)
{
    const uint8_t *image = remote ? mr_remote_worker_image : mr_worker_image;
    const uint8_t *end = remote ? mr_remote_worker_image_end : mr_worker_image_end;
    int fd = memfd_create("millrace-worker", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("millrace-worker", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (write_all(fd, image, (size_t)(end - image)))
        return fd;
    int failure = -errno;
    close(fd);
    return failure;
}

/* An installed helper, and the folders that were searched. */
struct helper {
    bool is_found;
    char folders[N_FOLDERS][PATH_MAX]; /* "": none */
    char path[PATH_MAX + sizeof "/../../" HELPER REMOTE];
};

/*
 * The folder of a file; "" for a relative name, whose meaning may have changed with the working
 * directory.
 */
static void cut_folder(const char *file, char folder_out[PATH_MAX])
{
    const char *slash = file[0] == '/' ? strrchr(file, '/') : NULL;
    size_t len = slash ? (size_t)(slash - file) : 0;
    if (len >= PATH_MAX)
        len = 0;
    memcpy(folder_out, file, len);
    folder_out[len] = '\0';
}

/*
 * Find the folder of the library and that of the program; they are the same if the library is
 * linked statically. The linker knows a program by the name it was called with, perhaps without a
 * folder, so the program's folder comes from the kernel.
 */
static void find_folders(char folders[N_FOLDERS][PATH_MAX])
{
    Dl_info info;
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    cut_folder(dladdr(&mr_starter_exec, &info) && info.dli_fname ? info.dli_fname : "", folders[0]);
    cut_folder(program, folders[1]);
    if (strcmp(folders[0], folders[1]) == 0)
        folders[0][0] = '\0';
}

/*
 * Search beside the folders that were found: from lib or bin the helper is one folder up and down
 * again, from lib/x86_64-linux-gnu two.
 */
static void find_helper(const struct mr_starter *s, struct helper *helper_out)
{
    static const char *const ups[] = {"/../", "/../../"};
    find_folders(helper_out->folders);
    for (int i = 0; i < 2 * N_FOLDERS; i++) {
        const char *folder = helper_out->folders[i / 2];
        snprintf(helper_out->path, sizeof helper_out->path, "%s%s%s%s", folder, ups[i % 2], HELPER,
                 s->is_remote ? REMOTE : "");
        helper_out->is_found = folder[0] && access(helper_out->path, X_OK) == 0;
        if (helper_out->is_found)
            return;
    }
    snprintf(helper_out->path, sizeof helper_out->path, "%s%s", MR_WORKER_PATH,
             s->is_remote ? REMOTE : "");
    helper_out->is_found = access(helper_out->path, X_OK) == 0;
}

/*
 * Both ways have failed. `what` says why the memfd could not be used; the installed helper cannot
 * be used either, or was not found.
 */
static mr_status fail_helper(const struct helper *helper, int failed, const char *what,
                             mr_error *error)
{
    const char *first = helper->folders[0], *second = helper->folders[1];
    if (helper->is_found)
        return mr_error_os(error, MR_ERR_UNSUPPORTED, failed, "%s, and cannot use %s", what,
                           helper->path);
    return mr_error_os(error, MR_ERR_UNSUPPORTED, failed,
                       "%s, and no helper is installed: searched ../" HELPER " and ../../" HELPER
                       " from %s%s%s, and %s",
                       what, first, first[0] && second[0] ? " and " : "", second, MR_WORKER_PATH);
}

static mr_status open_image(struct mr_starter *s, mr_error *error)
{
    struct helper helper;
    int memfd = copy_image_to_memfd(s->is_remote);
    s->image_fd = memfd;
    if (memfd == -EMFILE || memfd == -ENFILE || memfd == -ENOMEM)
        return mr_error_os(error, memfd == -ENOMEM ? MR_ERR_NO_MEMORY : MR_ERR_WORKER, -memfd,
                           "cannot make a memfd for the worker helper");
    if (memfd < 0) {
        find_helper(s, &helper);
        s->image_fd = helper.is_found ? open(helper.path, O_RDONLY | O_CLOEXEC) : -1;
    }
    return s->image_fd >= 0 ? MR_OK
                            : fail_helper(&helper, -memfd, "no memfd for the worker helper", error);
}

static mr_status exec_create(struct mr_host *host, mr_dataset *dataset,
                             struct mr_starter **starter_out, mr_error *error)
{
    struct mr_starter *s = calloc(1, sizeof *s);
    if (!s)
        return mr_error_memory(error, sizeof *s);
    bool is_remote = mr_catalog_is_remote(mr_dataset_catalog(dataset));
    s->is_remote = has_remote_image() && is_remote;
    s->fds[MR_WORKER_FD_SLAB] = host->slab.fd;
    s->fds[MR_WORKER_FD_SETTINGS] = is_remote ? mr_settings_cell_fd() : -1;
    const int *catalog_fds = mr_dataset_fds(dataset);
    for (int i = 0; i < MR_CATALOG_N_FDS; i++)
        s->fds[MR_WORKER_FD_CATALOG + i] = catalog_fds[i];
    s->image_fd = -1;
    s->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    mr_status status =
        s->stack == MAP_FAILED ? mr_error_memory(error, STACK_BYTES) : open_image(s, error);
    if (status != MR_OK) {
        mr_starter_exec.destroy(s);
        return status;
    }
    *starter_out = s;
    return MR_OK;
}

static void exec_destroy(struct mr_starter *s)
{
    if (s->stack != MAP_FAILED)
        munmap(s->stack, STACK_BYTES);
    if (s->image_fd >= 0)
        close(s->image_fd);
    free(s);
}

struct child {
    const struct mr_starter *starter;
    pid_t host_pid;
    char id[12];
    char **environment;
    const char *path; /* NULL: exec the descriptor */
    /* Written by the child: */
    int failed;       /* errno of the step that failed */
    bool null_failed; /* that step was to open /dev/null */
};

/*
 * Copy a descriptor to `first` or above. Returns a negative errno on failure: -EMFILE also if the
 * limit on descriptors is below `first`, which fcntl reports as EINVAL.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static int copy_fd(int fd, int first)
{
    int copy = fcntl(fd, F_DUPFD, first);
    if (copy >= 0)
        return copy;
    return errno == EINVAL ? -EMFILE : -errno;
}

/*
 * Set descriptors 0 and 1 to /dev/null and keep 2. Those of worker_image.h follow; all others are
 * closed.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static int
arrange_fds(struct child *child, int *image_out)
{
    const struct mr_starter *s = child->starter;
    int above = MR_WORKER_FIRST_FD + MR_WORKER_N_FDS;
    int copies[MR_WORKER_N_FDS];
    int image = copy_fd(s->image_fd, above);
    if (image < 0)
        return -image;
    for (int i = 0; i < MR_WORKER_N_FDS; i++) {
        copies[i] = s->fds[i] < 0 ? -1 : copy_fd(s->fds[i], above);
        if (s->fds[i] >= 0 && copies[i] < 0)
            return -copies[i];
    }
    int opened = open("/dev/null", O_RDWR);
    child->null_failed = opened < 0;
    if (opened < 0)
        return errno;
    int null = copy_fd(opened, above);
    if (null < 0)
        return -null;
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return errno;
    for (int i = 0; i < MR_WORKER_N_FDS; i++) {
        if (copies[i] < 0)
            close(MR_WORKER_FIRST_FD + i);
        else if (dup2(copies[i], MR_WORKER_FIRST_FD + i) < 0)
            return errno;
    }
    /* The image is the last descriptor, and closes itself at the exec. */
    *image_out = dup2(image, above);
    if (*image_out < 0 || fcntl(above, F_SETFD, FD_CLOEXEC) != 0)
        return errno;
    syscall(SYS_close_range, (unsigned)above + 1, ~0u, 0);
    return 0;
}

/*
 * Set default dispositions first, then unblock all signals: in the other order a pending signal
 * could reach a handler of the host.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void reset_signals(void)
{
    struct sigaction action;
    sigset_t none;
    action.sa_handler = SIG_DFL;
    action.sa_flags = 0;
    sigemptyset(&action.sa_mask);
    for (int i = 1; i < NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP)
            sigaction(i, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * Exec the descriptor or, where execveat cannot find it (under valgrind), its name in /proc. On
 * failure errno is that of execveat, from which the caller learns whether it was refused.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void
exec_image(int image, char **argv, char **environment)
{
    static_assert(MR_WORKER_FIRST_FD + MR_WORKER_N_FDS < 10,
                  "the image's descriptor has one digit");
    char name[] = "/proc/self/fd/0";
    name[sizeof name - 2] = (char)('0' + image);
    syscall(SYS_execveat, image, "", argv, environment, AT_EMPTY_PATH);
    int failed = errno;
    if (failed == ENOENT)
        execve(name, argv, environment);
    errno = failed;
}

__attribute__((no_sanitize("address", "thread", "undefined"))) static int child_main(void *arg)
{
    struct child *child = arg;
    char *argv[] = {(char *)"millrace-worker", child->id, NULL};
    int image = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child->host_pid)
        _exit(1);
    setpgid(0, 0);
    reset_signals();
    child->failed = arrange_fds(child, &image);
    if (child->failed == 0) {
        if (child->path)
            execve(child->path, argv, child->environment);
        else
            exec_image(image, argv, child->environment);
        child->failed = errno;
    }
    _exit(127);
}

/* The environment without keys, which workers get with the settings. NULL: no memory. */
static char **copy_environment(void)
{
    size_t n = 0, n_kept = 0;
    while (environ[n])
        n++;
    char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!mr_store_settings_is_secret(environ[i]))
            copy[n_kept++] = environ[i];
    return copy;
}

/* Clone and exec once. Returns 0 or the errno of the failed step. */
static int spawn_child(struct mr_starter *s, struct child *child, struct mr_process *process_out)
{
    int pidfd = -1;
    child->failed = 0;
    child->null_failed = false;
    child->environment = copy_environment();
    if (!child->environment)
        return ENOMEM;
    pid_t pid = __clone(child_main, (uint8_t *)s->stack + STACK_BYTES,
                        CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, child, &pidfd);
    int failed = errno;
    free(child->environment);
    if (pid < 0)
        return failed;
    fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    if (child->failed != 0) {
        siginfo_t info;
        waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
        close(pidfd);
        return child->failed;
    }
    *process_out = (struct mr_process){.pid = pid, .pidfd = pidfd};
    return 0;
}

static mr_status exec_start(struct mr_starter *s, uint32_t id, struct mr_process *process_out,
                            mr_error *error)
{
    struct child child = {.starter = s, .host_pid = getpid()};
    struct helper helper;
    snprintf(child.id, sizeof child.id, "%u", id);
    int failed = spawn_child(s, &child, process_out);
    if (child.null_failed)
        return mr_error_os(error, MR_ERR_WORKER, failed, "cannot open /dev/null for worker %u", id);
    if (failed == EACCES || failed == EPERM || failed == ENOSYS) {
        find_helper(s, &helper);
        child.path = helper.path;
        int failed_again = helper.is_found ? spawn_child(s, &child, process_out) : failed;
        if (failed_again != 0)
            return fail_helper(&helper, failed_again, "cannot exec the worker helper from a memfd",
                               error);
        return MR_OK;
    }
    if (failed != 0)
        return mr_error_os(error, MR_ERR_WORKER, failed, "cannot start worker %u", id);
    return MR_OK;
}

static bool exec_kill(struct mr_process *process)
{
    if (syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0) == 0)
        return true;
    /* valgrind does not know pidfd_send_signal */
    return errno == ENOSYS && kill(process->pid, SIGKILL) == 0;
}

static struct mr_exit exec_reap(struct mr_starter *s, struct mr_process *process)
{
    (void)s;
    siginfo_t info;
    int rc;
    do
        rc = waitid(P_PIDFD, (id_t)process->pidfd, &info, WEXITED);
    while (rc != 0 && errno == EINTR);
    close(process->pidfd);
    struct mr_exit end = {.known = rc == 0};
    if (rc == 0 && info.si_code == CLD_EXITED)
        end.code = info.si_status;
    else if (rc == 0)
        end.signal = info.si_status;
    return end;
}

const struct mr_starter_ops mr_starter_exec = {
    .name = "exec",
    .create = exec_create,
    .destroy = exec_destroy,
    .start = exec_start,
    .kill = exec_kill,
    .reap = exec_reap,
};
