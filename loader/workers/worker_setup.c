/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up a worker: its name, nice level and CPUs and, in a separate process, a fault handler.
 * The handler records the cause in shared memory, because a program that reaps all children may
 * take the exit status.
 */
#include "loader/workers/worker_setup.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dataset/reader/reader.h"

static struct mr_worker_record *fault_record; /* of this process; set once, before the handlers */

static void on_fault(int signal)
{
    atomic_store(&fault_record->cause, (uint32_t)signal);
    raise(signal); /* the default action is restored, and ends the process */
}

/* A fault in a copy from a mapped file is that file's end, not the worker's. */
static void on_bus(int signal_)
{
    mr_reader_leave_copy();
    signal(signal_, SIG_DFL);
    on_fault(signal_);
}

static void catch_faults(struct mr_worker_record *record)
{
    static const int signals[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGSYS};
    static uint8_t stack[16384]; /* a fault may be a stack overflow */
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    fault_record = record;
    sigaltstack(&alternative, NULL);
    struct sigaction action = {.sa_handler = on_fault,
                               .sa_flags = SA_RESETHAND | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
    action.sa_handler = on_bus;
    action.sa_flags &= ~SA_RESETHAND; /* a fault of a copy may be followed by others */
    sigaction(SIGBUS, &action, NULL);
}

bool mr_worker_setup_move_near(const struct mr_worker_job *job)
{
    const struct mr_control *control = job->shared.control;
    const struct mr_worker_record *record = &job->shared.records[job->id];
    static_assert(sizeof(cpu_set_t) == sizeof control->near_cpus, "a CPU set is copied as it is");
    if (!atomic_load_explicit(&record->near, memory_order_acquire))
        return false;
    if (record->cpu < 0) {
        cpu_set_t set;
        memcpy(&set, control->near_cpus, sizeof set);
        sched_setaffinity(0, sizeof set, &set);
    }
    return true;
}

void mr_worker_setup_cores(const struct mr_worker_job *job)
{
    static const char path[] = "/proc/self/coredump_filter";
    char text[32] = "";
    if (!job->catalog || !mr_catalog_is_remote(job->catalog))
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool is_done = fd >= 0 && read(fd, text, sizeof text - 1) > 0;
    unsigned long private = 1; /* the bit of private anonymous memory */
    snprintf(text, sizeof text, "0x%lx", strtoul(text, NULL, 16) & ~private);
    is_done = is_done && pwrite(fd, text, strlen(text), 0) > 0;
    if (fd >= 0)
        close(fd);
    if (!is_done)
        prctl(PR_SET_DUMPABLE, 0); /* no core at all */
}

void mr_worker_setup_process(const struct mr_worker_job *job)
{
    struct mr_worker_record *record = &job->shared.records[job->id];
    prctl(PR_SET_NAME, "millrace-worker");
    int nice_by = job->shared.control->options.nice;
    if (nice_by > 0) /* 0: the calling thread */
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nice_by);
    if (record->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)record->cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    if (job->own_process) {
        mr_worker_setup_cores(job);
        catch_faults(record);
    }
}
