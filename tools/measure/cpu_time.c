/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads CPU seconds from /proc. The name in /proc/PID/stat may contain spaces and brackets, so
 * fields are counted from the last bracket. The time of a dead worker is part of RUSAGE_CHILDREN.
 * /proc/PID/schedstat covers one thread, so the threads of a process are added up.
 */
#include "tools/measure/cpu_time.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double timeval_seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static double usage_seconds(int who)
{
    struct rusage rusage;

    return getrusage(who, &rusage) == 0
               ? timeval_seconds(rusage.ru_utime) + timeval_seconds(rusage.ru_stime)
               : 0;
}

/* User and system time of a process; 0 if it does not exist. */
static double process_seconds(int64_t pid)
{
    char path[64], line[1024];
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    const char *fields = strrchr(line, ')');
    if (fields == NULL || sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                                 &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/*
 * Time that the living threads of a process were ready to run and waited for a CPU; 0 if the kernel
 * does not report it.
 */
static double queue_seconds(int64_t pid)
{
    char path[64];
    uint64_t sum_ns = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64 "/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return 0;
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char name[sizeof path + sizeof task->d_name + sizeof "//schedstat"];
        uint64_t ns;
        snprintf(name, sizeof name, "%s/%s/schedstat", path, task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(name, "re") : NULL;
        if (file == NULL)
            continue;
        if (fscanf(file, "%*u %" SCNu64, &ns) == 1)
            sum_ns += ns;
        fclose(file);
    }
    closedir(tasks);
    return (double)sum_ns * 1e-9;
}

size_t mr_cpu_time_workers(mr_loader *loader, int64_t *pids_out, size_t n)
{
    size_t found, count = 0;

    if (mr_loader_resolved(loader)->start == MR_START_THREAD)
        return 0;
    found = mr_loader_worker_pids(loader, pids_out, (uint32_t)n);
    for (size_t i = 0; i < found && i < n; i++)
        if (pids_out[i] > 0 && pids_out[i] != getpid())
            pids_out[count++] = pids_out[i];
    return count;
}

struct mr_cpu_time mr_cpu_time_read(mr_loader *loader)
{
    int64_t pids[MR_MAX_WORKERS];
    size_t n = mr_cpu_time_workers(loader, pids, MR_MAX_WORKERS);
    struct mr_cpu_time time = {.host_s = usage_seconds(RUSAGE_SELF),
                               .workers_s = usage_seconds(RUSAGE_CHILDREN),
                               .host_queue_s = queue_seconds(getpid())};

    for (size_t i = 0; i < n; i++) {
        time.workers_s += process_seconds(pids[i]);
        time.workers_queue_s += queue_seconds(pids[i]);
    }
    return time;
}
