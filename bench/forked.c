/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks processes, starts them together and waits for them. Items are taken one by one from a
 * shared counter, so no process waits for another's slow share; a static split would make the bound
 * easier to reach.
 */
#include "bench/forked.h"

#include "base/clock.h"
#include "base/futex.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PROCESSES = 256 };

struct shared {
    _Atomic uint32_t n_ready;
    _Atomic uint32_t go;
    _Atomic uint64_t next;
    _Atomic uint64_t n_right;
    _Atomic uint64_t end_ns[MAX_PROCESSES];
};

static _Noreturn void run_child(const struct mr_forked_job *job, struct shared *shared,
                                uint32_t place, uint64_t n_items, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void *state = getppid() == parent ? job->begin(job->user) : NULL;
    if (!state)
        _exit(1);
    atomic_fetch_add(&shared->n_ready, 1);
    mr_futex_wake(&shared->n_ready, 1);
    while (!atomic_load(&shared->go))
        mr_futex_wait(&shared->go, 0, UINT32_MAX);
    uint64_t n_right = 0;
    for (;;) {
        uint64_t item = atomic_fetch_add_explicit(&shared->next, 1, memory_order_relaxed);
        if (item >= n_items)
            break;
        n_right += job->run(state, job->user, item);
    }
    atomic_store(&shared->end_ns[place], mr_clock_now_ns());
    atomic_fetch_add(&shared->n_right, n_right);
    _exit(0);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* Sleep until every child is ready, or one has ended before it was ready. */
static mr_status await_ready(struct shared *shared, const pid_t *pids, uint32_t n_processes,
                             mr_error *error)
{
    for (;;) {
        uint32_t n_ready = atomic_load(&shared->n_ready);
        if (n_ready == n_processes)
            return MR_OK;
        for (uint32_t i = 0; i < n_processes; i++)
            if (has_ended(pids[i]))
                return mr_error_set(error, MR_ERR_NO_MEMORY, "process %d could not start",
                                    (int)pids[i]);
        mr_futex_wait(&shared->n_ready, n_ready, 100);
    }
}

static mr_status reap_children(const pid_t *pids, uint32_t n, bool kill_them, mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < n; i++) {
        int how = 0;
        if (kill_them)
            kill(pids[i], SIGKILL);
        while (waitpid(pids[i], &how, 0) < 0 && errno == EINTR)
            continue;
        if (how != 0 && !kill_them)
            status = mr_error_set(error, MR_ERR_WORKER, "process %d ended with status 0x%x",
                                  (int)pids[i], how);
    }
    return status;
}

static uint64_t latest_end(const struct shared *shared, uint32_t n)
{
    uint64_t latest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t end = atomic_load(&shared->end_ns[i]);
        latest = end > latest ? end : latest;
    }
    return latest;
}

static mr_status run_processes(const struct mr_forked_job *job, struct shared *shared,
                               uint32_t n_processes, uint64_t n_items, double *seconds_out,
                               mr_error *error)
{
    pid_t pids[MAX_PROCESSES], parent = getpid();
    uint32_t n = 0;
    for (; n < n_processes; n++) {
        pids[n] = fork();
        if (pids[n] < 0)
            break;
        if (pids[n] == 0)
            run_child(job, shared, n, n_items, parent);
    }
    mr_status status =
        n == n_processes ? MR_OK : mr_error_os(error, MR_ERR_NO_MEMORY, errno, "fork");
    if (status == MR_OK)
        status = await_ready(shared, pids, n, error);
    uint64_t start = mr_clock_now_ns();
    if (status == MR_OK) {
        atomic_store(&shared->go, 1);
        mr_futex_wake(&shared->go, n);
    }
    mr_status ended = reap_children(pids, n, status != MR_OK, error);
    status = status == MR_OK ? ended : status;
    if (status == MR_OK)
        *seconds_out = (double)(latest_end(shared, n) - start) / 1e9;
    return status;
}

mr_status mr_forked_run(const struct mr_forked_job *job, uint32_t n_processes, uint64_t n_items,
                        double *seconds_out, uint64_t *n_wrong_out, mr_error *error)
{
    if (n_processes < 1 || n_processes > MAX_PROCESSES)
        return mr_error_set(error, MR_ERR_INVALID, "%u processes, not 1 to %d", n_processes,
                            MAX_PROCESSES);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return mr_error_memory(error, sizeof *shared);
    mr_status status = run_processes(job, shared, n_processes, n_items, seconds_out, error);
    *n_wrong_out = n_items - atomic_load(&shared->n_right);
    munmap(shared, sizeof *shared);
    return status;
}
