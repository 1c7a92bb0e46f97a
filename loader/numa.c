/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's lists of nodes and CPUs, and places memory and workers by them.
 *
 * Invariant: memory is placed before it is reserved and before the first batch, because pages that
 * were touched before stay where they are.
 */
#include "loader/numa.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_NODES "/sys/devices/system/node"
#define KERNEL_ONLINE "/sys/devices/system/cpu/online"

enum { MAX_NODES = 1024 };

/* Parse "3" or "3-7" at *at, and move *at past it. */
static bool parse_range(const char **at, unsigned long *first_out, unsigned long *last_out)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    *first_out = *last_out = strtoul(*at, &end, 10);
    if (*end == '-') {
        if (!isdigit((unsigned char)end[1]))
            return false;
        *last_out = strtoul(end + 1, &end, 10);
    }
    *at = end;
    return *first_out <= *last_out && *last_out < CPU_SETSIZE;
}

bool mr_numa_parse_cpus(const char *text, cpu_set_t *cpus_out)
{
    unsigned long first;
    unsigned long last;
    CPU_ZERO(cpus_out);
    bool more = *text != '\0' && *text != '\n';
    while (more) {
        if (!parse_range(&text, &first, &last))
            return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, cpus_out);
        more = *text == ',';
        text += more;
    }
    return *text == '\0' || strcmp(text, "\n") == 0;
}

/* Read a list file. Lists of nodes have the format of lists of CPUs. */
static bool read_list(const char *path, cpu_set_t *set_out)
{
    char text[8192];
    CPU_ZERO(set_out);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len < 0)
        return false;
    text[len] = '\0';
    if (mr_numa_parse_cpus(text, set_out))
        return true;
    CPU_ZERO(set_out);
    return false;
}

uint32_t mr_numa_n_nodes(const char *nodes)
{
    char path[4096];
    cpu_set_t online;
    snprintf(path, sizeof path, "%s/online", nodes ? nodes : KERNEL_NODES);
    int n = read_list(path, &online) ? CPU_COUNT(&online) : 0;
    return n > 0 ? (uint32_t)n : 1;
}

bool mr_numa_node_cpus(const char *nodes, int32_t node, cpu_set_t *cpus_out)
{
    char path[4096];
    CPU_ZERO(cpus_out);
    if (node < 0)
        return false;
    snprintf(path, sizeof path, "%s/node%d/cpulist", nodes ? nodes : KERNEL_NODES, node);
    return read_list(path, cpus_out) && CPU_COUNT(cpus_out) > 0;
}

void mr_numa_prefer_memory(const char *nodes, const struct mr_slab *slab, int32_t node)
{
    unsigned long bits[MAX_NODES / (8 * sizeof(unsigned long))] = {0};
    const size_t word = 8 * sizeof *bits;
    if (node < 0 || node >= MAX_NODES || mr_numa_n_nodes(nodes) < 2)
        return;
    bits[(size_t)node / word] = 1UL << ((size_t)node % word);
    /*
     * The kernel uses one bit less than maxnode. The policy of a shared mapping belongs to the
     * memory itself.
     */
    syscall(SYS_mbind, slab->base, slab->len_bytes, MPOL_PREFERRED, bits,
            (unsigned long)MAX_NODES + 1, 0U);
}

void mr_numa_place_workers(const char *nodes, const struct mr_shared *shared, int32_t node)
{
    cpu_set_t mask;
    cpu_set_t near;
    struct mr_control *control = shared->control;
    if (mr_numa_n_nodes(nodes) < 2 || !mr_numa_node_cpus(nodes, node, &near) ||
        sched_getaffinity(0, sizeof mask, &mask) != 0)
        return;
    CPU_AND(&near, &near, &mask);
    memcpy(control->near_cpus, &near, sizeof control->near_cpus);
    for (uint32_t i = 0; i < control->n_workers && i < (uint32_t)CPU_COUNT(&near); i++)
        atomic_store_explicit(&shared->records[i].near, 1, memory_order_release);
}

void mr_numa_describe_cpus(const cpu_set_t *cpus, char *text_out, size_t size)
{
    size_t len = 0;
    text_out[0] = '\0';
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        size_t last = cpu;
        char range[32];
        if (!CPU_ISSET(cpu, cpus))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
            last++;
        int n = snprintf(range, sizeof range, cpu == last ? "%s%zu" : "%s%zu-%zu",
                         len > 0 ? "," : "", cpu, last);
        if (len + (size_t)n + sizeof ",..." > size) {
            snprintf(text_out + len, size - len, ",...");
            return;
        }
        memcpy(text_out + len, range, (size_t)n + 1);
        len += (size_t)n;
        cpu = last;
    }
}

void mr_numa_describe_mask(uint32_t n_workers, const cpu_set_t *mask, const cpu_set_t *online,
                           char text_out[MR_NUMA_TEXT])
{
    char cpus[96];
    char all[96];
    cpu_set_t both;
    int n = CPU_COUNT(mask);
    mr_numa_describe_cpus(mask, cpus, sizeof cpus);
    mr_numa_describe_cpus(online, all, sizeof all);
    CPU_AND(&both, mask, online);
    int len = snprintf(text_out, MR_NUMA_TEXT, "%u workers share %d usable CPU%s: ", n_workers, n,
                       n == 1 ? "" : "s");
    text_out += len;
    size_t left = MR_NUMA_TEXT - (size_t)len;
    if (CPU_EQUAL(&both, online))
        snprintf(text_out, left, "the machine has only CPUs %s; num_workers %d is enough", cpus, n);
    else
        snprintf(text_out, left,
                 "this process is bound to CPU %s of %s; start it with mpirun --bind-to none, srun "
                 "--cpus-per-task=%u or --cpu-bind=none, taskset -c %s, or another cpuset of the "
                 "container",
                 cpus, all, n_workers + 1, all);
}

bool mr_numa_get_masks(cpu_set_t *mask_out, cpu_set_t *online_out)
{
    if (sched_getaffinity(0, sizeof *mask_out, mask_out) != 0)
        return false;
    if (!read_list(KERNEL_ONLINE, online_out) || CPU_COUNT(online_out) == 0)
        *online_out = *mask_out;
    return true;
}
