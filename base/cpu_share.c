/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads CPU masks, cgroups and variables of launchers. In a container a cgroup's path may be that
 * of the host, and only its topmost folders exist. Levels that do not exist are skipped.
 */
#include "base/cpu_share.h"

#include "base/cpu.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLURM_TASKS "SLURM_STEP_TASKS_PER_NODE"

static uint32_t smaller_limit(uint32_t a, uint32_t b)
{
    return b == 0 || (a != 0 && a < b) ? a : b;
}

uint32_t mr_cpu_share_count(const struct mr_cpu_share *share)
{
    uint32_t n = smaller_limit(share->n_launcher, share->n_quota) /
                 (share->n_ranks > 0 ? share->n_ranks : 1);
    n = n < share->n_own ? n : share->n_own;
    return n > 0 ? n : 1;
}

/* ---- ranks ---- */

static uint32_t read_count(const char *text)
{
    unsigned long n = text && text[0] >= '1' && text[0] <= '9' ? strtoul(text, NULL, 10) : 0;
    return n <= UINT32_MAX ? (uint32_t)n : 0;
}

uint32_t mr_cpu_share_ranks(void)
{
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS",  "PMI_LOCAL_SIZE",
                                        "PALS_LOCAL_SIZE",  SLURM_TASKS};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && n == 0; i++)
        n = read_count(getenv(names[i]));
    return n;
}

/* ---- the cgroup's quota ---- */

static uint32_t round_up_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = quota / period + (quota % period != 0);
    return n < UINT32_MAX ? (uint32_t)n : 0;
}

/* Read one or two numbers from a file. Returns how many were read; "max" is not a number. */
static int read_numbers(const char *folder, const char *name, long long *first_out,
                        long long *second_out)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    n = fscanf(file, "%lld %lld", first_out, second_out);
    fclose(file);
    return n > 0 ? n : 0;
}

static uint32_t read_quota(const char *folder)
{
    long long quota = 0, period = 0, rest;
    if (read_numbers(folder, "cpu.max", &quota, &period) == 2)
        return round_up_cpus(quota, period);
    if (read_numbers(folder, "cpu.cfs_quota_us", &quota, &rest) > 0 &&
        read_numbers(folder, "cpu.cfs_period_us", &period, &rest) > 0)
        return round_up_cpus(quota, period);
    return 0;
}

/* The smallest quota of the group and of the groups above it, up to the hierarchy's root. */
static uint32_t find_smallest_quota(const char *root, const char *group)
{
    char folder[PATH_MAX];
    size_t root_len = strlen(root);
    uint32_t least = 0;
    if (snprintf(folder, sizeof folder, "%s%s", root, strstr(group, "/..") ? "" : group) >=
        (int)sizeof folder)
        return 0;
    for (;;) {
        least = smaller_limit(least, read_quota(folder));
        char *slash = strrchr(folder + root_len, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static bool has_controller(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; *at; at += strspn(at, ",")) {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, name, len) == 0)
            return true;
        at += n;
    }
    return false;
}

/* line: "4:cpu,cpuacct:/some/group" (version 1) or "0::/some/group" (version 2). */
static uint32_t read_quota_of_line(char *line, const char *mount)
{
    char root[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(++controllers, ':') : NULL;
    if (!group)
        return 0;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[0] && !has_controller(controllers, "cpu"))
        return 0;
    int n = snprintf(root, sizeof root, "%s%s", mount, controllers[0] ? "/cpu" : "");
    return n < (int)sizeof root ? find_smallest_quota(root, group) : 0;
}

uint32_t mr_cpu_share_quota(const char *cgroup, const char *mount)
{
    char line[PATH_MAX];
    uint32_t least = 0;
    FILE *file = fopen(cgroup, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        least = smaller_limit(least, read_quota_of_line(line, mount));
    fclose(file);
    return least;
}

/* ---- this process ---- */

/* The parent of a task is a process of Slurm, which may use more CPUs than the job. */
static uint32_t count_launcher(uint32_t n_own)
{
    cpu_set_t set;
    uint32_t n =
        sched_getaffinity(getppid(), sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 0;
    n = n > n_own ? n : n_own; /* a rank may have widened the mask of its launcher */
    return getenv(SLURM_TASKS) ? smaller_limit(n, read_count(getenv("SLURM_CPUS_ON_NODE"))) : n;
}

void mr_cpu_share_read(struct mr_cpu_share *share_out)
{
    uint32_t n_own = mr_cpu_count();
    *share_out =
        (struct mr_cpu_share){.n_own = n_own,
                              .n_launcher = count_launcher(n_own),
                              .n_quota = mr_cpu_share_quota("/proc/self/cgroup", "/sys/fs/cgroup"),
                              .n_ranks = mr_cpu_share_ranks()};
}
